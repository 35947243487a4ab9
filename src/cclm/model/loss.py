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


def packed_losses(logits_NV: Tensor, target_N: Tensor, smoothing: float, *, overwrite: bool = False) -> Losses:
    """The same, from target tokens without padding.

    With `overwrite` the logits may be overwritten, here or in the backward pass. They are the largest tensor of a step.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"label smoothing must be at least 0 and below 1; got {smoothing}")
    is_half_on_cpu = logits_NV.device.type == "cpu" and logits_NV.dtype in (torch.bfloat16, torch.float16)
    function = _HalfSums if is_half_on_cpu else _Sums
    smoothed, nll = function.apply(logits_NV, target_N, smoothing, overwrite)  # type: ignore[no-untyped-call]
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

    To save memory, the log-probabilities overwrite the logits where that is allowed, and the gradient (probability
    minus smoothed target) overwrites the log-probabilities, some rows at a time.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float, overwrite: bool
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(logits_NV.dtype, torch.float32)
        if overwrite and logits_NV.dtype == exact and logits_NV.device.type == "cpu":
            log_NV = logits_NV.detach()
            for log_RV in _chunks(log_NV):
                log_RV.copy_(F.log_softmax(log_RV, dim=-1))
        else:
            log_NV = F.log_softmax(logits_NV, dim=-1, dtype=exact)
        nll = F.nll_loss(log_NV, target_N, reduction="sum")
        smoothed = (1 - smoothing) * nll - smoothing * log_NV.mean(dim=-1).sum()
        ctx.save_for_backward(log_NV, target_N)
        ctx.smoothing, ctx.dtype, ctx.is_used = smoothing, logits_NV.dtype, False
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        _use_once(ctx)
        log_NV, target_N = ctx.saved_tensors
        symbols = log_NV.shape[1]
        at_target = (-gradient * (1 - ctx.smoothing)).expand(len(log_NV), 1)
        for log_RV in _chunks(log_NV):
            log_RV.exp_().sub_(ctx.smoothing / symbols).mul_(gradient)
        log_NV.scatter_add_(1, target_N[:, None], at_target)
        return log_NV.to(ctx.dtype), None, None, None


class _HalfSums(torch.autograd.Function):
    """The same for half-precision logits on a CPU.

    Kept for the backward pass are the logits and, per row, the logarithm of the sum of their exponentials. Whatever is
    computed in float32 has the size of a chunk; the log-probabilities of a whole batch would take twice the memory of
    its logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float, overwrite: bool
    ) -> tuple[Tensor, Tensor]:
        half_NV = logits_NV.detach()
        normalizers, means = [], []
        for half_RV in _chunks(half_NV):
            exact_RV = half_RV.float()
            normalizers.append(exact_RV.logsumexp(dim=-1))
            means.append(exact_RV.mean(dim=-1))
        normalizer_N = torch.cat(normalizers)
        nll = (normalizer_N - half_NV.gather(1, target_N[:, None])[:, 0]).sum()
        smoothed = (1 - smoothing) * nll + smoothing * (normalizer_N - torch.cat(means)).sum()
        ctx.save_for_backward(half_NV if overwrite else half_NV.clone(), target_N, normalizer_N)
        ctx.smoothing, ctx.is_used = smoothing, False
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        _use_once(ctx)
        half_NV, target_N, normalizer_N = ctx.saved_tensors
        symbols = half_NV.shape[1]
        parts = (torch.split(tensor, _rows(half_NV)) for tensor in (half_NV, target_N, normalizer_N))
        for half_RV, target_R, normalizer_R in zip(*parts, strict=True):
            exact_RV = half_RV.float().sub_(normalizer_R[:, None]).exp_().sub_(ctx.smoothing / symbols)
            at_target = exact_RV.new_full((len(exact_RV), 1), ctx.smoothing - 1)
            half_RV.copy_(exact_RV.scatter_add_(1, target_R[:, None], at_target).mul_(gradient))
        return half_NV, None, None, None


def _use_once(ctx: Any) -> None:
    if ctx.is_used:
        raise RuntimeError("the gradient of a loss can be computed only once: it overwrites the log-probabilities")
    ctx.is_used = True


def _chunks(x_NV: Tensor) -> tuple[Tensor, ...]:
    return torch.split(x_NV, _rows(x_NV))


def _rows(x_NV: Tensor) -> int:
    """Rows of a chunk. On a GPU it is all of them: every operation costs a launch, and there is no cache to stay in."""
    return max(1, CHUNK // x_NV.shape[1]) if x_NV.device.type == "cpu" else max(1, len(x_NV))


def bits(nats_sum: Tensor | float, tokens: Tensor | int) -> float:
    """Converts a sum in nats to bits per token, the unit of `dev_loss` and of the reference losses L*."""
    if int(tokens) < 1:
        raise ValueError(f"bits needs at least 1 token; got {int(tokens)}")
    return float(nats_sum) / int(tokens) / math.log(2)
