"""All parallel text of a recipe, whatever its format: the pairs of a language and split as a stream."""

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
from cclm.errors import DataError
from cclm.recipe.schema import DataSection

SPLITS = ("train", "dev", "test")
Pair = tuple[int, str, str]
"""Number in the file, text of the pivot, text of the other language."""

_NO_WORD = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """The text without case, width, punctuation and spaces: sentences that fold to the same count as the same."""
    return _NO_WORD.sub("", unicodedata.normalize("NFKC", text).casefold())


def digest(text: str) -> int:
    """A 64-bit hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass
class Texts:
    """The text that a recipe's `data` section names."""

    settings: DataSection
    _cuts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By language: the digests up to which a sentence is cut off for dev, and for dev or test."""
    _found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By language: the splits that have files of their own."""

    def splits(self, language: str) -> tuple[str, ...]:
        """The splits that this language has, from files or cut off."""
        there = self._in_files(language)
        if "train" not in there:
            readers.inputs(self._source, language, "train")  # refuses what is in files, with the names it looked for
            raise DataError(f"no training text of {language} in {self.settings.path}")
        return tuple(split for split in SPLITS if split in there or self._cut_size(language, split))

    def inputs(self) -> dict[str, list[Path]]:
        """Every file that is read, by what it is read for: `aze.train`. The phrasebook has one file per language."""
        if self.settings.format == "phrasebook":
            from cclm.data.readers.phrasebook import phrasebook_files

            return {"phrasebook": phrasebook_files()}
        return {
            f"{lang}.{split}": list(readers.inputs(self._source, lang, split))
            for lang in self.settings.languages
            for split in self._in_files(lang)
        }

    def read(self, language: str, split: str, drops: Counter[str]) -> Iterator[Pair]:
        """The pairs, decoded but not cleaned; what never becomes a pair is counted in `drops`."""
        if not any(self._cut_size(language, part) for part in SPLITS):
            yield from self._read_files(language, split, drops)
            return
        if split in self._in_files(language) and split != "train":
            yield from self._read_files(language, split, drops)
            return
        for pair in self._read_files(language, "train", drops):
            if self._goes_to(language, pair[1]) == split:
                yield pair

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
        if language not in self._found:  # every pair of a split that is cut off asks for them
            self._found[language] = readers.splits(self._source, language)
        return self._found[language]

    def _read_files(self, language: str, split: str, drops: Counter[str]) -> Iterator[Pair]:
        if self.settings.format == "phrasebook":
            from cclm.data.readers.phrasebook import phrasebook_pairs

            return phrasebook_pairs(self.settings.seed, language, split)
        return readers.read(self._source, language, split, drops)

    def _cut_size(self, language: str, split: str) -> int:
        wanted = {"dev": self.settings.cut.dev, "test": self.settings.cut.test}.get(split, 0)
        return wanted if wanted and split not in self._in_files(language) else 0

    def _goes_to(self, language: str, pivot: str) -> str:
        """The split of a pair, by its sentence in the pivot language alone, so that copies of it go the same way."""
        if language not in self._cuts:
            self._cuts[language] = self._find_cut(language)
        dev, test = self._cuts[language]
        value = self._cut_digest(pivot)
        return "dev" if value <= dev else "test" if value <= test else "train"

    def _cut_digest(self, pivot: str) -> int:
        return digest(f"{self.settings.seed} cut {folded(clean(pivot)[0])}") >> 1

    def _find_cut(self, language: str) -> tuple[int, int]:
        values = array("q", (self._cut_digest(pair[1]) for pair in self._read_files(language, "train", Counter())))
        distinct = np.unique(np.frombuffer(values, dtype=np.int64))
        dev, test = self._cut_size(language, "dev"), self._cut_size(language, "test")
        if len(distinct) <= dev + test:
            raise DataError(
                f"data.cut asks for {dev} dev and {test} test pairs of {language},"
                f" which has {len(distinct)} different sentences"
            )
        return int(distinct[dev - 1]) if dev else -1, int(distinct[dev + test - 1])
