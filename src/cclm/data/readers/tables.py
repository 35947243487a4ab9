"""Tab-separated text: two columns (tsv), or one column per language (ted). Quotes have no special meaning."""

import re
from collections import Counter
from pathlib import Path

from cclm.data.readers.files import OnBadUtf8, open_text
from cclm.data.readers.source import Columns, Pairs
from cclm.errors import DataError
from cclm.recipe.language_codes import pick

_ABSENT = re.compile(r"\s*(?:_\s*_\s*NULL\s*_\s*_\s*)?")


def read_tsv(path: Path, columns: Columns, on_bad_utf8: OnBadUtf8, drops: Counter[str]) -> Pairs:
    """(line number, pivot text, other text) of a file with two columns and no header."""
    pivot_first = columns == "pivot-first"
    for number, line in open_text(path, on_bad_utf8, drops):
        first, tab, second = line.partition("\t")
        if not tab or "\t" in second:
            count = line.count("\t") + 1
            raise DataError(f"{path}, line {number}: expected 2 columns, got {count}; it starts with {line[:40]!r}")
        yield (number, first, second) if pivot_first else (number, second, first)


def read_ted(path: Path, pivot: str, lang: str, on_bad_utf8: OnBadUtf8, drops: Counter[str]) -> Pairs:
    """(line number, pivot text, other text) of the TED talks of Qi et al. 2018; the header is line 1.

    A cell that is empty or __NULL__, with or without spaces, is absent: the pair is dropped and counted.
    """
    lines = open_text(path, on_bad_utf8, drops)
    number, header = next(lines, (0, ""))
    names = header.split("\t")
    if number != 1 or "talk_name" not in names:
        raise DataError(f"{path}: no header; line 1 of a TED file must name the columns: talk_name, en, az, ...")
    pivot_column, other_column = (_column(path, names, code) for code in (pivot, lang))
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(names):
            raise DataError(f"{path}, line {number}: {len(cells)} columns, but the header has {len(names)}")
        pivot_text, other_text = cells[pivot_column], cells[other_column]
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
