"""The loss of a unigram model: what a translation model must beat to have learned anything. No torch."""

import numpy as np
from numpy.typing import NDArray

from cclm.data.prepared import Corpus, Prepared
from cclm.data.vocabulary import EOS
from cclm.training.tasks import Task


def unigram_loss(prepared: Prepared, task: Task, *, symbols: int, smoothing: float) -> float:
    """The dev loss, in bits per target token, of a model that only knows how frequent each target symbol is.

    Frequencies are those of the training text, plus one each; label smoothing as in the dev loss of a training.
    """
    counts = 1 + _counts(prepared.corpus(task.language, "train"), task, symbols)
    bits = np.log2(counts.sum()) - np.log2(counts)
    dev = _counts(prepared.corpus(task.language, "dev"), task, symbols)
    return float((1 - smoothing) * (dev @ bits) / dev.sum() + smoothing * bits.mean())


def _counts(corpus: Corpus, task: Task, symbols: int) -> NDArray[np.float64]:
    """How often each symbol occurs on the target side, </s> included."""
    side = int(task.direction.to_pivot)
    target = np.repeat(np.arange(2 * len(corpus)) % 2 == side, np.diff(corpus.offsets))
    counts = np.bincount(np.asarray(corpus.tokens)[target], minlength=symbols).astype(np.float64)
    counts[EOS] += len(corpus)
    return counts
