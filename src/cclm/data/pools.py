"""Pools: sentences of like length on both sides, found by dividing a corpus in two again and again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32] | NDArray[np.int64]

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
    """The pools of a corpus. Each holds at least half a batch, as far as there are so many sentences."""
    todo: list[Ids] = [np.arange(len(sources), dtype=np.int32)]
    pools: list[Pool] = []
    while todo:
        members = todo.pop()
        halves = _halves(sources[members], targets[members], budget)
        if halves is None:
            capacity = _capacity(int(sources[members].max()), int(targets[members].max()), budget)
            pools.append(Pool(members, -(-len(members) // capacity)))
        else:
            todo += [members[~halves], members[halves]]
    return pools


def _capacity(source: int, target: int, budget: int) -> int:
    """Sentences of this length that fit into a batch; one always does."""
    return max(1, budget // max(source, target))


def _halves(sources: Ids, targets: Ids, budget: int) -> NDArray[np.bool_] | None:
    """Who belongs to the first half of the best division by length, or None where none is worth it."""
    whole = len(sources) * (int(sources.max()) + int(targets.max()))
    best, chosen = whole * (1 - ENOUGH), None
    for by, other in ((sources, targets), (targets, sources)):
        cost, length = _best_cut(by, other, budget)
        if cost < best:
            best, chosen = cost, by <= length
    return chosen


def _best_cut(by: Ids, other: Ids, budget: int) -> tuple[float, int]:
    """The cheapest cut along one side: tokens with padding when cut after this length."""
    unique, group = np.unique(by, return_inverse=True)
    values: NDArray[np.int64] = unique.astype(np.int64)
    if len(values) == 1:
        return float("inf"), 0
    counts = np.bincount(group)
    longest = np.zeros(len(values), dtype=np.int64)
    np.maximum.at(longest, group, other)
    below, above = np.cumsum(counts)[:-1], np.cumsum(counts[::-1])[::-1][1:]
    longest_below, longest_above = np.maximum.accumulate(longest)[:-1], np.maximum.accumulate(longest[::-1])[::-1][1:]
    cost = below * (values[:-1] + longest_below) + above * (values[-1] + longest_above)
    full_below = below >= LEAST * np.maximum(1, budget // np.maximum(values[:-1], longest_below))
    full_above = above >= LEAST * np.maximum(1, budget // np.maximum(values[-1], longest_above))
    allowed = np.where(full_below & full_above, cost, np.inf)
    place = int(np.argmin(allowed))
    return float(allowed[place]), int(values[place])
