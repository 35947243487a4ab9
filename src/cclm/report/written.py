"""Numbers as tables write them: what is not there is a dash, what is less than nothing has a true minus."""

import math
from collections.abc import Iterable, Sequence
from statistics import stdev

from cclm.report.document import Cell

NOTHING = "–"


def decimal(value: float | None, digits: int = 2) -> str:
    """The number with so many digits after the point."""
    return NOTHING if value is None else f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference: with its sign, whichever it is."""
    return NOTHING if value is None else f"{value:+,.{digits}f}".replace("-", "−")


def whole(value: float | None) -> str:
    """The number without a fraction, in groups of three."""
    return decimal(value, 0)


def large(value: float | None) -> str:
    """A count of many in thousands or millions."""
    if value is None or value < 10_000:
        return whole(value)
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else f"{value / 1e3:,.0f} k"


def percent(share: float, digits: int = 0) -> str:
    """A share of one in percent, on one line."""
    return f"{100 * share:.{digits}f}\u00a0%"


def seeds_named(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 1 to 5`, `seeds 1, 4, 9`."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def interval(low: float | None, high: float | None) -> str:
    """A confidence interval of a difference; none where a single seed gives none."""
    return NOTHING if low is None or high is None else f"{signed(low)} to {signed(high)}"


def chance(p: float | None) -> str:
    """A p-value."""
    return NOTHING if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def with_spread(mean: float | None, values: Sequence[float], digits: int = 2) -> str:
    """A mean over seeds with the standard deviation between them, where there is more than one."""
    spread = f" ± {decimal(stdev(values), digits)}" if mean is not None and len(values) > 1 else ""
    return decimal(mean, digits) + spread


def best_of(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[bool]:
    """Which of a column are its best, as far as the digits shown tell; none where there is nothing to choose from."""
    there = [round(value, digits) for value in values if value is not None]
    best = (min if lowest else max)(there) if len(there) > 1 else None
    return [value is not None and round(value, digits) == best for value in values]


def column(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[Cell]:
    """A column of numbers, its best marked."""
    best = best_of(values, digits, lowest=lowest)
    return [Cell(decimal(value, digits), best=one) for value, one in zip(values, best, strict=True)]


def digits_of(values: Iterable[float]) -> int:
    """Digits after the point that show four of the largest of these numbers."""
    most = max(map(abs, values), default=0.0)
    return min(6, max(0, 3 - math.floor(math.log10(most)))) if most else 1


def count(number: int, what: str) -> str:
    """So many of something, in the singular or the plural."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
