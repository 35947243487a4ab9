"""Zipf's law as a table of integers, and the choice from it."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

_SCALE = 1 << 40


def zipf(count: int, shift: int) -> list[int]:
    """Gives cumulated weights 1 / (rank + shift)², as Mandelbrot has it; integers, so the same on every machine."""
    return list(accumulate(_SCALE // (rank + shift) ** 2 for rank in range(1, count + 1)))


def pick(cumulated: Sequence[int], number: float) -> int:
    """Gives the rank, from 0, that a number in [0, 1) falls on."""
    return bisect_right(cumulated, int(number * cumulated[-1]))
