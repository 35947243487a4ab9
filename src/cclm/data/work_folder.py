"""A work folder: the results of recipes, stored under a hash of their inputs. Other settings replace nothing.

    <work>/cache/prepared/KEY/                     prepared data
    <work>/cache/graph/KEY/graph.json              a language graph
    <work>/cache/benchmark/KEY/{benchmark.json, recipe.json, TASK/...}     L* and the bitext models behind it
    <work>/cache/benchmark/KEY/{benchmark.json, multilingual.json, multilingual/}     or one multilingual training
    <work>/prepared, graph.json, benchmark.json, runs/bitext               links to the current ones
    <work>/runs/NAME/                              the runs

A key is a checksum of everything that decides the content. Old entries stay until `cclm clean`.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cclm.atomic import suppress_missing_locks
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
LINK = re.compile(r"(.*/)?cache/(prepared|graph|benchmark)/[0-9a-f]{16}(/.*)?")
"""The text of a link that cclm has made, wherever the work folder was when it made it."""
UNFINISHED = 3600.0
"""Seconds after which a link that was not renamed is taken for a leftover. Links cannot be locked."""
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


def _is_occupied(path: Path) -> bool:
    """Whether there is something other than a link of ours."""
    try:
        return LINK.fullmatch(os.readlink(path)) is None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # not a link
        return True


def _remove_unfinished(link: Path) -> None:
    """Removes links beside this one that a killed process had not yet renamed to it."""
    name = re.compile(rf"\.{re.escape(link.name)}\.cclm-[0-9a-f]{{16}}\.tmp")
    for path in (link.parent / entry for entry in os.listdir(link.parent) if name.fullmatch(entry)):
        with suppress(OSError):  # another process removes it, too
            if LINK.fullmatch(os.readlink(path)) and time.time() - path.lstat().st_mtime > UNFINISHED:
                path.unlink()


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
            else:
                self._unlink(pointer)

    def link(self, pointer: str, target: Path) -> None:
        """Makes a path in the work folder a link into its cache, atomically."""
        link = self.path / pointer
        # WORK/runs may itself be a link: what is relative in a link is relative to where it really is.
        real = os.path.join(os.path.realpath(self.path), os.path.relpath(target, self.path))
        inside = os.path.relpath(real, os.path.realpath(link.parent))
        if link.is_symlink() and os.readlink(link) == inside:
            return
        self.refuse_occupied([pointer])
        link.parent.mkdir(parents=True, exist_ok=True)
        partial = link.with_name(f".{link.name}.cclm-{secrets.token_hex(8)}.tmp")
        partial.symlink_to(inside)
        partial.replace(link)
        _remove_unfinished(link)

    def remove_pointer(self, kind: str) -> None:
        """Removes the links of a kind, which then has no current entry."""
        for pointer, _ in POINTERS[kind]:
            self._unlink(pointer)

    def _unlink(self, pointer: str) -> None:
        if not _is_occupied(self.path / pointer):
            (self.path / pointer).unlink(missing_ok=True)  # another process may have done so

    def refuse_occupied(self, pointers: Iterable[str]) -> None:
        """Raises DataError if one of these names is taken by something other than a link of ours."""
        for pointer in pointers:
            if _is_occupied(self.path / pointer):
                raise DataError(
                    f"{self.path / pointer}: exists and was not made by cclm; nothing was changed: move it, or change"
                    f" work; cclm needs this path for a link into {self.path / 'cache'}"
                )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lets `cclm clean` remove nothing for the time of a `with` block. Waits while it removes something."""
        with self._lock(fcntl.LOCK_SH):
            yield

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Raises DataError if any process is inside of `in_use`; none enters it for the time of a `with` block."""
        try:
            with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield
        except BlockingIOError:
            raise DataError(
                f"{self.path / 'cache'}: another command is using it; nothing was removed: wait until it has ended"
            ) from None

    @contextmanager
    def _lock(self, operation: int) -> Iterator[None]:
        """Holds the lock on the whole cache, if the file system has locks and the folder can be written to."""
        try:
            (self.path / "cache").mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / "cache" / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            yield
            return
        try:
            with suppress_missing_locks():
                fcntl.flock(descriptor, operation)
            yield
        finally:
            os.close(descriptor)

    def lock_file(self, kind: str, key: str) -> Path:
        """The file that a process locks while it makes an entry."""
        return self.path / "cache" / kind / f".{key}.lock"

    def prepared_of(self, fingerprint: str) -> Prepared | None:
        """The prepared data with this fingerprint, current or not."""
        folder = self._folder_of(fingerprint)
        return Prepared.open(folder, verify=False) if folder else None

    def manifest_of(self, fingerprint: str) -> Manifest | None:
        """The manifest of the prepared data with this fingerprint, current or not."""
        folder = self._folder_of(fingerprint)
        return Manifest.find(folder / "manifest.json") if folder else None

    def _folder_of(self, fingerprint: str) -> Path | None:
        for folder in [self.path / "prepared", *self.entries("prepared")]:
            manifest = Manifest.find(folder / "manifest.json")
            if manifest and manifest.fingerprint == fingerprint:
                return folder
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
