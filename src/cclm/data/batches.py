"""Batches of one language by token budget, each a pure function of (seed, language, counter).

The sentences are divided into pools of similar length on both sides, which keeps padding small. Every pass shuffles the
sentences within each pool and the order of the batches. The number of batches is the same in every pass, so batch
number `counter` is computed without the ones before it: resuming a run needs no replay.
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
Indices = NDArray[np.int32] | NDArray[np.int64]
"""Sentence indices or lengths. Where there are millions of them, int32 halves the memory."""
Counts = NDArray[np.int64]

MIN_FILL = 0.5
"""The minimum size of a pool, as a fraction of a full batch. Smaller pools need less padding but give small batches."""
MIN_SAVING = 0.005
"""A pool is divided only if that saves at least this fraction of its tokens, padding included."""


@dataclass(frozen=True)
class Pool:
    """Sentences of similar length, which are batched together in any order."""

    members: Indices
    batches: int

    def positions(self, number: int) -> NDArray[np.int64]:
        """The positions of batch `number` in the pool. The sizes of a pool's batches differ by at most one sentence."""
        size, extra = divmod(len(self.members), self.batches)
        start = number * size + min(number, extra)
        return np.arange(start, start + size + (number < extra))


def divide(sources: Indices, targets: Indices, budget: int) -> list[Pool]:
    """Divides a corpus into pools, given the source and target length of each sentence.

    A pool is cut in two as long as that saves enough padding. The cuts are computed on the distinct pairs of lengths,
    which are far fewer than the sentences.
    """
    width = int(targets.max()) + 1
    pairs, pair_of, counts = np.unique(
        sources.astype(np.int64) * width + targets, return_inverse=True, return_counts=True
    )
    lengths = LengthPairs(*np.divmod(pairs, width), counts)
    todo, pool_of_pair = [np.arange(len(pairs))], np.empty(len(pairs), dtype=np.int32)
    batches: list[int] = []
    while todo:
        members = todo.pop()
        part = LengthPairs(*(column[members] for column in lengths))
        is_first = _best_division(part, budget)
        if is_first is None:
            pool_of_pair[members] = len(batches)
            batches.append(-(-int(part.counts.sum()) // _capacity(part.sources.max(), part.targets.max(), budget)))
        else:
            todo += [members[~is_first], members[is_first]]
    pool_of = pool_of_pair[pair_of]
    by_pool = np.argsort(pool_of, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(pool_of))
    return [Pool(members, number) for members, number in zip(np.split(by_pool, ends[:-1]), batches, strict=True)]


class LengthPairs(NamedTuple):
    """The distinct pairs of source and target length, and the number of sentences of each."""

    sources: Counts
    targets: Counts
    counts: Counts


def _capacity(source: int, target: int, budget: int) -> int:
    """The number of sentences of these lengths that fit into a batch; at least one."""
    return max(1, budget // max(source, target))


def _best_division(lengths: LengthPairs, budget: int) -> NDArray[np.bool_] | None:
    """Which length pairs go to the first of two pools; None if no division saves enough."""
    sources, targets, counts = lengths
    undivided = int(counts.sum()) * int(sources.max() + targets.max())
    best, chosen = undivided * (1 - MIN_SAVING), None
    for by, other in ((sources, targets), (targets, sources)):
        cost, length = _best_cut(by, other, counts, budget)
        if cost < best:
            best, chosen = cost, by <= length
    return chosen


def _best_cut(by: Counts, other: Counts, counts: Counts, budget: int) -> tuple[float, int]:
    """The best cut along the side `by`: the number of tokens with padding, and the length after which to cut."""
    values, group = np.unique(by, return_inverse=True)
    if len(values) == 1:
        return float("inf"), 0
    sentences, longest = np.zeros((2, len(values)), dtype=np.int64)
    np.add.at(sentences, group, counts)
    np.maximum.at(longest, group, other)
    below, above = np.cumsum(sentences)[:-1], np.cumsum(sentences[::-1])[::-1][1:]
    longest_below, longest_above = np.maximum.accumulate(longest)[:-1], np.maximum.accumulate(longest[::-1])[::-1][1:]
    cost = below * (values[:-1] + longest_below) + above * (values[-1] + longest_above)
    full_below = below >= MIN_FILL * np.maximum(1, budget // np.maximum(values[:-1], longest_below))
    full_above = above >= MIN_FILL * np.maximum(1, budget // np.maximum(values[-1], longest_above))
    allowed = np.where(full_below & full_above, cost, np.inf)
    best = int(np.argmin(allowed))
    return float(allowed[best]), int(values[best])


MAX_PADDING, SMALL_BATCH = 0.1, 512
"""For dev samples: the maximum fraction of padding in a batch, and the number of tokens up to which it may be more."""


@dataclass(frozen=True)
class Marks:
    """The ids of the special symbols. Those of a pretrained model differ from ours."""

    pad: int = PAD
    start: int = BOS
    end: int = EOS
    predicts_tag: bool = False
    """Whether the target's tag follows the start symbol and is predicted, or replaces the start symbol."""


OURS = Marks()


@dataclass(frozen=True)
class Direction:
    """The translation direction, its language tags and special symbols.

    `source_tag` comes before each source, `target_tag` before each target: `marks` says how.
    """

    to_pivot: bool
    source_tag: int | None = None
    target_tag: int | None = None
    marks: Marks = OURS

    @property
    def predicted_tag(self) -> tuple[int, ...]:
        """The tag as the first symbol to predict; empty where it is given."""
        return (self.target_tag,) if self.marks.predicts_tag and self.target_tag is not None else ()

    @property
    def first_input(self) -> tuple[int, ...]:
        """What the target input begins with."""
        tag, start = self.target_tag, self.marks.start
        return (start, *self.predicted_tag) if self.marks.predicts_tag or tag is None else (tag,)


@dataclass(frozen=True)
class Batch:
    """A padded batch of one language. B is the number of sentences, S and T the longest source and target."""

    source: Ids
    """(B, S): [tag] subwords </s>."""
    target_input: Ids
    """(B, T): tag or <s>, then subwords."""
    target_output: Ids
    """(B, T): subwords </s>, the tokens to predict."""
    indices: Ids
    """(B,): the indices of the sentences in the corpus."""
    pad: int = PAD
    """The id of padding."""

    @property
    def target_tokens(self) -> int:
        """The number of tokens in the loss: </s> counts, padding does not."""
        return int((self.target_output != self.pad).sum())


class Batches:
    """All batches of one language in one direction.

    `budget` is the maximum number of tokens per batch on either side, including padding.
    """

    def __init__(self, corpus: Corpus, direction: Direction, *, language: str, seed: int, budget: int) -> None:
        self._corpus, self._direction = corpus, direction
        self._language, self._seed = language, seed
        self._budget = budget
        self._pools = divide(*self._lengths(np.arange(len(corpus), dtype=np.int32)), budget)
        self._first_batches = np.cumsum([0, *(pool.batches for pool in self._pools)]).tolist()

    def __len__(self) -> int:
        """The number of batches per pass over the corpus."""
        return int(self._first_batches[-1])

    def batch(self, counter: int) -> Batch:
        """The batch for the `counter`-th draw of this language, from 0."""
        passes, position = divmod(counter, len(self))
        number = shuffled(position, len(self), key(self._seed, "batch", self._language, passes))
        pool_number = bisect_right(self._first_batches, number) - 1
        pool = self._pools[pool_number]
        shuffle = key(self._seed, "pool", self._language, passes, pool_number)
        positions = pool.positions(number - self._first_batches[pool_number])
        return self.of(pool.members[shuffled_many(positions, len(pool.members), shuffle)])

    @property
    def sentences(self) -> int:
        """The number of sentence pairs."""
        return len(self._corpus)

    @property
    def target_tokens(self) -> Ids:
        """The number of target tokens of each sentence, as in the loss."""
        return self._lengths(np.arange(len(self._corpus)))[1].astype(np.int64)

    def in_batches(self, indices: Ids) -> Iterator[Batch]:
        """Batches of the given sentences, shortest first; used for samples of a dev set."""
        longest = np.maximum(*self._lengths(indices))
        by_length = np.argsort(longest, kind="stable")
        order, longest = indices[by_length], longest[by_length]
        start = 0
        while start < len(order):
            size = batch_size(longest[start:], self._budget)
            yield self.of(order[start : start + size])
            start += size

    def in_order(self) -> Iterator[Batch]:
        """Batches of all sentences, without shuffling; used for dev and test sets."""
        for pool in self._pools:
            for number in range(pool.batches):
                yield self.of(pool.members[pool.positions(number)])

    def of(self, indices: Indices) -> Batch:
        """The batch of the given sentences."""
        corpus, way = self._corpus, self._direction
        first = 2 * np.asarray(indices, dtype=np.int64)
        sources, targets = first + (not way.to_pivot), first + way.to_pivot  # the pivot is the second of a pair
        before_source = () if way.source_tag is None else (way.source_tag,)
        end, pad = way.marks.end, way.marks.pad
        return Batch(
            source=_padded(corpus, sources, before=before_source, after=end, pad=pad),
            target_input=_padded(corpus, targets, before=way.first_input, after=None, pad=pad),
            target_output=_padded(corpus, targets, before=way.predicted_tag, after=end, pad=pad),
            indices=np.asarray(indices, dtype=np.int64),
            pad=pad,
        )

    def _lengths(self, indices: Indices) -> tuple[Indices, Indices]:
        """The numbers of source and target tokens of these sentences, including tags and </s>."""
        offsets, first = self._corpus.offsets, 2 * indices.astype(np.int64)
        other, pivot = ((offsets[first + side + 1] - offsets[first + side]).astype(np.int32) + 1 for side in (0, 1))
        source, target = (other, pivot) if self._direction.to_pivot else (pivot, other)
        return (
            source + np.int32(self._direction.source_tag is not None),
            target + np.int32(len(self._direction.predicted_tag)),
        )


def batch_size(lengths: Indices, budget: int) -> int:
    """How many of these sentences, shortest first, fit into a batch within the budget and with little padding."""
    costs = lengths * np.arange(1, len(lengths) + 1, dtype=np.int64)
    padding = costs - np.cumsum(lengths)
    fits = (costs <= budget) & ((padding <= MAX_PADDING * costs) | (costs <= SMALL_BATCH))
    return len(fits) if fits.all() else max(1, int(np.argmin(fits)))


def _padded(corpus: Corpus, sentences: Ids, *, before: tuple[int, ...], after: int | None, pad: int) -> Ids:
    """The sentences as one padded array (B, longest), gathered without a Python loop."""
    starts = corpus.offsets[sentences]
    lengths = corpus.offsets[sentences + 1] - starts
    num_before, num_after = len(before), int(after is not None)
    result = np.full((len(sentences), int(lengths.max()) + num_before + num_after), pad, dtype=np.int64)
    column = np.arange(result.shape[1]) - num_before
    inside = (column >= 0) & (column < lengths[:, None])
    result[inside] = corpus.tokens[(starts[:, None] + column)[inside]]
    if before:
        result[:, :num_before] = before
    if after is not None:
        result[np.arange(len(sentences)), lengths + num_before] = after
    return result
