"""Student's t distribution through the incomplete beta function: what a paired t interval needs, without SciPy."""

import math
from functools import cache

TERMS = 300
"""Of the continued fraction. It settles after about the square root of the degrees of freedom."""


def cdf(t: float, freedom: float) -> float:
    """The probability of at most `t` with so many degrees of freedom."""
    within = _incomplete_beta(t * t / (freedom + t * t), freedom / (freedom + t * t), 0.5, freedom / 2)
    return 0.5 + math.copysign(within / 2, t)


def two_sided(t: float, freedom: float) -> float:
    """The probability of being at least as far from 0 as `t`."""
    return _incomplete_beta(freedom / (freedom + t * t), t * t / (freedom + t * t), freedom / 2, 0.5)


@cache
def quantile(probability: float, freedom: float) -> float:
    """The t below which this much of the probability lies, by bisection."""
    if not 0 < probability < 1:
        raise ValueError(f"a quantile is of a probability between 0 and 1; got {probability}")
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if cdf(middle, freedom) < probability else (low, middle)
    return high


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised I_x(a, b). `rest` is 1 - x, given apart: near x = 1 the subtraction would lose its digits."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # on this side the fraction is slow
        return 1 - _incomplete_beta(rest, x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(scale) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from the inside out; the coefficients are those of DLMF 8.17.22."""
    value = 1.0
    for k in range(TERMS, 0, -1):
        m = k // 2
        above = -(a + m) * (a + b + m) if k % 2 else m * (b - m)
        value = 1 + above * x / ((a + k - 1) * (a + k)) / value
    return value
