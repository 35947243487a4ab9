"""Curves in bounded memory: however long a run trains, a page gets no more points than a screen has columns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cclm.report.svg import LARGEST

MOST_POINTS = 480
"""Points of a curve that are kept."""
MOST_NUMBERS = 48_000
"""Numbers of a table that are kept; with very many languages fewer rounds are kept."""
FEWEST_ROUNDS = 60

Numbers = NDArray[np.float64]
Columns = list[list[float | None]]
Tables = Mapping[str, Mapping[str, float | None]]


class Merged:
    """A curve of means: when there are too many points, every two neighbours become one."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._size = 1
        self._points: list[tuple[int, float, int]] = []  # last step, sum, count of up to `_size` values

    def add(self, step: int, value: float | None) -> None:
        """Appends a point. A process that was resumed repeats steps: older points from there on are dropped."""
        while self._points and self._points[-1][0] >= step:
            self._points.pop()
        number = finite(value)
        if math.isnan(number):
            return
        if self._points and self._points[-1][2] < self._size:
            _, total, count = self._points.pop()
            self._points.append((step, total + number, count + 1))
            return
        self._points.append((step, number, 1))
        if len(self._points) > self._most:
            pairs = zip(self._points[::2], self._points[1::2], strict=False)
            odd = self._points[-1:] if len(self._points) % 2 else []
            self._points = [(b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs] + odd
            self._size *= 2

    def at(self, steps: Sequence[int]) -> list[float | None]:
        """The mean of the points since the step before, for each step; None where there is none."""
        found: list[float | None] = []
        place = 0
        for step in steps:
            total, count = 0.0, 0
            while place < len(self._points) and self._points[place][0] <= step:
                total, count = total + self._points[place][1], count + self._points[place][2]
                place += 1
            found.append(significant(total / count) if count else None)
        return found

    def points(self) -> tuple[list[int], list[float | None]]:
        """The curve by itself: its steps and its values."""
        return [step for step, _, _ in self._points], [significant(total / n) for _, total, n in self._points]

    @property
    def last(self) -> float | None:
        """The value of the last point."""
        return self._points[-1][1] / self._points[-1][2] if self._points else None


@dataclass(frozen=True)
class Row:
    """A round: one row of numbers per table, one column per language."""

    step: int
    numbers: Numbers
    is_marked: bool
    """Whether it admitted a language: such rounds are kept as long as possible."""


@dataclass
class Rounds:
    """Tables with a row per round. Too many rows are thinned out: the first, the last and marked ones stay."""

    tables: tuple[str, ...]
    names: dict[str, int] = field(default_factory=dict)
    """The column of each language."""
    measured: int = 0
    """All rounds, kept or not."""
    generation: int = 0
    """Changes when rows that a reader may have seen are gone."""
    _rows: list[Row] = field(default_factory=list)
    _tail: tuple[int, Tables] | None = None
    """The last round, if it falls between those that are kept."""
    _every: int = 1

    def add(self, step: int, tables: Tables, *, is_marked: bool) -> None:
        """Appends a round; `tables` gives the numbers of each language by table."""
        for table in tables.values():
            if not table.keys() <= self.names.keys():
                for name in table:
                    self.names.setdefault(name, len(self.names))
        if is_marked or self.measured % self._every == 0:
            self._rows.append(self._row(step, tables, is_marked))
            self._tail = None
            self._thin()
        else:  # most rounds of a long run are replaced before anybody asks for them
            self._tail = (step, {name: dict(table) for name, table in tables.items()})
        self.measured += 1

    def _row(self, step: int, tables: Tables, is_marked: bool) -> Row:
        numbers = np.full((len(self.tables), len(self.names)), np.nan)
        for i, table in enumerate(self.tables):
            for name, value in tables.get(table, {}).items():
                numbers[i, self.names[name]] = finite(value)
        return Row(step, numbers, is_marked)

    @property
    def kept(self) -> int:
        """Rows that stay as they are within a generation."""
        return len(self._rows)

    def steps(self, start: int = 0) -> list[int]:
        """The steps of the rows from this one on."""
        return [row.step for row in self._all(start)]

    def columns(self, table: str, names: Sequence[str], start: int = 0) -> Columns:
        """One list of numbers per language, from row `start` on."""
        return plain_numbers(self.matrix(table, names, start).T)

    def matrix(self, table: str, names: Sequence[str], start: int = 0) -> Numbers:
        """The numbers of a table, rows by languages; NaN where there is none."""
        rows, i = self._all(start), self.tables.index(table)
        found = np.full((len(rows), len(self.names) + 1), np.nan)  # the last column stands for unknown languages
        for at, row in enumerate(rows):
            found[at, : row.numbers.shape[1]] = row.numbers[i]
        return found[:, [self.names.get(name, -1) for name in names]]

    def _all(self, start: int) -> list[Row]:
        return self._rows[start:] + ([self._row(*self._tail, False)] if self._tail else [])

    @property
    def _most(self) -> int:
        return max(FEWEST_ROUNDS, min(MOST_POINTS, MOST_NUMBERS // max(len(self.names), 1)))

    def _thin(self) -> None:
        if len(self._rows) <= self._most:
            return
        protects = sum(row.is_marked for row in self._rows) <= self._most // 2
        last = len(self._rows) - 1
        self._rows = [
            row for i, row in enumerate(self._rows) if i % 2 == 0 or i == last or (protects and row.is_marked)
        ]
        self._every *= 2
        self.generation += 1


def finite(value: object) -> float:
    """The number as a float; NaN for values that cannot be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return math.nan
    return float(value)


def significant(value: float) -> float:
    """A number with five significant digits."""
    return float(f"{value:.5g}")


def plain_numbers(numbers: Numbers) -> Columns:
    """The numbers as lists, with five significant digits and None for NaN."""
    sizes = np.abs(numbers, where=np.isfinite(numbers) & (numbers != 0), out=np.ones_like(numbers))
    digits = np.clip(4 - np.floor(np.log10(sizes)), -300, 300)
    factors = 10.0 ** np.abs(digits)
    rounded = np.where(digits >= 0, np.round(numbers * factors) / factors, np.round(numbers / factors) * factors)
    return [[None if math.isnan(value) else value for value in row] for row in rounded.tolist()]


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean of the finite values; None without any."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
