"""Batches of one language by token budget, each a pure function of (seed, language, counter).

The sentences are divided into pools of similar length on both sides; every pass shuffles within the pools, and shuffles
the order of the batches. So padding stays small, batches differ from pass to pass, and their number does not: batch
number `counter` is found without having made those before it.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cclm.data.prepared import Corpus
from cclm.data.vocabulary import BOS, EOS, PAD
from cclm.rng import key, shuffled, shuffled_many

Ids = NDArray[np.int64]
Numbers = NDArray[np.int32] | NDArray[np.int64]
"""Sentence numbers and lengths, in the narrowest type that holds them: there can be millions."""
Counts = NDArray[np.int64]

LEAST = 0.5
"""A pool holds at least this share of a full batch: smaller ones would pad less and leave batches too small."""
ENOUGH = 0.005
"""A division that saves less than this share of a pool's tokens is not worth the smaller pool."""


@dataclass(frozen=True)
class Pool:
    """Sentences that are batched together, in any order."""

    members: Numbers
    batches: int

    def positions(self, number: int) -> NDArray[np.int64]:
        """The places in the pool that batch `number` takes; batches of a pool differ by at most one sentence."""
        size, extra = divmod(len(self.members), self.batches)
        start = number * size + min(number, extra)
        return np.arange(start, start + size + (number < extra))


def divide(sources: Numbers, targets: Numbers, budget: int) -> list[Pool]:
    """The pools of a corpus. Each has at least half a batch of sentences, if the corpus has as many.

    The distinct pairs of lengths are divided, of which there are few; each sentence follows its pair of lengths.
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
    """Sentences of this length that fit into a batch; at least one."""
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


PADDING, SMALL = 0.1, 512
"""Limits for a dev sample: the largest share of padding per batch, and the tokens up to which padding is ignored."""


@dataclass(frozen=True)
class Direction:
    """From which side to which, and the tags before a source and, instead of <s>, before a target."""

    to_pivot: bool
    source_tag: int | None = None
    target_tag: int | None = None


@dataclass(frozen=True)
class Batch:
    """Sentences of one pair of languages, padded. B sentences, S and T the longest source and target."""

    source: Ids
    """(B, S): [tag] pieces </s>."""
    target_input: Ids
    """(B, T): tag or <s>, then pieces."""
    target_output: Ids
    """(B, T): pieces </s>; what is to be predicted."""
    indices: Ids
    """(B,): which sentences of the corpus these are."""

    @property
    def target_tokens(self) -> int:
        """Tokens that count in the loss: padding does not, the end of the sentence does."""
        return int((self.target_output != PAD).sum())


class Batches:
    """All batches of one language in one direction; `budget` is the most tokens, padding included, on either side."""

    def __init__(self, corpus: Corpus, direction: Direction, *, language: str, seed: int, budget: int) -> None:
        self._corpus, self._direction = corpus, direction
        self._language, self._seed = language, seed
        self._budget = budget
        self._pools = divide(*self._lengths(np.arange(len(corpus), dtype=np.int32)), budget)
        self._firsts = np.cumsum([0, *(pool.batches for pool in self._pools)]).tolist()

    def __len__(self) -> int:
        """Batches per pass."""
        return int(self._firsts[-1])

    def batch(self, counter: int) -> Batch:
        """The batch that this language's draw number `counter` takes."""
        passes, position = divmod(counter, len(self))
        number = shuffled(position, len(self), key(self._seed, "batch", self._language, passes))
        place = bisect_right(self._firsts, number) - 1
        pool = self._pools[place]
        shuffle = key(self._seed, "pool", self._language, passes, place)
        positions = pool.positions(number - self._firsts[place])
        return self.of(pool.members[shuffled_many(positions, len(pool.members), shuffle)])

    @property
    def sentences(self) -> int:
        """How many pairs there are."""
        return len(self._corpus)

    def in_batches(self, indices: Ids) -> Iterator[Batch]:
        """These sentences, each once, the shortest first: for a sample of a dev set."""
        longest = np.maximum(*self._lengths(indices))
        by_length = np.argsort(longest, kind="stable")
        order, longest = indices[by_length], longest[by_length]
        start = 0
        while start < len(order):
            size = self._fitting(longest[start:])
            yield self.of(order[start : start + size])
            start += size

    def _fitting(self, lengths: Numbers) -> int:
        """How many of these sentences, the shortest first, make a batch within the budget and with little padding."""
        costs = lengths * np.arange(1, len(lengths) + 1, dtype=np.int64)
        padding = costs - np.cumsum(lengths)
        fits = (costs <= self._budget) & ((padding <= PADDING * costs) | (costs <= SMALL))
        return len(fits) if fits.all() else max(1, int(np.argmin(fits)))

    def in_order(self) -> Iterator[Batch]:
        """Every sentence once, without shuffling: for dev and test sets."""
        for pool in self._pools:
            for number in range(pool.batches):
                yield self.of(pool.members[pool.positions(number)])

    def of(self, indices: Numbers) -> Batch:
        """The batch of these sentences."""
        to_pivot = self._direction.to_pivot
        sources, targets = self._sentences(indices, pivot=not to_pivot), self._sentences(indices, pivot=to_pivot)
        start = BOS if self._direction.target_tag is None else self._direction.target_tag
        return Batch(
            source=_padded(self._corpus, sources, before=self._direction.source_tag, after=EOS),
            target_input=_padded(self._corpus, targets, before=start, after=None),
            target_output=_padded(self._corpus, targets, before=None, after=EOS),
            indices=np.asarray(indices, dtype=np.int64),
        )

    def _lengths(self, indices: Numbers) -> tuple[Numbers, Numbers]:
        """Tokens of these sentences in a batch, tags and </s> included: sources, targets."""
        offsets, first = self._corpus.offsets, 2 * indices.astype(np.int64)
        other, pivot = ((offsets[first + side + 1] - offsets[first + side]).astype(np.int32) + 1 for side in (0, 1))
        source, target = (other, pivot) if self._direction.to_pivot else (pivot, other)
        return source + np.int32(self._direction.source_tag is not None), target

    def _sentences(self, indices: Numbers, *, pivot: bool) -> Ids:
        return 2 * np.asarray(indices, dtype=np.int64) + pivot


def _padded(corpus: Corpus, sentences: Ids, *, before: int | None, after: int | None) -> Ids:
    """(B, longest): the sentences by number, gathered in one go."""
    starts = corpus.offsets[sentences]
    lengths = corpus.offsets[sentences + 1] - starts
    lead, tail = int(before is not None), int(after is not None)
    result = np.full((len(sentences), int(lengths.max()) + lead + tail), PAD, dtype=np.int64)
    column = np.arange(result.shape[1]) - lead
    inside = (column >= 0) & (column < lengths[:, None])
    result[inside] = corpus.tokens[(starts[:, None] + column)[inside]]
    if before is not None:
        result[:, 0] = before
    if after is not None:
        result[np.arange(len(sentences)), lengths + lead] = after
    return result
