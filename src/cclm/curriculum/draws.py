"""Chance without a stream: every draw is a pure function of (seed, purpose, index), so any draw can be redone.

An integer hash (splitmix64) stands in for a generator: it gives the same numbers on every machine and with every
version of NumPy, and costs a microsecond where constructing a generator costs ten.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import TYPE_CHECKING, Any

from cclm.curriculum.languages import check_complete, check_known

if TYPE_CHECKING:
    from cclm.curriculum.curriculum import Curriculum

VERSION = 1

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


@lru_cache(maxsize=1 << 14, typed=True)
def key(seed: int, purpose: str, *parts: int | str) -> int:
    """64 bits that stand for this seed and purpose: `key(1, "language")`, `key(1, "probe", 500, "aze")`."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, purpose, *parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(key: int, index: int) -> float:
    """The number in [0, 1) at this index of the sequence that belongs to the key."""
    return (_mix(key + index * _GAMMA) >> 11) * 2**-53


def shuffled(position: int, size: int, key: int) -> int:
    """What stands at this position of the shuffled `range(size)` that belongs to the key.

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
        if position < size:  # else one of the few cells too many: walk on until back inside
            return position


class Distribution:
    """Weights made ready for drawing: cumulative, in canonical order, without those of weight zero."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._languages = [lang for lang in sorted(weights) if weights[lang] > 0]
        self._cumulative = list(accumulate(weights[lang] for lang in self._languages))
        self._total = self._cumulative[-1]

    def at(self, u: float) -> str:
        """The language at this point of [0, 1)."""
        # u x total may round up to the total itself; the last language owns that point.
        place = bisect_right(self._cumulative, u * self._total, 0, len(self._languages) - 1)
        return self._languages[place]


def draw_language(seed: int, index: int, distribution: Distribution) -> str:
    """The language of micro-batch `index`, numbered over the whole run and over all ranks."""
    return distribution.at(uniform(key(seed, "language"), index))


def draw_example(seed: int, language: str, counter: int, size: int) -> int:
    """The example that this language's draw number `counter` takes: each once a pass, every pass shuffled anew."""
    passes, position = divmod(counter, size)
    return shuffled(position, size, key(seed, "example", language, passes))


class _Draws:
    """Draws numbered over a whole run, each with a language and a place in that language's training set."""

    def __init__(self, curriculum: "Curriculum", *, seed: int, draws: int) -> None:
        if draws < 1:
            raise ValueError(f"draws is {draws!r}; an iteration gives at least 1")
        self._curriculum, self._seed, self._draws = curriculum, seed, draws
        self._sizes = curriculum.sizes
        self._starts = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        self._index = 0
        self._counters = dict.fromkeys(self._sizes, 0)

    def __len__(self) -> int:
        return self._draws

    def _language(self) -> str:
        lang = draw_language(self._seed, self._index, self._curriculum.distribution)
        self._index += 1
        return lang

    def _example(self, lang: str) -> int:
        counter = self._counters[lang]
        self._counters[lang] += 1
        return self._starts[lang] + draw_example(self._seed, lang, counter, self._sizes[lang])

    def state_dict(self) -> dict[str, Any]:
        """How far it has come: plain JSON."""
        return {"version": VERSION, "seed": self._seed, "index": self._index, "counters": dict(self._counters)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where the saved one was."""
        for name, mine in (("version", VERSION), ("seed", self._seed)):
            if state.get(name) != mine:
                raise ValueError(f"state of another sampler: {name} was {state.get(name)!r}, here it is {mine}")
        check_known(state["counters"], self._sizes, "sampler state")
        check_complete(state["counters"], self._sizes, "sampler state")
        self._index = state["index"]
        self._counters = {lang: state["counters"][lang] for lang in self._sizes}


class IndexSampler(_Draws):
    """Indices for `torch.utils.data.DataLoader(..., sampler=...)`, the language drawn anew for each of them.

    They index the languages' training sets joined in the order of `curriculum.sizes` (a `ConcatDataset`). The
    weights are asked at every draw: an update counts at the next one, but for what worker processes have
    prefetched. Each iteration gives `draws` indices and goes on where the last one stopped.
    """

    def __iter__(self) -> Iterator[int]:
        for _ in range(self._draws):
            yield self._example(self._language())


class BatchSampler(_Draws):
    """The same for `DataLoader(..., batch_sampler=...)`: lists of `batch_size` indices, one language a batch."""

    def __init__(self, curriculum: "Curriculum", *, seed: int, draws: int, batch_size: int) -> None:
        super().__init__(curriculum, seed=seed, draws=draws)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; a batch has at least 1 example")
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self._draws):
            lang = self._language()
            yield [self._example(lang) for _ in range(self._batch_size)]
