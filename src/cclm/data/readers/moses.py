"""Moses format: two files with one sentence per line; line n of one is the translation of line n of the other."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from cclm.data.readers.files import INVALID, Lines, OnBadUtf8, chunks_of_lines, decoded_lines
from cclm.data.readers.source import Pairs
from cclm.errors import DataError

# The deviation, in standard errors, above which files count as not parallel. Random variation stays below it.
_THRESHOLD = 4.5


def read_moses(pivot: Path, other: Path, on_bad_utf8: OnBadUtf8) -> Iterator["MosesChunk"]:
    """The number of a pair is that of its lines. DataError at the end of the shorter file if the lengths differ."""
    chunks = (chunks_of_lines(path, on_bad_utf8) for path in (pivot, other))
    for pivot_lines, other_lines in zip_longest(*chunks):
        if not pivot_lines or not other_lines or pivot_lines.count != other_lines.count:
            raise DataError(_unequal(pivot, other))
        yield MosesChunk(pivot_lines, other_lines)


@dataclass(frozen=True)
class MosesChunk:
    """Lines of the same numbers of two files."""

    pivot: Lines
    other: Lines

    def pairs(self, drops: Counter[str]) -> Pairs:
        texts = zip(self.pivot.decoded(), self.other.decoded(), strict=True)
        for number, (pivot_text, other_text) in enumerate(texts, start=self.pivot.first):
            if pivot_text is None or other_text is None:
                drops[INVALID] += 1  # the pair is dropped; the lines below stay aligned
            else:
                yield number, pivot_text, other_text


def _unequal(pivot: Path, other: Path) -> str:
    counts = [sum(1 for _ in decoded_lines(path, "drop")) for path in (pivot, other)]
    line = _misaligned_from(pivot, other)
    where = f"they diverge near line {line}" if line else "they look parallel up to the end of the shorter one"
    return f"{pivot} has {counts[0]} lines but {other} has {counts[1]}: the files are not parallel; {where}"


def _misaligned_from(pivot: Path, other: Path) -> int | None:
    """The line from which the ratio of lengths deviates from its running median; None if it never does.

    The sum of (deviation - mean deviation) falls while the files are parallel and rises afterwards. Divided by its
    standard error at each line, it is lowest where the files diverge. Used for the error message only: it reads both
    files twice and stores nothing.
    """
    lines, total, squares = 0, 0.0, 0.0
    for deviation in _deviations(pivot, other):
        lines, total, squares = lines + 1, total + deviation, squares + deviation**2
    mean = total / max(lines, 1)
    spread = math.sqrt(max(squares / max(lines, 1) - mean**2, 1e-12))
    level, deepest, line = 0.0, 0.0, 0
    for number, deviation in enumerate(_deviations(pivot, other), start=1):
        level += deviation - mean
        depth = -level / math.sqrt(number * (lines - number) / lines) if number < lines else 0.0
        if depth > deepest:
            deepest, line = depth, number
    return line + 1 if deepest > _THRESHOLD * spread else None


def _deviations(pivot: Path, other: Path) -> Iterator[float]:
    median = 0.0
    for number, (one, two) in enumerate(zip(decoded_lines(pivot, "drop"), decoded_lines(other, "drop"), strict=False)):
        ratio = math.log((len(two or "") + 3) / (len(one or "") + 3))
        yield abs(ratio - median)
        # Decreasing steps towards each ratio converge to the median without storing the ratios.
        median += math.copysign(max(0.2 / (1 + number / 10), 0.002), ratio - median)
