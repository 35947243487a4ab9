"""The loss of every single dev sentence, in batches that mix languages: what the bounded probe measures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from cclm.data.batches import Batch, Batches, Ids, batch_size
from cclm.model.interface import TranslationModel
from cclm.training.device import Device

Losses = NDArray[np.float64]
"""(sentences, 2): the loss with label smoothing and without, in bits, summed over the target tokens."""
LARGER = 8
"""The largest batch without a backward pass, as a multiple of the tokens of a training batch."""
MOST_LOGITS = 1 << 25
"""The most logits in a batch that is larger than a training batch: 128 MB in float32."""


def probe_batch_tokens(budget: int, symbols: int) -> int:
    """The tokens per batch without a backward pass, given those of a training batch and the size of the vocabulary.

    This is not the budget of a round, which `DevProbe.measure` decides.
    """
    return max(budget, min(LARGER * budget, MOST_LOGITS // symbols))


@dataclass(frozen=True)
class MixedBatch:
    """Sentences of several tasks; row i is number `rows[i]` of all sentences that were chosen."""

    batch: Batch
    rows: Ids


def mixed_batches(dev: Mapping[str, Batches], chosen: Mapping[str, Ids], budget: int) -> Iterator[MixedBatch]:
    """Batches of the chosen sentences of all tasks, shortest first. Sentences are numbered task by task."""
    parts = [dev[name].of(indices) for name, indices in chosen.items() if len(indices)]
    if not parts:
        return
    owners = np.repeat(np.arange(len(parts)), [len(part.indices) for part in parts])
    firsts = np.cumsum([0, *(len(part.indices) for part in parts)])
    longest = np.concatenate([_longest(part) for part in parts])
    order = np.argsort(longest, kind="stable")
    start = 0
    while start < len(order):
        rows = order[start : start + batch_size(longest[order[start:]], budget)]
        yield MixedBatch(_gathered(parts, owners[rows], rows - firsts[owners[rows]]), rows)
        start += len(rows)


def _longest(batch: Batch) -> Ids:
    """The tokens of the longer side of each sentence."""
    longest: Ids = np.maximum((batch.source != batch.pad).sum(axis=1), (batch.target_output != batch.pad).sum(axis=1))
    return longest


def _gathered(parts: Sequence[Batch], owners: Ids, rows: Ids) -> Batch:
    """One batch of some rows of several batches."""

    def side(name: str) -> Ids:
        groups = [(np.flatnonzero(owners == owner), getattr(parts[owner], name)) for owner in np.unique(owners)]
        pieces = [(places, ids[rows[places]]) for places, ids in groups]
        width = max(int((ids != pad).any(axis=0).sum()) for _, ids in pieces)  # padding is at the end
        result = np.full((len(rows), width), pad, dtype=np.int64)
        for places, ids in pieces:
            result[places, : min(width, ids.shape[1])] = ids[:, :width]
        return result

    pad = parts[0].pad
    indices = np.array([parts[owner].indices[row] for owner, row in zip(owners, rows, strict=True)], dtype=np.int64)
    return Batch(side("source"), side("target_input"), side("target_output"), indices, pad)


@torch.no_grad()
def sentence_losses(device: Device, model: TranslationModel, batch: Batch, smoothing: float) -> Losses:
    """The losses of each sentence of a batch."""
    source, target_input, target_N, rows = device.inputs(batch)
    with device.autocast():
        logits_NV = model(source, target_input, rows)
    log_NV = F.log_softmax(logits_NV, dim=-1, dtype=torch.float32)
    nll_N = F.nll_loss(log_NV, target_N, reduction="none")
    smoothed_N = (1 - smoothing) * nll_N - smoothing * log_NV.mean(dim=-1)
    nats = torch.stack([smoothed_N, nll_N], dim=1).cpu().numpy().astype(np.float64)
    # Summed on the CPU, in a fixed order: on a GPU the order of atomic additions varies.
    starts = np.cumsum([0, *(batch.target_output != batch.pad).sum(axis=1)[:-1]])
    bits: Losses = np.add.reduceat(nats, starts, axis=0) / np.log(2)
    return bits
