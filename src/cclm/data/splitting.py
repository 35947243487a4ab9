"""Subword regularisation: some pieces of a training batch are split into the two most probable smaller pieces.

A model that sees a word in several segmentations overfits less, which helps languages with little text. The splits are
a function of (seed, micro-batch) and are made on ids: the text is not segmented again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cclm.data.batches import Batch, Ids
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import EOS, PAD, Segmenter, Vocabulary
from cclm.rng import key, uniform_many

NONE = -1
"""Stands for each half of a symbol that cannot be split."""


@dataclass(frozen=True)
class Halves:
    """The two pieces that each symbol of a vocabulary is split into."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]

    @classmethod
    def of(cls, segmenter: Segmenter, vocabulary: Vocabulary) -> "Halves":
        """The most probable halves under a unigram model. Characters, special symbols and tags cannot be split."""
        left, right = (np.full(len(vocabulary), NONE, dtype=np.int64) for _ in range(2))
        scores = segmenter.scores
        for piece in scores.keys() & vocabulary.ids.keys():
            cuts = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
            possible = [cut for cut in cuts if cut[0] in scores and cut[1] in scores]
            if possible:
                best = max(possible, key=lambda cut: scores[cut[0]] + scores[cut[1]])
                left[vocabulary.ids[piece]], right[vocabulary.ids[piece]] = (vocabulary.ids[half] for half in best)
        return cls(left, right)

    def split(self, ids: Ids, is_chosen: NDArray[np.bool_]) -> Ids:
        """The rows of padded ids, with the chosen symbols split where they can be."""
        splits = is_chosen & (self.left[ids] != NONE)
        columns = np.arange(ids.shape[1]) + np.cumsum(splits, axis=1) - splits
        lengths = (ids != PAD).sum(axis=1) + splits.sum(axis=1)
        result = np.full((len(ids), int(lengths.max())), PAD, dtype=np.int64)
        real = ids != PAD
        rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)
        result[rows[real], columns[real]] = np.where(splits, self.left[ids], ids)[real]
        result[rows[splits], columns[splits] + 1] = self.right[ids[splits]]
        return result


@dataclass(frozen=True)
class Splitter:
    """Splits the pieces of training batches: each with a probability, on either side."""

    seed: int
    source: float
    target: float
    halves: Mapping[str, tuple[Halves, Halves]]
    """The halves of source and target symbols, by task."""

    def __call__(self, batch: Batch, task: str, number: int) -> Batch:
        """The batch with some pieces split; `number`, its number as a micro-batch of the run, decides which."""
        source, target = self.halves[task]
        if self.source:
            batch = replace(batch, source=source.split(batch.source, self._choose("source", number, batch.source)))
        if self.target:
            output = target.split(batch.target_output, self._choose("target", number, batch.target_output))
            shifted = np.where(output[:, :-1] == EOS, PAD, output[:, :-1])
            batch = replace(
                batch, target_output=output, target_input=np.concatenate([batch.target_input[:, :1], shifted], axis=1)
            )
        return batch

    def _choose(self, side: str, number: int, ids: Ids) -> NDArray[np.bool_]:
        drawn = uniform_many(key(self.seed, "pieces", side, number), np.arange(ids.size, dtype=np.uint64))
        probability = self.source if side == "source" else self.target
        return (drawn < probability).reshape(ids.shape)


def halves_of(prepared: Prepared, language: str, *, is_pivot: bool) -> Halves:
    """The halves of the pieces of one language."""
    return Halves.of(prepared.segmenter(language), prepared.pivot if is_pivot else prepared.other)
