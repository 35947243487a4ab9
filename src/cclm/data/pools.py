"""Pools: sentences of like length on both sides, found by dividing a corpus in two again and again."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32] | NDArray[np.int64]
Counts = NDArray[np.int64]

LEAST = 0.5
"""A pool holds at least this share of a full batch: smaller ones would pad less and leave batches too small."""
ENOUGH = 0.005
"""A division that saves less than this share of a pool's tokens is not worth the smaller pool."""


@dataclass(frozen=True)
class Pool:
    """Sentences that are batched together, in any order."""

    members: Ids
    batches: int

    def positions(self, number: int) -> NDArray[np.int64]:
        """The places in the pool that batch `number` takes; batches of a pool differ by at most one sentence."""
        size, extra = divmod(len(self.members), self.batches)
        start = number * size + min(number, extra)
        return np.arange(start, start + size + (number < extra))


def divide(sources: Ids, targets: Ids, budget: int) -> list[Pool]:
    """The pools of a corpus. Each holds at least half a batch, as far as there are so many sentences.

    Pairs of lengths are divided, of which there are few; then each sentence goes where its lengths went.
    """
    width = int(targets.max()) + 1
    kinds, kind_of, counts = np.unique(
        sources.astype(np.int64) * width + targets, return_inverse=True, return_counts=True
    )
    lengths = Lengths(*np.divmod(kinds, width), counts)
    todo, pool_of_kind = [np.arange(len(kinds))], np.empty(len(kinds), dtype=np.int32)
    batches: list[int] = []
    while todo:
        members = todo.pop()
        part = Lengths(*(column[members] for column in lengths))
        halves = _halves(part, budget)
        if halves is None:
            pool_of_kind[members] = len(batches)
            batches.append(-(-int(part.counts.sum()) // _capacity(part.sources.max(), part.targets.max(), budget)))
        else:
            todo += [members[~halves], members[halves]]
    pool_of = pool_of_kind[kind_of]
    by_pool = np.argsort(pool_of, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(pool_of))
    return [Pool(members, number) for members, number in zip(np.split(by_pool, ends[:-1]), batches, strict=True)]


class Lengths(NamedTuple):
    """Pairs of lengths, and how many sentences have them."""

    sources: Counts
    targets: Counts
    counts: Counts


def _capacity(source: int, target: int, budget: int) -> int:
    """Sentences of this length that fit into a batch; one always does."""
    return max(1, budget // max(source, target))


def _halves(lengths: Lengths, budget: int) -> NDArray[np.bool_] | None:
    """Which pairs belong to the first half of the best division, or None where none is worth it."""
    sources, targets, counts = lengths
    whole = int(counts.sum()) * int(sources.max() + targets.max())
    best, chosen = whole * (1 - ENOUGH), None
    for by, other in ((sources, targets), (targets, sources)):
        cost, length = _best_cut(by, other, counts, budget)
        if cost < best:
            best, chosen = cost, by <= length
    return chosen


def _best_cut(by: Counts, other: Counts, counts: Counts, budget: int) -> tuple[float, int]:
    """The cheapest cut along one side: tokens with padding when cut after this length."""
    values, group = np.unique(by, return_inverse=True)
    if len(values) == 1:
        return float("inf"), 0
    sentences, longest = np.zeros((2, len(values)), dtype=np.int64)
    np.add.at(sentences, group, counts)
    np.maximum.at(longest, group, other)
    below, above = np.cumsum(sentences)[:-1], np.cumsum(sentences[::-1])[::-1][1:]
    longest_below, longest_above = np.maximum.accumulate(longest)[:-1], np.maximum.accumulate(longest[::-1])[::-1][1:]
    cost = below * (values[:-1] + longest_below) + above * (values[-1] + longest_above)
    full_below = below >= LEAST * np.maximum(1, budget // np.maximum(values[:-1], longest_below))
    full_above = above >= LEAST * np.maximum(1, budget // np.maximum(values[-1], longest_above))
    allowed = np.where(full_below & full_above, cost, np.inf)
    place = int(np.argmin(allowed))
    return float(allowed[place]), int(values[place])
