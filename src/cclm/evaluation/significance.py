"""What the differences between two methods license one to say: an interval over seeds, Holm, and the sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cclm.evaluation.student import quantile, two_sided

LEVEL = 0.05
"""Of a test; an interval covers the rest."""
FEW = 5
"""Below so many seeds a detected difference is told as a hint."""


@dataclass(frozen=True)
class Interval:
    """A mean of paired differences with its 95 % t interval. What one difference cannot give is None."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    t: float | None
    p: float | None
    n: int


@dataclass(frozen=True)
class Comparison:
    """A difference between two systems: the score of `first` minus that of `second`.

    Over several seeds, the interval is `paired_t`'s; of one seed, it is a bootstrap of the test sentences, or None.
    `p` is two-sided; it is `adjusted` by `holm` where several comparisons are made. The interval is not.
    """

    first: str
    second: str
    metric: str
    seeds: int
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: bool = False


def paired_t(differences: Sequence[float]) -> Interval:
    """The mean of paired differences, one a seed, with its 95 % interval and the two-sided p of "no difference".

    Differences that are all equal leave nothing to estimate: the interval has no width, t is None, and p is 1 where
    they are all 0 and 0 where they are not.
    """
    values = [float(value) for value in differences]
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a paired t interval is of one or more finite differences; got {values}")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Interval(mean, None, None, None, None, None, n)
    if min(values) == max(values):
        value = values[0]
        return Interval(value, 0.0, value, value, None, 0.0 if value else 1.0, n)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    error = sd / math.sqrt(n)
    half = quantile(1 - LEVEL / 2, n - 1) * error
    return Interval(mean, sd, mean - half, mean + half, mean / error, two_sided(mean / error, n - 1), n)


def detectable(differences: Sequence[float]) -> float | None:
    """The smallest mean difference that would be detected with as many seeds that differ as much among themselves.

    It is half the width of the interval: at five seeds 1.24 standard deviations. None for one seed.
    """
    interval = paired_t(differences)
    return None if interval.low is None or interval.high is None else (interval.high - interval.low) / 2


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted for their number by Holm's method, in the order given.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none is smaller than the one before it, and
    none is above 1.
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise ValueError(f"a p value is between 0 and 1; got {wrong[0]}")
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


def sentence(comparison: Comparison) -> str:
    """All that the numbers license one to say."""
    found = comparison
    told = f"{found.mean:+.2f} {found.metric}"
    if found.low is None or found.high is None or found.p is None:
        return f"{found.first} against {found.second}: {told} on one seed, without an interval; it licenses no claim"
    told += f" [{found.low:+.2f}, {found.high:+.2f}], {_probability(found.p)}{' after Holm' if found.adjusted else ''}"
    if found.seeds == 1:
        words = _detected(found) if found.p < LEVEL else _undetected(found)
        return (
            f"on these test sentences, {words}: {told}; this is one seed, and a bootstrap of its sentences licenses no"
            " claim about the method"
        )
    told += f", {found.seeds} seeds"
    if found.p < LEVEL:
        hint = f"; with fewer than {FEW} seeds, a hint and no more" if found.seeds < FEW else ""
        return f"{_detected(found)}: {told}{hint}"
    return f"{_undetected(found)}: {told}; gains above {max(0.0, found.high):.2f} can be excluded"


def _detected(found: Comparison) -> str:
    return f"{found.first} scores {'higher' if found.mean > 0 else 'lower'} than {found.second}"


def _undetected(found: Comparison) -> str:
    return f"no difference detected between {found.first} and {found.second}"


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
