"""Random choices that are a function of (seed, purpose, index) and nothing else."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import TypeVar

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15
_SCALE = 1 << 32

T = TypeVar("T")


def key(seed: int, purpose: str, index: int = 0) -> int:
    """Gives 64 bits that depend on all three and on nothing else."""
    digest = blake2b(f"{seed}/{purpose}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def mixed(state: int) -> int:
    """Gives the SplitMix64 output of a state."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & MASK
    return state ^ (state >> 31)


def stream(state: int) -> Iterator[int]:
    """Yields 64-bit integers without end."""
    while True:
        state = (state + STEP) & MASK
        yield mixed(state)


def shuffled(items: Sequence[T], state: int) -> list[T]:
    """Gives the items in an order that depends on the state alone."""
    numbers = stream(state)
    order = sorted((next(numbers), place) for place in range(len(items)))
    return [items[place] for _, place in order]


def zipf(count: int, shift: int) -> list[int]:
    """Gives cumulated integer weights 1 / (rank + shift): no floats, so the same on every machine."""
    return list(accumulate(_SCALE // (rank + shift) for rank in range(1, count + 1)))


def pick(cumulated: Sequence[int], number: int) -> int:
    """Gives the rank that a 64-bit number falls on."""
    return bisect_right(cumulated, (number * cumulated[-1]) >> 64)
