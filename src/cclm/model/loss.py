"""The loss: what training lowers, and what competence is measured by.

Everything is a sum over target tokens with their number beside it, so that micro-batches, ranks and dev sets add up
exactly; only `bits` divides.
"""

# B batch, T target, V symbols

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cclm.model.transformer import PAD


class Losses(NamedTuple):
    """Sums over the target tokens, padding left out and the end of each sentence counted; in nats."""

    smoothed: Tensor
    """With label smoothing: the one to train on."""
    nll: Tensor
    """Negative log-likelihood, without smoothing."""
    tokens: Tensor
    """How many tokens were summed."""


def losses(logits_BTV: Tensor, target_output_BT: Tensor, smoothing: float) -> Losses:
    """The losses of a batch.

    Smoothing moves the share `smoothing` of each target to all V symbols alike, itself and padding among them
    (smoothing / V each), as `F.cross_entropy` does. Half-precision logits are raised to float32.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"label smoothing must be at least 0 and below 1; got {smoothing}")
    real_BT = target_output_BT != PAD
    log_BTV = F.log_softmax(logits_BTV, dim=-1, dtype=torch.promote_types(logits_BTV.dtype, torch.float32))
    nll = F.nll_loss(log_BTV.flatten(0, 1), target_output_BT.flatten(), ignore_index=PAD, reduction="sum")
    smoothed = nll
    if smoothing:
        smoothed = (1 - smoothing) * nll - smoothing * log_BTV.mean(dim=-1)[real_BT].sum()
    return Losses(smoothed, nll, real_BT.sum())


def bits(nats_sum: Tensor | float, tokens: Tensor | int) -> float:
    """Bits a token from a sum in nats: the unit of `dev_loss` and of the benchmark losses L*."""
    if int(tokens) < 1:
        raise ValueError(f"bits: a mean over {int(tokens)} tokens; there must be at least 1")
    return float(nats_sum) / int(tokens) / math.log(2)
