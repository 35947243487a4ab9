"""Prepared data on disk: memory-mapped ids with checksums, and a manifest that says what made them.

prepared/
  manifest.json                     settings, inputs, counts, and SHA-256 of every other file
  other.json, pivot.json            the vocabularies (joint: vocabulary.json alone)
  counts.json                       how often each subword stands in the training text of each language
  models/{lang}.model               SentencePiece
  {lang}/{split}.tokens.npy         ids of all sentences: other, pivot, other, pivot, ...
  {lang}/{split}.offsets.npy        where each sentence begins; 2 n + 1 numbers for n pairs
"""

import hashlib
import json
import resource
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cclm.data.vocabulary import Segmenter, Vocabulary
from cclm.errors import DataError

VERSION = 1
SPLITS = ("train", "dev", "test")
SPARE = 256
"""Files that a process may have open beside prepared data."""


@dataclass(frozen=True)
class Corpus:
    """The pairs of one language and split, as ids; nothing is read before it is asked for."""

    tokens: NDArray[np.unsignedinteger]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return (len(self.offsets) - 1) // 2

    def pair(self, index: int) -> tuple[NDArray[np.unsignedinteger], NDArray[np.unsignedinteger]]:
        """The ids of a pair: other language, pivot."""
        start, middle, end = self.offsets[2 * index : 2 * index + 3]
        return self.tokens[start:middle], self.tokens[middle:end]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(n, 2): tokens of the other language and of the pivot, without </s>."""
        return np.diff(self.offsets).reshape(-1, 2)


class Prepared:
    """A folder of prepared data, verified."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> "Prepared":
        """The prepared data in this folder; a file that is missing, changed or damaged is refused."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise DataError(f"{folder}: no prepared data; run `cclm prepare` first")
        for name, facts in manifest["files"].items():
            _check_file(folder / name, facts, verify)
        _let_open(len(manifest["files"]) + SPARE)
        return cls(folder, manifest)

    @property
    def fingerprint(self) -> str:
        """Identifies the data and everything that made it."""
        return str(self.manifest["fingerprint"])

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages but the pivot, as the recipe has them."""
        return tuple(self.manifest["sizes"])

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """Pairs of each language and split."""
        sizes: dict[str, dict[str, int]] = self.manifest["sizes"]
        return sizes

    def corpus(self, language: str, split: str) -> Corpus:
        """The pairs of a language and split."""
        if split not in self.sizes.get(language, {}):
            raise DataError(f"{self.folder}: no {split} data of {language!r}; there are {self._listed()}")
        stem = self.folder / language / split
        try:
            tokens = np.load(f"{stem}.tokens.npy", mmap_mode="r")
            return Corpus(tokens, np.load(f"{stem}.offsets.npy", mmap_mode="r"))
        except OSError as error:
            raise DataError(f"{stem}: {error.strerror}; if that is too many, allow more: ulimit -n 8192") from None

    @cached_property
    def other(self) -> Vocabulary:
        """The vocabulary of the side with many languages."""
        return self._vocabulary("vocabulary" if self.joint else "other")

    @cached_property
    def pivot(self) -> Vocabulary:
        """The vocabulary of the side with one language."""
        return self.other if self.joint else self._vocabulary("pivot")

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return bool(self.manifest["settings"]["vocabulary"]["joint"])

    def segmenter(self, language: str) -> Segmenter:
        """The SentencePiece model for text in this language."""
        name = "joint" if self.joint else language
        return Segmenter(self.folder / "models" / f"{name}.model")

    def counts(self) -> dict[str, dict[str, int]]:
        """How often each subword stands in the training text of each language: what vocabulary overlap is made of."""
        counts: dict[str, dict[str, int]] = json.loads((self.folder / "counts.json").read_text(encoding="utf-8"))
        return counts

    def _vocabulary(self, name: str) -> Vocabulary:
        path = self.folder / f"{name}.json"
        return Vocabulary.from_json(path.read_text(encoding="utf-8"), str(path))

    def _listed(self) -> str:
        return ", ".join(f"{lang} ({', '.join(splits)})" for lang, splits in self.sizes.items())


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder of prepared data; None where there is none."""
    path = folder / "manifest.json"
    if not path.exists():
        return None
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = manifest["version"]
        complete = version != VERSION or {"fingerprint", "settings", "sizes", "files"} <= manifest.keys()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        complete = False
    if not complete:
        raise DataError(f"{path}: damaged; delete the folder and run `cclm prepare` again") from None
    if version != VERSION:
        raise DataError(f"{path}: version {version!r}; this program reads {VERSION}: run `cclm prepare` again")
    return manifest


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _let_open(files: int) -> None:
    """Raises this process's own limit of open files as far as the system lets it: a mapped file counts as open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard < 0 else min(files, hard), hard))


def _check_file(path: Path, facts: dict[str, Any], verify: bool) -> None:
    advice = "run `cclm prepare` again"
    if not path.exists():
        raise DataError(f"{path}: missing from the prepared data; {advice}")
    if path.stat().st_size != facts["bytes"]:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, but {facts['bytes']:,} were prepared; {advice}")
    if verify and sha256(path) != facts["sha256"]:
        raise DataError(f"{path}: its content has changed since it was prepared (checksum); {advice}")
