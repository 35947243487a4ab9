"""Random numbers without a stream: each is a pure function of (seed, purpose, index) and can be computed alone.

An integer hash (splitmix64) replaces a generator: it gives the same numbers on every machine and with every
version of NumPy, and costs a microsecond where constructing a generator costs ten. The standard library and NumPy only:
the curriculum, the data and the phrasebook all draw from here.
"""

import hashlib
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


@lru_cache(maxsize=1 << 14, typed=True)
def key(seed: int, purpose: str, *parts: int | str) -> int:
    """A 64-bit hash of a seed and a purpose: `key(1, "language")`, `key(1, "probe", 500, "aze")`."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, purpose, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(key: int, index: int) -> float:
    """The number in [0, 1) at this index of the sequence that belongs to the key."""
    return (_mix(key + index * _GAMMA) >> 11) * 2**-53


def shuffled(position: int, size: int, key: int) -> int:
    """The element at this position of the shuffled `range(size)` that belongs to the key.

    A Feistel network over a grid of just over `size` cells: nothing is stored, and any position costs the same.
    """
    if not 0 <= position < size:
        raise ValueError(f"position {position} lies outside range({size})")
    rounds = 6 if size >= 64 else 16  # on small grids it takes more for every order to be equally likely
    width = isqrt(size - 1) + 1
    height = -(-size // width)
    while True:
        left, right = divmod(position, height)
        for turn in range(0, rounds, 2):
            left = (left + _mix(key + (right * rounds + turn) * _GAMMA)) % width
            right = (right + _mix(key + (left * rounds + turn + 1) * _GAMMA)) % height
        position = left * height + right
        if (
            position < size
        ):  # otherwise one of the few cells outside the range: apply the permutation again until inside
            return position


def shuffled_many(positions: NDArray[np.int64], size: int, key: int) -> NDArray[np.int64]:
    """The same as `shuffled`, for many positions at once."""
    rounds = 6 if size >= 64 else 16
    width = np.uint64(isqrt(size - 1) + 1)
    height = np.uint64(-(-size // int(width)))
    result = positions.astype(np.uint64)
    walking = np.arange(len(result))
    with np.errstate(over="ignore"):
        while len(walking):
            left, right = np.divmod(result[walking], height)
            for turn in range(0, rounds, 2):
                left = (left + _mix_many(key, right * np.uint64(rounds) + np.uint64(turn))) % width
                right = (right + _mix_many(key, left * np.uint64(rounds) + np.uint64(turn + 1))) % height
            result[walking] = left * height + right
            walking = walking[result[walking] >= size]
    return result.astype(np.int64)


def _mix_many(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = np.uint64(key) + index * np.uint64(_GAMMA)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
