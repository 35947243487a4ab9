"""The loss that training minimises, and the dev loss that competence is computed from.

Losses are sums over target tokens, returned with the number of tokens: sums of micro-batches, ranks and dev sets can be
added exactly. Only `bits` divides.
"""

# B batch, T target, V symbols, N real target tokens, R some of these rows

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from cclm.model.packing import PAD

CHUNK = 1 << 18
"""Elements of the gradient that a CPU computes at once: few enough to stay in its cache."""


class Losses(NamedTuple):
    """Sums over the target tokens in nats. Padding does not count; the </s> of each sentence does."""

    smoothed: Tensor
    """Negative log-likelihood with label smoothing: the training loss."""
    nll: Tensor
    """Negative log-likelihood, without smoothing."""
    tokens: int


def losses(logits_NV: Tensor, target_output_BT: Tensor, smoothing: float, pad: int = PAD) -> Losses:
    """The losses of a batch, from the logits of its real target tokens.

    Smoothing distributes the probability `smoothing` of each target evenly over all V symbols, including the target and
    padding, as `F.cross_entropy` does. Half-precision logits are converted to float32.
    """
    return packed_losses(logits_NV, target_output_BT[target_output_BT != pad], smoothing)


def packed_losses(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> Losses:
    """The same, from target tokens without padding."""
    if not 0 <= smoothing < 1:
        raise ValueError(f"label smoothing must be at least 0 and below 1; got {smoothing}")
    smoothed, nll = _Sums.apply(logits_NV, target_N, smoothing)  # type: ignore[no-untyped-call]
    return Losses(smoothed, nll, len(target_N))


def losses_in_chunks(
    logits: Callable[[Tensor], Tensor], states_ND: Tensor, target_N: Tensor, smoothing: float, *, rows: int
) -> Losses:
    """The same, from the states that `logits` projects: `rows` of them at once.

    The logits of all tokens never exist together. Those of a chunk are computed again in the backward pass.
    """
    from torch.utils.checkpoint import checkpoint

    def of_chunk(states_RD: Tensor, target_R: Tensor) -> tuple[Tensor, Tensor]:
        found = packed_losses(logits(states_RD), target_R, smoothing)
        return found.smoothed, found.nll

    chunks = [
        # No dropout comes after the states, so that no random state has to be kept, which a GPU would be waited for.
        checkpoint(of_chunk, *parts, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
        for parts in zip(torch.split(states_ND, rows), torch.split(target_N, rows), strict=True)
    ]
    smoothed, nll = (torch.stack(column).sum() for column in zip(*chunks, strict=True))
    return Losses(smoothed, nll, len(target_N))


class _Sums(torch.autograd.Function):
    """The smoothed and the plain sum.

    The logits are the largest tensor of a step. To save memory, the gradient (probability minus smoothed target)
    overwrites the log-probabilities, some rows at a time.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        log_NV = F.log_softmax(logits_NV, dim=-1, dtype=torch.promote_types(logits_NV.dtype, torch.float32))
        nll = F.nll_loss(log_NV, target_N, reduction="sum")
        smoothed = (1 - smoothing) * nll - smoothing * log_NV.mean(dim=-1).sum()
        ctx.save_for_backward(log_NV, target_N)
        ctx.smoothing, ctx.dtype, ctx.is_used = smoothing, logits_NV.dtype, False
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        if ctx.is_used:
            raise RuntimeError("the gradient of a loss can be computed only once: it overwrites the log-probabilities")
        ctx.is_used = True
        log_NV, target_N = ctx.saved_tensors
        symbols = log_NV.shape[1]
        # On a GPU every operation costs a launch, and there is no cache to stay in.
        rows = max(1, CHUNK // symbols) if log_NV.device.type == "cpu" else len(log_NV)
        at_target = (-gradient * (1 - ctx.smoothing)).expand(len(log_NV), 1)
        for log_RV in log_NV.split(rows):
            log_RV.exp_().sub_(ctx.smoothing / symbols).mul_(gradient)
        log_NV.scatter_add_(1, target_N[:, None], at_target)
        return log_NV.to(ctx.dtype), None, None


def bits(nats_sum: Tensor | float, tokens: Tensor | int) -> float:
    """Converts a sum in nats to bits per token, the unit of `dev_loss` and of the reference losses L*."""
    if int(tokens) < 1:
        raise ValueError(f"bits needs at least 1 token; got {int(tokens)}")
    return float(nats_sum) / int(tokens) / math.log(2)
