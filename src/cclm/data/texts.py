"""The parallel text of a recipe in any format, as a stream of pairs per language and split."""

import hashlib
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cclm.data import readers
from cclm.data.cleaning import clean
from cclm.data.readers.source import SPLITS, Chunk, Pair, in_chunks
from cclm.errors import DataError
from cclm.recipe.schema import DataSection

_NOT_A_WORD = re.compile(r"[\W_]+")
_ASCII_NOT_A_WORD = {code: None for code in range(128) if not chr(code).isalnum()}


def folded(text: str) -> str:
    """The text without case, width, punctuation and spaces. Sentences that are equal after this count as the same."""
    if text.isascii():  # the same, in a quarter of the time
        return text.lower().translate(_ASCII_NOT_A_WORD)
    return _NOT_A_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())


def digest(text: str) -> int:
    """A 64-bit hash: sets of hashes need far less memory than sets of sentences."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass
class Texts:
    """The text described by the `data` section of a recipe."""

    settings: DataSection
    _cuts: "dict[str, _Limits]" = field(default_factory=dict)
    """By language."""
    _splits_in_files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By language: the splits that have their own files."""

    def splits(self, language: str) -> tuple[str, ...]:
        """The splits of a language: those with files, and those taken from the training text (`data.cut`)."""
        in_files = self._in_files(language)
        if "train" not in in_files:
            readers.inputs(self._source, language, "train")  # raises with the file names that were tried
            raise DataError(f"no training text of {language} in {self.settings.path}")
        return tuple(split for split in SPLITS if split in in_files or self._cut_size(language, split))

    def inputs(self) -> dict[str, list[Path]]:
        """All input files by their use, such as `aze.train`. The phrasebook has a single use for all its files."""
        if self.settings.format == "phrasebook":
            from cclm.data.readers.phrasebook import phrasebook_files

            return {"phrasebook": phrasebook_files()}
        return {
            f"{lang}.{split}": list(readers.inputs(self._source, lang, split))
            for lang in self.settings.languages
            for split in self._in_files(lang)
        }

    def read(self, language: str, split: str, drops: Counter[str]) -> Iterator[Pair]:
        """The pairs, decoded but not cleaned. Lines that are not a pair are counted in `drops`, by reason."""
        return (pair for chunk in self.chunks(language, split) for pair in chunk.pairs(drops))

    def chunks(self, language: str, split: str) -> Iterator[Chunk]:
        """The same pairs in chunks, which worker processes decode."""
        nothing_is_cut = not any(self._cut_size(language, part) for part in SPLITS)
        if nothing_is_cut or (split in self._in_files(language) and split != "train"):
            return self._chunks_of_files(language, split)
        cut = self._cut(language)
        return (_Cut(chunk, cut, split) for chunk in self._chunks_of_files(language, "train"))

    @property
    def _source(self) -> readers.Source:
        settings = self.settings
        assert settings.format != "phrasebook"
        return readers.Source(
            format=settings.format,
            path=settings.path or "",
            pivot=settings.pivot,
            languages=settings.languages,
            columns=settings.columns,
            detokenize=settings.detokenize,
            on_bad_utf8=settings.on_bad_utf8,
        )

    def _in_files(self, language: str) -> tuple[str, ...]:
        if self.settings.format == "phrasebook":
            return SPLITS
        if language not in self._splits_in_files:
            self._splits_in_files[language] = readers.splits(self._source, language)
        return self._splits_in_files[language]

    def _chunks_of_files(self, language: str, split: str) -> Iterator[Chunk]:
        if self.settings.format == "phrasebook":
            from cclm.data.readers.phrasebook import phrasebook_pairs

            return in_chunks(phrasebook_pairs(self.settings.seed, language, split), Counter())
        return readers.chunks(self._source, language, split)

    def _cut_size(self, language: str, split: str) -> int:
        size = {"dev": self.settings.cut.dev, "test": self.settings.cut.test}.get(split, 0)
        return size if size and split not in self._in_files(language) else 0

    def _cut(self, language: str) -> "_Limits":
        if language not in self._cuts:
            self._cuts[language] = self._find_cut(language)
        return self._cuts[language]

    def _find_cut(self, language: str) -> "_Limits":
        seed, chunks = self.settings.seed, self._chunks_of_files(language, "train")
        pairs = (pair for chunk in chunks for pair in chunk.pairs(Counter()))
        distinct = np.unique(np.frombuffer(array("q", (_cut_digest(seed, pair[1]) for pair in pairs)), dtype=np.int64))
        dev, test = self._cut_size(language, "dev"), self._cut_size(language, "test")
        if len(distinct) <= dev + test:
            raise DataError(
                f"data.cut takes {dev} dev and {test} test pairs of {language},"
                f" which has only {len(distinct)} different sentences"
            )
        return _Limits(seed, int(distinct[dev - 1]) if dev else -1, int(distinct[dev + test - 1]))


@dataclass(frozen=True)
class _Limits:
    """Pivot sentences with digests up to `dev` are dev text, those above up to `test` are test text."""

    seed: int
    dev: int
    test: int

    def split_of(self, pivot: str) -> str:
        """The split of a pair. It depends on the pivot sentence only, so that repeated sentences stay in one split."""
        value = _cut_digest(self.seed, pivot)
        return "dev" if value <= self.dev else "test" if value <= self.test else "train"


def _cut_digest(seed: int, pivot: str) -> int:
    return digest(f"{seed} cut {folded(clean(pivot)[0])}") >> 1


@dataclass(frozen=True)
class _Cut:
    """The pairs of a chunk that belong to a split."""

    chunk: Chunk
    limits: _Limits
    split: str

    def pairs(self, drops: Counter[str]) -> Iterator[Pair]:
        return (pair for pair in self.chunk.pairs(drops) if self.limits.split_of(pair[1]) == self.split)
