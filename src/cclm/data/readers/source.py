"""The location and format of parallel text, and the search for the files of a language and split.

File names may use any spelling of a language code: `az`, `aze`, `az_Latn`.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, get_args

from cclm.data.readers.files import CHUNK, OnBadUtf8
from cclm.errors import DataError
from cclm.recipe.language_codes import canonical, check_language, expressions

Format = Literal["moses", "tsv", "ted", "tmx", "huggingface"]
Columns = Literal["pivot-first", "other-first"]
SPLITS = ("train", "dev", "test")
Pair = tuple[int, str, str]
"""Number of the line, row or unit; text in the pivot language; text in the other language."""
Pairs = Iterator[Pair]


class Chunk(Protocol):
    """Some consecutive pairs of a text. Worker processes get them like this, and decode them."""

    def pairs(self, drops: Counter[str]) -> Pairs:
        """The pairs, decoded but not cleaned. Lines that are not a pair are counted in `drops`, by reason."""


@dataclass(frozen=True)
class Decoded:
    """A chunk of a format that one process has to read from the beginning."""

    decoded: Sequence[Pair]
    drops: Counter[str] = field(default_factory=Counter)

    def pairs(self, drops: Counter[str]) -> Pairs:
        drops.update(self.drops)
        yield from self.decoded


def in_chunks(pairs: Pairs, drops: Counter[str]) -> Iterator[Chunk]:
    """Pairs in chunks, while reading them counts in `drops`."""
    while chunk := list(islice(pairs, CHUNK)):
        yield Decoded(chunk, drops.copy())
        drops.clear()
    if drops:
        yield Decoded((), drops)


_PLACEHOLDERS = {"lang", "split", "pivot", "side"}


@dataclass(frozen=True)
class Source:
    """Parallel text: Source("tsv", "data/{lang}.{split}.tsv"), Source("ted", "data/ted", detokenize=True)."""

    format: Format
    path: str
    """A folder, a pattern with {lang}, {split}, {pivot} and {side}, or the name of a dataset on the hub."""
    pivot: str = "eng"
    """The language on one side of every pair."""
    languages: tuple[str, ...] = ()
    columns: Columns = "pivot-first"
    """The order of the two columns of a TSV file."""
    detokenize: bool = False
    """Whether to undo the tokenisation of TED and Moses text."""
    on_bad_utf8: OnBadUtf8 = "error"

    def __post_init__(self) -> None:
        for name, allowed in (("format", Format), ("columns", Columns), ("on_bad_utf8", OnBadUtf8)):
            given, choices = getattr(self, name), get_args(allowed)
            if given not in choices:
                raise DataError(f"data.{name} must be one of {', '.join(choices)}; got {given!r}")
        for code in (self.pivot, *self.languages):
            check_language(code)
        if self.detokenize and self.format not in ("ted", "moses"):
            raise DataError(f"data.detokenize is only for ted and moses; got data.format {self.format}")
        _check_pattern(self)


def _check_pattern(source: Source) -> None:
    path, given = source.path, set(re.findall(r"\{(.*?)\}", source.path))
    if not path or "\0" in path:
        raise DataError(f"data.path {path!r} is not a path")
    known = "known placeholders: {lang}, {split}, {pivot}, {side}"
    if "{" in (rest := re.sub(r"\{.*?\}", "", path)) or "}" in rest:
        raise DataError(f"data.path {path}: unbalanced brace; {known}")
    if unknown := sorted(given - _PLACEHOLDERS):
        raise DataError(f"data.path {path}: unknown placeholder {{{unknown[0]}}}; {known}")
    if "side" in given and source.format != "moses":
        raise DataError(
            f"data.path {path}: {{side}} is only for moses (two files per pair); got data.format {source.format}"
        )
    if given and "side" not in given and source.format == "moses":
        raise DataError(f"data.path {path}: moses text has two files per pair; put {{side}} where their names differ")
    is_file = given or Path(path).is_file()
    if is_file and "lang" not in given and source.format == "tsv" and len(source.languages) > 1:
        raise DataError(f"data.path {path}: one file for {len(source.languages)} languages; put {{lang}} into the path")


def check_pair(source: Source, lang: str, split: str) -> None:
    """Raises DataError for a language or split that this source cannot have."""
    check_language(lang)
    if canonical(lang) == canonical(source.pivot):
        raise DataError(f"language {lang} is the pivot ({source.pivot}); a pair needs two languages")
    if split not in SPLITS:
        raise DataError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")


# The file names that are tried in a folder, in this order, each also with .gz or .zst.
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
    "tmx": ("{lang}.{split}.tmx", "{lang}-{pivot}.tmx"),  # without {split}, all text is training text
    "huggingface": (
        "{lang}.{split}.{ext}",
        "{lang}-{pivot}/{split}.{ext}",
        "{lang}-{pivot}.{ext}",
        "{split}.{ext}",
        # Folders of `save_to_disk`: a DatasetDict has one folder per split, a Dataset is one folder.
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
_MAX_LISTED = 8


def find(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    """The files of a language and split: (pivot, other) for moses, one file for other formats, () if there are none."""
    try:
        return _find(source, lang, split)
    except OSError as error:
        inside = "" if source.path.startswith(str(error.filename or "")) else f"{error.filename}: "
        raise DataError(f"data.path {source.path}: {inside}{error.strerror or error}") from None


def _find(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    sides = ("pivot", "other") if source.format == "moses" else ("",)
    incomplete: list[Path] = []
    for pattern in _patterns(source):
        if split != "train" and "{split}" not in pattern:
            continue
        paths = [path for side in sides if (path := _find_one(source, pattern, lang, split, side))]
        if len(paths) == len(sides):
            return tuple(paths)
        incomplete += paths
    if incomplete:
        raise DataError(f"{incomplete[0]} has no counterpart: {_not_found(source, lang, split)}")
    return ()


def require(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    """Like `find`, but raises DataError if there are no files, with the names tried and the files that exist."""
    if not (paths := find(source, lang, split)):
        if "{" not in source.path and not Path(source.path).exists():
            raise DataError(f"data.path {source.path}: no such file or folder in {Path.cwd()}")
        raise DataError(f"data.path {source.path}: {_not_found(source, lang, split)}")
    return paths


def _patterns(source: Source) -> tuple[str, ...]:
    if "{" not in source.path and Path(source.path).is_dir():
        return tuple(str(Path(source.path) / layout) for layout in LAYOUTS[source.format])
    if source.format == "moses" and "{" not in source.path:
        raise DataError(f"data.path {source.path}: no such folder; moses text has two files per pair")
    return (source.path,)


def _find_one(source: Source, pattern: str, lang: str, split: str, side: str) -> Path | None:
    """The file that matches the pattern. A given region ("pt-br") takes precedence over the bare language."""
    pivot = expressions(source.pivot)[-1]
    for language in expressions(lang):
        side_expression = language if side == "other" else pivot
        values = {"lang": language, "pivot": pivot, "side": side_expression}
        values |= {"split": _SPLIT_NAMES[split], "ext": _EXTENSIONS}
        matching = list(_matching(source, pattern, values))
        if len(matching) > 1:
            language_of_side = source.pivot if side == "pivot" else lang
            files = f"{matching[0]} and {matching[1]}"
            raise DataError(f"{files} are both {split} text of {language_of_side}; remove one of them")
        if matching:
            return matching[0]
    return None


def _matching(source: Source, pattern: str, values: Mapping[str, str]) -> Iterator[Path]:
    *folders, name = Path(pattern).parts
    parents = [Path()]
    for part in folders:
        parents = [path for parent in parents for path in _entries(parent, part, values) if path.is_dir()]
    for parent in parents:
        for path in _entries(parent, name, values, _COMPRESSED):
            if source.format == "huggingface" and path.is_dir():
                if is_saved_dataset(path):
                    yield path
            elif os.path.lexists(path):  # includes dangling links, which are reported as an error
                _check_readable(path)
                yield path


def is_saved_dataset(folder: Path) -> bool:
    """Whether the folder was written by `save_to_disk` of the package `datasets`."""
    return (folder / "state.json").is_file()


def _check_readable(path: Path) -> None:
    """Raises DataError for a path that matches but is not a readable file: it must not pass for a missing split."""
    try:
        mode = path.stat().st_mode
    except OSError as error:  # a link that leads to itself or nowhere, or a folder without permission
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder"
        raise DataError(f"{path}: {kind}, but a text file is expected; move or rename it")


def _entries(folder: Path, part: str, values: Mapping[str, str], endings: tuple[str, ...] = ("",)) -> Iterator[Path]:
    if "{" not in part:
        yield from (folder / (part + ending) for ending in endings)
        return
    pieces = _PLACEHOLDER.split(part)  # alternates text and placeholder
    expression = "".join(f"(?:{values[piece]})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
    matches = re.compile(expression + f"(?:{'|'.join(map(re.escape, endings))})")
    yield from sorted(path for path in folder.iterdir() if matches.fullmatch(path.name))


def _not_found(source: Source, lang: str, split: str) -> str:
    patterns = [pattern for pattern in _patterns(source) if split == "train" or "{split}" in pattern]
    names = {"lang": lang, "pivot": source.pivot, "side": lang, "split": split, "ext": "jsonl"}
    tried = [_PLACEHOLDER.sub(lambda match: names[match[1]], pattern) for pattern in patterns]
    if not tried:
        return f"no {split} text of {lang}: without {{split}} in the path, all text is training text"
    folder = Path(_patterns(source)[0].partition("{")[0] + "x").parent
    while not folder.is_dir():
        folder = folder.parent
    relative = [str(Path(path).relative_to(folder)) for path in tried]
    return (
        f"no {split} text of {lang}: looked for {', '.join(relative[:3])} (also .gz, .zst) in {folder},"
        f" which contains {_listed(folder)}"
    )


def _listed(folder: Path) -> str:
    names = sorted(islice((path.name for path in folder.iterdir()), 1000))
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return (", ".join(names[:_MAX_LISTED]) or "nothing") + more
