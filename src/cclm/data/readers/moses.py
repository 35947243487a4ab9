"""Two files with one sentence per line: line n of one translates line n of the other."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from cclm.data.readers.files import OnBadUtf8, numbered
from cclm.errors import DataError

# Standard errors above which files count as no longer parallel: chance alone stays below in files of any length.
_CLEAR = 4.5


def read_moses(pivot: Path, other: Path, on_bad_utf8: OnBadUtf8, drops: Counter[str]) -> Iterator[tuple[int, str, str]]:
    """(line number, pivot text, other text); files of different length are refused where the shorter one ends."""
    for one, two in zip_longest(numbered(pivot, on_bad_utf8), numbered(other, on_bad_utf8)):
        if one is None or two is None:
            raise DataError(_unequal(pivot, other))
        number, text = one
        if text is None or two[1] is None:
            drops["invalid UTF-8"] += 1  # the pair is dropped, and the lines below stay aligned
            continue
        yield number, text, two[1]


def _unequal(pivot: Path, other: Path) -> str:
    counts = [sum(1 for _ in numbered(path, "drop")) for path in (pivot, other)]
    place = _parting(pivot, other)
    where = f"their lengths part near line {place}" if place else "they look parallel up to the end of the shorter one"
    return f"{pivot} has {counts[0]} lines but {other} has {counts[1]}: the files are not parallel; {where}"


def _parting(pivot: Path, other: Path) -> int | None:
    """The line from which the ratio of lengths departs from its running median; None if it never does.

    The sum of (deviation - mean deviation) falls while the files are parallel and rises once they are not. Divided by
    its standard error at that line, it is lowest where they part. This reads both files twice, stores nothing, and is
    used for the error message only.
    """
    lines, total, squares = 0, 0.0, 0.0
    for deviation in _deviations(pivot, other):
        lines, total, squares = lines + 1, total + deviation, squares + deviation**2
    mean = total / max(lines, 1)
    spread = math.sqrt(max(squares / max(lines, 1) - mean**2, 1e-12))
    level, deepest, place = 0.0, 0.0, 0
    for number, deviation in enumerate(_deviations(pivot, other), start=1):
        level += deviation - mean
        depth = -level / math.sqrt(number * (lines - number) / lines) if number < lines else 0.0
        if depth > deepest:
            deepest, place = depth, number
    return place + 1 if deepest > _CLEAR * spread else None


def _deviations(pivot: Path, other: Path) -> Iterator[float]:
    median = 0.0
    for number, ((_, one), (_, two)) in enumerate(zip(numbered(pivot, "drop"), numbered(other, "drop"), strict=False)):
        ratio = math.log((len(two or "") + 3) / (len(one or "") + 3))
        yield abs(ratio - median)
        # One step towards each ratio, smaller and smaller: this converges to the median without storing the ratios.
        median += math.copysign(max(0.2 / (1 + number / 10), 0.002), ratio - median)
