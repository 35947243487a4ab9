"""A work folder: the results of recipes, stored under a hash of their inputs. Other settings replace nothing.

    <work>/cache/prepared/KEY/                     prepared data
    <work>/cache/graph/KEY/graph.json              a language graph
    <work>/cache/benchmark/KEY/{benchmark.json, recipe.json, TASK/...}     L* and the bitext models behind it
    <work>/cache/benchmark/KEY/{benchmark.json, multilingual.json, multilingual/}     or one multilingual training
    <work>/prepared, graph.json, benchmark.json, runs/bitext               links to the current ones
    <work>/runs/NAME/                              the runs

A key is a checksum of everything that decides the content. Old entries stay until `cclm clean`.
"""

import hashlib
import json
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.formats.prepared import Manifest

KEY = re.compile(r"[0-9a-f]{16}")
POINTERS = {
    "prepared": (("prepared", "."),),
    "graph": (("graph.json", "graph.json"), ("graph.svg", "graph.svg")),
    "benchmark": (("benchmark.json", "benchmark.json"), ("runs/bitext", ".")),
}
"""For each kind of entry: the names of its links in the work folder, and their targets inside the entry."""
NEEDED = {"runs/bitext": "recipe.json"}
"""Files that an entry must have for a link: the entry of a multilingual training has no bitext models."""


def key_of(content: object) -> str:
    """The key of an entry that is made from this JSON value. Null settings are left out of the hash, so that a later
    version can add optional settings without changing existing keys."""
    return hashlib.sha256(json.dumps(_without_null(content), sort_keys=True).encode()).hexdigest()[:16]


def _without_null(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_null(part) for name, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class WorkFolder:
    """The cache of a work folder."""

    path: Path

    def entry(self, kind: str, key: str) -> Path:
        """The folder of an entry, which need not exist."""
        return self.path / "cache" / kind / key

    def entries(self, kind: str) -> list[Path]:
        """All entries of a kind."""
        folder = self.path / "cache" / kind
        return sorted(path for path in folder.iterdir() if KEY.fullmatch(path.name)) if folder.is_dir() else []

    def current(self, kind: str) -> Path | None:
        """The entry that the link of a kind points at."""
        pointer, _ = POINTERS[kind][0]
        inside = self.path / "cache" / kind
        target = Path(os.path.realpath(self.path / pointer))
        folder = target if kind == "prepared" else target.parent
        return inside / folder.name if folder.parent == Path(os.path.realpath(inside)) and target.exists() else None

    def point(self, kind: str, key: str) -> None:
        """Makes an entry the current one of its kind."""
        for pointer, inside in POINTERS[kind]:
            if (self.entry(kind, key) / NEEDED.get(pointer, inside)).exists():
                self.link(pointer, self.entry(kind, key) / inside)
            elif (self.path / pointer).is_symlink():
                (self.path / pointer).unlink(missing_ok=True)  # another process may have done so

    def link(self, pointer: str, target: Path) -> None:
        """Lets a name in the work folder point at something in its cache, in one step."""
        link = self.path / pointer
        inside = os.path.relpath(target, link.parent)
        if link.is_symlink() and os.readlink(link) == inside:
            return
        if os.path.lexists(link) and not link.is_symlink():
            raise DataError(
                f"{link}: not a link, but cclm needs this path for a link into {self.path / 'cache'}; move it"
            )
        link.parent.mkdir(parents=True, exist_ok=True)
        partial = link.with_name(f".{link.name}.cclm-{secrets.token_hex(8)}.tmp")
        partial.symlink_to(inside)
        partial.replace(link)

    def remove_pointer(self, kind: str) -> None:
        """Leaves a kind without a current entry."""
        for pointer, _ in POINTERS[kind]:
            (self.path / pointer).unlink(missing_ok=True)

    def lock_file(self, kind: str, key: str) -> Path:
        """The file that a process locks while it makes an entry."""
        return self.path / "cache" / kind / f".{key}.lock"

    def prepared_of(self, fingerprint: str) -> Prepared | None:
        """The prepared data with this fingerprint, current or not."""
        for folder in [self.path / "prepared", *self.entries("prepared")]:
            manifest = Manifest.find(folder / "manifest.json")
            if manifest and manifest.fingerprint == fingerprint:
                return Prepared.open(folder, verify=False)
        return None

    def data_of_run(self, run: Path, fingerprint: str | None) -> Prepared:
        """The prepared data that a run was trained on. DataError if it is missing or has another fingerprint."""
        if fingerprint is None:  # the run has no recorded fingerprint
            return Prepared.open(self.path / "prepared", verify=False)
        found = self.prepared_of(fingerprint)
        if found is None:
            there = Manifest.find(self.path / "prepared" / "manifest.json")
            now = f"that in {self.path / 'prepared'} is {there.fingerprint[:16]}" if there else "there is none"
            raise DataError(
                f"{run} was trained on prepared data {fingerprint[:16]}, but {now};"
                " prepare it again with the recipe and the text of the run"
            )
        return found
