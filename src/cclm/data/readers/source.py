"""Where parallel text is, in which format, and which files belong to a language and split.

File names may use any spelling of a language's code: `az`, `aze`, `az_Latn`.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

from cclm.data.readers.files import OnBadUtf8
from cclm.errors import DataError
from cclm.recipe.language_codes import canonical, check_language, expressions

Format = Literal["moses", "tsv", "ted", "tmx", "huggingface"]
Columns = Literal["pivot-first", "other-first"]
SPLITS = ("train", "dev", "test")
_PLACEHOLDERS = {"lang", "split", "pivot", "side"}


@dataclass(frozen=True)
class Source:
    """What to read: Source("tsv", "data/{lang}.{split}.tsv"), Source("ted", "data/ted", detokenize=True)."""

    format: Format
    path: str
    """A folder, a pattern with {lang}, {split}, {pivot} and {side}, or the name of a dataset on the hub."""
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
    known = "known are {lang}, {split}, {pivot}, {side}"
    if "{" in (rest := re.sub(r"\{.*?\}", "", path)) or "}" in rest:
        raise DataError(f"data.path {path}: a brace without its partner; {known}")
    if unknown := sorted(given - _PLACEHOLDERS):
        raise DataError(f"data.path {path}: unknown {{{unknown[0]}}}; {known}")
    if "side" in given and source.format != "moses":
        raise DataError(f"data.path {path}: {{side}} is for moses, two files per pair; got data.format {source.format}")
    if given and "side" not in given and source.format == "moses":
        raise DataError(f"data.path {path}: moses text is two files per pair; put {{side}} where their names differ")
    if given and "lang" not in given and source.format == "tsv" and len(source.languages) > 1:
        raise DataError(f"data.path {path}: one file for {len(source.languages)} languages; put {{lang}} into the path")


def check_pair(source: Source, lang: str, split: str) -> None:
    """Refuses a language or split that this source cannot have."""
    check_language(lang)
    if canonical(lang) == canonical(source.pivot):
        raise DataError(f"language {lang} is the pivot ({source.pivot}) itself; a pair takes two languages")
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")


# What is tried in a folder, in this order. Every name also counts with .gz or .zst at its end.
LAYOUTS: dict[Format, tuple[str, ...]] = {
    "moses": (
        "{split}.{lang}-{pivot}.{side}",
        "{split}.{pivot}-{lang}.{side}",
        "{lang}-{pivot}/{split}.{side}",
        "{pivot}-{lang}/{split}.{side}",
        "{lang}/{split}.{side}",
        "{split}.{side}",
    ),
    "tsv": ("{lang}.{split}.tsv",),
    "ted": ("all_talks_{split}.tsv",),
    "tmx": ("{lang}.{split}.tmx", "{lang}-{pivot}.tmx"),  # without {split} all is training text
    "huggingface": (
        "{lang}.{split}.{ext}",
        "{lang}-{pivot}/{split}.{ext}",
        "{lang}-{pivot}.{ext}",
        "{split}.{ext}",
        # Folders of `save_to_disk`: a DatasetDict has a folder per split, a Dataset is one folder.
        "{lang}-{pivot}/{split}",
        "{pivot}-{lang}/{split}",
        "{lang}/{split}",
        "{lang}-{pivot}",
        "{pivot}-{lang}",
        "{split}",
    ),
}
_SPLIT_NAMES = {"train": "train", "dev": "dev|valid|validation", "test": "test"}
_EXTENSIONS = "jsonl|json|parquet|csv"
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_COMPRESSED = ("", ".gz", ".zst")
_MOST = 8


def find(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    """The files with the pairs, or none: (pivot, other language) for moses, one for all other formats."""
    try:
        return _found(source, lang, split)
    except OSError as error:
        raise DataError(f"data.path {source.path}: {error.strerror or error}") from None


def _found(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    sides = ("pivot", "other") if source.format == "moses" else ("",)
    half: list[Path] = []
    for pattern in _patterns(source):
        if split != "train" and "{split}" not in pattern:
            continue
        found = [path for side in sides if (path := _one(source, pattern, lang, split, side))]
        if len(found) == len(sides):
            return tuple(found)
        half += found
    if half:
        raise DataError(f"{half[0]} has no counterpart: {_nothing(source, lang, split)}")
    return ()


def require(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    """The same as `find`; without any file, DataError with the names that were tried and the files that exist."""
    if not (found := find(source, lang, split)):
        if "{" not in source.path and not Path(source.path).exists():
            raise DataError(f"data.path {source.path}: no such file or folder in {Path.cwd()}")
        raise DataError(f"data.path {source.path}: {_nothing(source, lang, split)}")
    return found


def _patterns(source: Source) -> tuple[str, ...]:
    if "{" not in source.path and Path(source.path).is_dir():
        return tuple(str(Path(source.path) / layout) for layout in LAYOUTS[source.format])
    if source.format == "moses" and "{" not in source.path:
        raise DataError(f"data.path {source.path}: no such folder; moses text is two files per pair")
    return (source.path,)


def _one(source: Source, pattern: str, lang: str, split: str, side: str) -> Path | None:
    """The one file that fits the pattern. A region that was asked for ("pt-br") goes before the bare language."""
    pivot = expressions(source.pivot)[-1]
    for language in expressions(lang):
        side_expression = language if side == "other" else pivot
        values = {"lang": language, "pivot": pivot, "side": side_expression}
        values |= {"split": _SPLIT_NAMES[split], "ext": _EXTENSIONS}
        fitting = list(_fitting(source, pattern, values))
        if len(fitting) > 1:
            whose = source.pivot if side == "pivot" else lang
            raise DataError(f"{fitting[0]} and {fitting[1]} are both {split} text of {whose}; leave one of them")
        if fitting:
            return fitting[0]
    return None


def _fitting(source: Source, pattern: str, values: Mapping[str, str]) -> Iterator[Path]:
    *folders, name = Path(pattern).parts
    places = [Path()]
    for part in folders:
        places = [inner for place in places for inner in _entries(place, part, values) if inner.is_dir()]
    for place in places:
        for path in _entries(place, name, values, _COMPRESSED):
            if source.format == "huggingface" and path.is_dir():
                if is_saved_dataset(path):
                    yield path
            elif os.path.lexists(path):  # also a dangling link: whoever made it meant it
                _check_readable(path)
                yield path


def is_saved_dataset(folder: Path) -> bool:
    """Whether `save_to_disk` of the package `datasets` wrote this folder."""
    return (folder / "state.json").is_file()


def _check_readable(path: Path) -> None:
    """Refuses what has the name of a text file and is none: it must not count as a split that does not exist."""
    try:
        mode = path.stat().st_mode
    except OSError as error:  # a link that leads to itself or nowhere, or a folder without permission
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise DataError(f"{path}: {kind}, where a file with text is expected; move it, or give it another name")


def _entries(place: Path, part: str, values: Mapping[str, str], endings: tuple[str, ...] = ("",)) -> Iterator[Path]:
    if "{" not in part:
        yield from (place / (part + ending) for ending in endings)
        return
    pieces = _PLACEHOLDER.split(part)  # text and placeholder in turn
    expression = "".join(f"(?:{values[piece]})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
    fits = re.compile(expression + f"(?:{'|'.join(map(re.escape, endings))})")
    yield from sorted(path for path in place.iterdir() if fits.fullmatch(path.name))


def _nothing(source: Source, lang: str, split: str) -> str:
    patterns = [pattern for pattern in _patterns(source) if split == "train" or "{split}" in pattern]
    names = {"lang": lang, "pivot": source.pivot, "side": lang, "split": split, "ext": "jsonl"}
    sought = [_PLACEHOLDER.sub(lambda found: names[found[1]], pattern) for pattern in patterns]
    if not sought:
        return f"no {split} text of {lang}: without {{split}} in the path, all is training text"
    folder = Path(_patterns(source)[0].partition("{")[0] + "x").parent
    while not folder.is_dir():
        folder = folder.parent
    relative = [str(Path(path).relative_to(folder)) for path in sought]
    there = f"there is {_listed(folder)}"
    return (
        f"no {split} text of {lang}: looked for {', '.join(relative[:3])} (also .gz, .zst) in {folder}, where {there}"
    )


def _listed(folder: Path) -> str:
    names = sorted(islice((path.name for path in folder.iterdir()), 1000))
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return (", ".join(names[:_MOST]) or "nothing") + more
