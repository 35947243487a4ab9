"""Tab-separated text: two columns (tsv), or one column per language (ted). Quotes have no special meaning."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cclm.data.readers.files import Lines, OnBadUtf8, chunks_of_lines, open_text
from cclm.data.readers.source import Columns, Pairs
from cclm.errors import DataError
from cclm.recipe.language_codes import pick

_ABSENT = re.compile(r"\s*(?:_\s*_\s*NULL\s*_\s*_\s*)?")


def read_tsv(path: Path, columns: Columns, on_bad_utf8: OnBadUtf8) -> Iterator["TsvChunk"]:
    """A file with two columns and no header; the number of a pair is that of its line."""
    return (TsvChunk(lines, columns) for lines in chunks_of_lines(path, on_bad_utf8))


@dataclass(frozen=True)
class TsvChunk:
    """Some lines of a TSV file."""

    lines: Lines
    columns: Columns

    def pairs(self, drops: Counter[str]) -> Pairs:
        pivot_first = self.columns == "pivot-first"
        for number, line in self.lines.numbered(drops):
            first, tab, second = line.partition("\t")
            if not tab or "\t" in second:
                place, count = f"{self.lines.path}, line {number}", line.count("\t") + 1
                raise DataError(f"{place}: expected 2 columns, got {count}; it starts with {line[:40]!r}")
            yield (number, first, second) if pivot_first else (number, second, first)


def read_ted(path: Path, pivot: str, lang: str, on_bad_utf8: OnBadUtf8) -> Iterator["TedChunk"]:
    """The TED talks of Qi et al. 2018; the number of a pair is that of its line, and the header is line 1."""
    number, header = next(open_text(path, on_bad_utf8), (0, ""))
    names = header.split("\t")
    if number != 1 or "talk_name" not in names:
        raise DataError(f"{path}: no header; line 1 of a TED file must name the columns: talk_name, en, az, ...")
    columns = _column(path, names, pivot), _column(path, names, lang)
    for lines in chunks_of_lines(path, on_bad_utf8):
        yield TedChunk(lines, columns, len(names))


@dataclass(frozen=True)
class TedChunk:
    """Some lines of the TED talks.

    A cell that is empty or __NULL__, with or without spaces, is absent: the pair is dropped and counted.
    """

    lines: Lines
    columns: tuple[int, int]
    """That of the pivot language, and that of the other one."""
    width: int

    def pairs(self, drops: Counter[str]) -> Pairs:
        pivot_column, other_column = self.columns
        for number, line in self.lines.numbered(drops):
            cells = line.split("\t")
            if len(cells) != self.width:
                place = f"{self.lines.path}, line {number}"
                raise DataError(f"{place}: {len(cells)} columns, but the header has {self.width}")
            pivot_text, other_text = cells[pivot_column], cells[other_column]
            if number == 1:
                continue
            if _ABSENT.fullmatch(pivot_text) or _ABSENT.fullmatch(other_text):
                drops["absent cell"] += 1
            else:
                yield number, pivot_text, other_text


def _column(path: Path, names: list[str], code: str) -> int:
    codes = [name for name in names if name != "talk_name"]
    column = pick(codes, code, f"{path}, line 1")
    if column is None:
        raise DataError(f"{path}: no column for {code}; the columns are {', '.join(codes) or 'none'}")
    return names.index(column)
