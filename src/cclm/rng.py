"""Random numbers without state: each is a pure function of (seed, purpose, index).

They come from an integer hash (splitmix64) instead of a generator. The numbers are the same on every machine and with
every version of NumPy, and one number takes a microsecond; constructing a NumPy generator takes ten.
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
    """A 64-bit hash of a seed and a purpose, such as `key(1, "language")` or `key(1, "probe", 500, "aze")`."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, purpose, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(key: int, index: int) -> float:
    """A uniform random number in [0, 1): element `index` of the random sequence of a key."""
    return (_mix(key + index * _GAMMA) >> 11) * 2**-53


def uniform_many(key: int, indices: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Like `uniform`, for many indices at once."""
    with np.errstate(over="ignore"):
        return (_mix_many(key, indices) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def shuffled(position: int, size: int, key: int) -> int:
    """The element at a position of `range(size)`, shuffled by a key.

    A Feistel network over a grid of just over `size` cells computes it in constant time and without stored state.
    """
    if not 0 <= position < size:
        raise ValueError(f"position {position} is outside range({size})")
    rounds = 6 if size >= 64 else 16  # small grids need more rounds for all orders to be equally likely
    width = isqrt(size - 1) + 1
    height = -(-size // width)
    while True:
        left, right = divmod(position, height)
        for turn in range(0, rounds, 2):
            left = (left + _mix(key + (right * rounds + turn) * _GAMMA)) % width
            right = (right + _mix(key + (left * rounds + turn + 1) * _GAMMA)) % height
        position = left * height + right
        if position < size:  # otherwise a cell outside the range: permute again until inside
            return position


def shuffled_many(positions: NDArray[np.int64], size: int, key: int) -> NDArray[np.int64]:
    """Like `shuffled`, for many positions at once."""
    rounds = 6 if size >= 64 else 16
    width = np.uint64(isqrt(size - 1) + 1)
    height = np.uint64(-(-size // int(width)))
    result = positions.astype(np.uint64)
    pending = np.arange(len(result))  # those still outside the range
    with np.errstate(over="ignore"):
        while len(pending):
            left, right = np.divmod(result[pending], height)
            for turn in range(0, rounds, 2):
                left = (left + _mix_many(key, right * np.uint64(rounds) + np.uint64(turn))) % width
                right = (right + _mix_many(key, left * np.uint64(rounds) + np.uint64(turn + 1))) % height
            result[pending] = left * height + right
            pending = pending[result[pending] >= size]
    return result.astype(np.int64)


def _mix_many(key: int, index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = np.uint64(key) + index * np.uint64(_GAMMA)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)
