"""Where parallel text lies and how it is written."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from cclm.data.readers.files import OnBadUtf8
from cclm.errors import DataError
from cclm.recipe.language_codes import canonical, check_language

Format = Literal["moses", "tsv", "ted", "tmx", "huggingface"]
Columns = Literal["pivot-first", "other-first"]
SPLITS = ("train", "dev", "test")
_PLACEHOLDERS = {"lang", "split", "pivot", "side"}


@dataclass(frozen=True)
class Source:
    """What to read: Source("tsv", "data/{lang}.{split}.tsv"), Source("ted", "data/ted", detokenize=True)."""

    format: Format
    path: str
    """A folder, a pattern with {lang}, {split}, {pivot} and {side}, or the name of a data set on the hub."""
    pivot: str = "eng"
    """The language that every pair has on one side."""
    languages: tuple[str, ...] = ()
    columns: Columns = "pivot-first"
    """Which column of a TSV is the pivot's."""
    detokenize: bool = False
    """Undo the tokenisation of TED and Moses text."""
    on_bad_utf8: OnBadUtf8 = "error"

    def __post_init__(self) -> None:
        for name, allowed in (("format", Format), ("columns", Columns), ("on_bad_utf8", OnBadUtf8)):
            given, choices = getattr(self, name), get_args(allowed)
            if given not in choices:
                raise DataError(f"data.{name} must be one of {', '.join(choices)}; got {given!r}")
        for code in (self.pivot, *self.languages):
            check_language(code)
        if self.detokenize and self.format not in ("ted", "moses"):
            raise DataError(f"data.detokenize is for ted and moses; got data.format {self.format}")
        _check_pattern(self)


def _check_pattern(source: Source) -> None:
    path, given = source.path, set(re.findall(r"\{(.*?)\}", source.path))
    if not path or "\0" in path:
        raise DataError(f"data.path {path!r} is no path")
    if unknown := sorted(given - _PLACEHOLDERS):
        raise DataError(
            f"data.path {path}: unknown {{{unknown[0]}}}; known are {{lang}}, {{split}}, {{pivot}}, {{side}}"
        )
    if "side" in given and source.format != "moses":
        raise DataError(f"data.path {path}: {{side}} is for moses, two files a pair; got data.format {source.format}")
    if given and "side" not in given and source.format == "moses":
        raise DataError(f"data.path {path}: moses text is two files a pair; put {{side}} where their names differ")
    if given and "lang" not in given and source.format == "tsv" and len(source.languages) > 1:
        raise DataError(f"data.path {path}: one file for {len(source.languages)} languages; put {{lang}} into the path")


def check_pair(source: Source, lang: str, split: str) -> None:
    """Refuses what cannot name a pair of this source."""
    check_language(lang)
    if canonical(lang) == canonical(source.pivot):
        raise DataError(f"language {lang} is the pivot ({source.pivot}) itself; a pair takes two languages")
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
