"""Prepared data on disk: memory-mapped ids, and a manifest with their origin and checksums.

prepared/
  manifest.json                     settings, inputs, counts, and the SHA-256 of every other file
  other.json, pivot.json            the vocabularies (joint: vocabulary.json alone)
  counts.json                       count of each subword in the training text of each language
  models/{lang}.model               SentencePiece
  {lang}/{split}.tokens.npy         ids of all sentences: other, pivot, other, pivot, ...
  {lang}/{split}.offsets.npy        start of each sentence; 2 n + 1 numbers for n pairs
  {lang}/{dev,test}.tsv             the cleaned text of the dev and test sets: pivot, tab, other language
"""

import resource
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cclm.data.cleaning import clean
from cclm.data.texts import Texts
from cclm.data.vocabulary import Segmenter, Vocabulary
from cclm.errors import DataError
from cclm.formats.base import FileFacts, sha256
from cclm.formats.prepared import Manifest, PieceCounts, VocabularyFile, read_counts
from cclm.recipe.schema import DataSection

OTHER_FILES = 256
"""How many files a process may have open in addition to prepared data."""


@dataclass(frozen=True)
class Corpus:
    """The pairs of one language and split, as ids. The arrays are memory-mapped: pages are read on first access."""

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
        """The numbers of tokens (n, 2) of the other language and of the pivot, without </s>."""
        return np.diff(self.offsets).reshape(-1, 2)


class Prepared:
    """A verified folder of prepared data."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def open(cls, folder: Path, *, verify: bool = True) -> "Prepared":
        """Opens prepared data. DataError if a file is missing, changed or damaged.

        With `verify=False` only the sizes of the files are checked.
        """
        if not (folder / "manifest.json").exists():
            raise DataError(f"{folder}: no prepared data; run `cclm prepare` first")
        manifest = Manifest.read(folder / "manifest.json")
        for name, facts in (manifest.files | manifest.texts).items():
            _check_file(folder / name, facts, verify)
        _raise_open_file_limit(len(manifest.files) + OTHER_FILES)
        return cls(folder, manifest)

    @property
    def fingerprint(self) -> str:
        """A hash of the data and its origin."""
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
            raise DataError(f"{self.folder}: no {split} data of {language!r}; available: {self._listed()}")
        stem = self.folder / language / split
        try:
            tokens = np.load(f"{stem}.tokens.npy", mmap_mode="r")
            return Corpus(tokens, np.load(f"{stem}.offsets.npy", mmap_mode="r"))
        except OSError as error:
            raise DataError(
                f"{stem}: {error.strerror}; if too many files are open, raise the limit: ulimit -n 8192"
            ) from None

    def text(self, language: str, split: str, settings: DataSection) -> list[tuple[str, str]]:
        """The cleaned text of a dev or test set as (pivot, other language), as it was when the data was prepared.

        Data prepared by version 0.1.0 has no text. The text is then read from the input files of `settings`; DataError
        if they have changed.
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
                break  # a dev or test set without its own files was taken from the training text
        pairs = [(clean(pivot)[0], clean(other)[0]) for _, pivot, other in texts.read(language, split, Counter())]
        expected = self.sizes[language][split]
        if len(pairs) != expected:
            raise DataError(f"{changed}: {len(pairs):,} pairs, but {expected:,} were prepared")
        return pairs

    @cached_property
    def other(self) -> Vocabulary:
        """The vocabulary of the languages other than the pivot."""
        return self._vocabulary("vocabulary" if self.joint else "other")

    @cached_property
    def pivot(self) -> Vocabulary:
        """The vocabulary of the pivot language."""
        return self.other if self.joint else self._vocabulary("pivot")

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return bool(self.manifest.settings.vocabulary["joint"])

    @property
    def pieces_wanted(self) -> int:
        """The value of `vocabulary.pieces` in the recipe that the data was prepared with."""
        return int(str(self.manifest.settings.vocabulary["pieces"]))

    def model_file(self, language: str) -> str:
        """The name in `models` of the model that splits a language: a file, or the folder of a pretrained tokenizer.

        If all languages share a model, languages that were added to a run later still have one each.
        """
        if self.other.layout:
            return "tokenizer"
        own = f"{language}.model"
        return "joint.model" if self.joint and not (self.folder / "models" / own).is_file() else own

    @property
    def pretrained(self) -> list[str]:
        """The checksums of the pretrained model that the data was prepared for; empty without one."""
        return self.manifest.made_from.inputs.get("pretrained", [])

    def segmenter(self, language: str) -> Segmenter:
        """The SentencePiece model for text in this language."""
        return Segmenter(self.folder / "models" / self.model_file(language))

    def pieces_of(self, language: str) -> list[str]:
        """The pieces of a joint model that occur in the training text of a language, which may be the pivot."""
        counts = self._piece_counts
        if language in counts:
            return list(counts[language])
        # counts.json has the other languages, and the vocabulary the sum over all of them and the pivot.
        others = Counter[str]()
        for table in counts.values():
            others.update(table)
        return [piece for piece, i in self.pivot.ids.items() if self.pivot.counts[i] > others[piece]]

    def counts(self) -> PieceCounts:
        """The count of each subword in the training text of each language; vocabulary overlap is computed from it."""
        return read_counts(self.folder / "counts.json")

    @cached_property
    def _piece_counts(self) -> PieceCounts:
        return self.counts()

    def _vocabulary(self, name: str) -> Vocabulary:
        return Vocabulary.of(VocabularyFile.read(self.folder / f"{name}.json"))

    def _listed(self) -> str:
        return ", ".join(f"{lang} ({', '.join(splits)})" for lang, splits in self.sizes.items())


def _raise_open_file_limit(files: int) -> None:
    """Raises the limit on open files as far as the system allows, because each memory-mapped file counts as open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard < 0 else min(files, hard), hard))


def _check_file(path: Path, facts: FileFacts, verify: bool) -> None:
    advice = "run `cclm prepare` again"
    if not path.exists():
        raise DataError(f"{path}: missing from the prepared data; {advice}")
    if path.stat().st_size != facts.bytes:
        raise DataError(f"{path}: {path.stat().st_size:,} bytes, expected {facts.bytes:,}; {advice}")
    if verify and sha256(path) != facts.sha256:
        raise DataError(f"{path}: its content has changed since it was prepared (checksum); {advice}")
