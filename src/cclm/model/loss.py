"""The loss: what training minimises, and what competence is computed from.

Losses are sums over target tokens, with the number of tokens, so that micro-batches, ranks and dev sets add up
exactly; only `bits` divides.
"""

# B batch, T target, V symbols, N real positions, R some of them

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclm.model.packing import PAD

AT_A_TIME = 1 << 18
"""Numbers of the gradient that are computed at once: few enough for a cache."""


class Losses(NamedTuple):
    """Sums over the target tokens, padding left out and the end of each sentence counted; in nats."""

    smoothed: Tensor
    """With label smoothing: the one to train on."""
    nll: Tensor
    """Negative log-likelihood, without smoothing."""
    tokens: int
    """The number of tokens."""


def losses(logits_NV: Tensor, target_output_BT: Tensor, smoothing: float) -> Losses:
    """The losses of a batch, from the logits of its real positions.

    Smoothing moves the share `smoothing` of each target to all V symbols alike, itself and padding among them
    (smoothing / V each), as `F.cross_entropy` does. Half-precision logits are raised to float32.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"label smoothing must be at least 0 and below 1; got {smoothing}")
    target_N = target_output_BT[target_output_BT != PAD]
    smoothed, nll = _Sums.apply(logits_NV, target_N, smoothing)  # type: ignore[no-untyped-call]
    return Losses(smoothed, nll, len(target_N))


class _Sums(torch.autograd.Function):
    """The smoothed and the plain sum. Logits are the largest tensors of a step, so few of that size are made: the
    gradient, probability minus smoothed target, overwrites the log-probabilities, some rows at a time."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_NV = F.log_softmax(logits_NV, dim=-1, dtype=torch.promote_types(logits_NV.dtype, torch.float32))
        nll = F.nll_loss(log_NV, target_N, reduction="sum")
        smoothed = (1 - smoothing) * nll - smoothing * log_NV.mean(dim=-1).sum()
        ctx.log_NV, ctx.target_N, ctx.smoothing, ctx.dtype = log_NV, target_N, smoothing, logits_NV.dtype
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        log_NV, ctx.log_NV = ctx.log_NV, None
        if log_NV is None:
            raise RuntimeError("the gradient of a loss can be computed only once: it overwrites the log-probabilities")
        symbols, rows = log_NV.shape[1], max(1, AT_A_TIME // log_NV.shape[1])
        at_target = (-gradient * (1 - ctx.smoothing)).expand(len(log_NV), 1)
        for log_RV in log_NV.split(rows):
            log_RV.exp_().sub_(ctx.smoothing / symbols).mul_(gradient)
        log_NV.scatter_add_(1, ctx.target_N[:, None], at_target)
        return log_NV.to(ctx.dtype), None, None


def bits(nats_sum: Tensor | float, tokens: Tensor | int) -> float:
    """Bits per token from a sum in nats: the unit of `dev_loss` and of the benchmark losses L*."""
    if int(tokens) < 1:
        raise ValueError(f"bits: a mean over {int(tokens)} tokens; there must be at least 1")
    return float(nats_sum) / int(tokens) / math.log(2)
