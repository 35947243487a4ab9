"""Prepared data on disk: memory-mapped ids with checksums, and a manifest with everything that made them.

prepared/
  manifest.json                     settings, inputs, counts, and SHA-256 of every other file
  other.json, pivot.json            the vocabularies (joint: vocabulary.json alone)
  counts.json                       how often each subword occurs in the training text of each language
  models/{lang}.model               SentencePiece
  {lang}/{split}.tokens.npy         ids of all sentences: other, pivot, other, pivot, ...
  {lang}/{split}.offsets.npy        where each sentence begins; 2 n + 1 numbers for n pairs
  {lang}/{dev,test}.tsv             the text of dev and test set, cleaned: pivot, tab, other language
"""

import resource
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cclm.data.cleaning import clean
from cclm.data.texts import SPLITS, Texts
from cclm.data.vocabulary import Segmenter, Vocabulary
from cclm.errors import DataError
from cclm.formats.base import FileFacts, sha256
from cclm.formats.prepared import Manifest, PieceCounts, VocabularyFile, read_counts
from cclm.recipe.schema import DataSection

SPARE = 256
"""Files that a process may have open beside prepared data."""

__all__ = ["SPLITS", "Corpus", "Prepared", "sha256"]


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

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> "Prepared":
        """The prepared data in this folder; a file that is missing, changed or damaged is refused.

        Without `verify` only the sizes of files are checked, not their content.
        """
        if not (folder / "manifest.json").exists():
            raise DataError(f"{folder}: no prepared data; run `cclm prepare` first")
        manifest = Manifest.read(folder / "manifest.json")
        for name, facts in (manifest.files | manifest.texts).items():
            _check_file(folder / name, facts, verify)
        _let_open(len(manifest.files) + SPARE)
        return cls(folder, manifest)

    @property
    def fingerprint(self) -> str:
        """Identifies the data and everything that made it."""
        return self.manifest.fingerprint

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages except the pivot, in the order of the recipe."""
        return tuple(self.sizes)

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The number of pairs per language and split."""
        return self.manifest.sizes

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

    def text(self, language: str, split: str, settings: DataSection) -> list[tuple[str, str]]:
        """The text of a dev or test set as (pivot, other language), cleaned, as it was when it was prepared.

        Data prepared by version 0.1.0 has no text. It is then read from the files that `settings` name, and refused
        if these have changed.
        """
        name = f"{language}/{split}.tsv"
        if name not in self.manifest.texts:
            return self._text_of_inputs(language, split, settings)
        path = self.folder / name
        _check_file(path, self.manifest.texts[name], verify=True)
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        return [(pivot, other) for pivot, _, other in (line.partition("\t") for line in lines)]

    def _text_of_inputs(self, language: str, split: str, settings: DataSection) -> list[tuple[str, str]]:
        texts, changed = Texts(settings), f"{split} set of {language}: the text has changed since it was prepared"
        inputs, before = texts.inputs(), self.manifest.made_from.inputs
        for use in (f"{language}.{split}", f"{language}.train", "phrasebook"):
            if use in before:
                if [sha256(path) for path in inputs.get(use, ())] != before[use]:
                    raise DataError(f"{changed}; run `cclm prepare` again")
                break  # a dev or test set without files of its own was cut off the training text
        pairs = [(clean(pivot)[0], clean(other)[0]) for _, pivot, other in texts.read(language, split, Counter())]
        expected = self.sizes[language][split]
        if len(pairs) != expected:
            raise DataError(f"{changed}: {len(pairs):,} pairs, but {expected:,} were prepared")
        return pairs

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
        return bool(self.manifest.settings.vocabulary["joint"])

    @property
    def pieces_wanted(self) -> int:
        """The `vocabulary.pieces` of the recipe that the data was prepared for."""
        return int(str(self.manifest.settings.vocabulary["pieces"]))

    def segmenter(self, language: str) -> Segmenter:
        """The SentencePiece model for text in this language."""
        name = "joint" if self.joint else language
        return Segmenter(self.folder / "models" / f"{name}.model")

    def counts(self) -> PieceCounts:
        """How often each subword occurs in the training text of each language: vocabulary overlap is made of it."""
        return read_counts(self.folder / "counts.json")

    def _vocabulary(self, name: str) -> Vocabulary:
        return Vocabulary.of(VocabularyFile.read(self.folder / f"{name}.json"))

    def _listed(self) -> str:
        return ", ".join(f"{lang} ({', '.join(splits)})" for lang, splits in self.sizes.items())


def _let_open(files: int) -> None:
    """Raises this process's limit of open files as far as the system allows: a memory-mapped file counts as open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard < 0 else min(files, hard), hard))


def _check_file(path: Path, facts: FileFacts, verify: bool) -> None:
    advice = "run `cclm prepare` again"
    if not path.exists():
        raise DataError(f"{path}: missing from the prepared data; {advice}")
    if path.stat().st_size != facts.bytes:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, but {facts.bytes:,} were prepared; {advice}")
    if verify and sha256(path) != facts.sha256:
        raise DataError(f"{path}: its content has changed since it was prepared (checksum); {advice}")
