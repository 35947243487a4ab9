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

from cclm.model.packing import PAD, rounded_up

CHUNK = 1 << 18
"""Elements of the gradient that a CPU computes at once: few enough to stay in its cache."""
HALF_LOGITS = 1 << 24
"""Logits in half precision that a CPU computes at once."""
FEWEST_ROWS = 512
"""Rows that a CPU projects at once even so: products of fewer rows are slow."""


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
    smoothed, nll = _Sums.apply(logits_NV, target_N, smoothing, overwrite)  # type: ignore[no-untyped-call]
    return Losses(smoothed, nll, len(target_N))


def half_losses(
    states_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, smoothing: float, half: torch.dtype
) -> Losses:
    """The same, from states that are projected to logits in half precision, on a CPU.

    The logits of all tokens never exist together: for some rows after the other, the logits, their losses and their
    gradients are computed. The bias is not trained.
    """
    with torch.autocast("cpu", enabled=False):
        smoothed, nll = _ProjectedSums.apply(  # type: ignore[no-untyped-call]
            states_ND, weight_VD, bias_V, target_N, smoothing, half, torch.is_grad_enabled()
        )
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


class _ProjectedSums(torch.autograd.Function):
    """The smoothed and the plain sum, from states. Gradients are computed with them, and only scaled afterwards.

    What label smoothing takes from the target it gives to all symbols alike. This part of the loss and of its gradients
    follows from the sums of states and of weights.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        smoothing: float,
        half: torch.dtype,
        is_learning: bool,
    ) -> tuple[Tensor, Tensor]:
        states_ND, weight_VD = states_ND.to(half), weight_VD.to(half)
        to_states, to_weight = (is_learning and needed for needed in ctx.needs_input_grad[:2])
        states_gradient_ND = torch.empty_like(states_ND) if to_states else None
        weight_gradient_VD = torch.zeros_like(weight_VD, dtype=torch.float32) if to_weight else None
        sums_D, weights_D = (x.sum(dim=0, dtype=torch.float32) for x in (states_ND, weight_VD))
        each = smoothing / len(weight_VD)
        nll, normalizers = torch.zeros(()), torch.zeros(())
        for start in range(0, len(target_N), rows := max(FEWEST_ROWS, HALF_LOGITS // len(weight_VD))):
            target_R, states_RD = target_N[start : start + rows], _filled(states_ND[start : start + rows])
            logits_RV = states_RD @ weight_VD.T  # a product with a bias is slower
            if bias_V is not None:
                logits_RV += bias_V
            at_target = logits_RV[: len(target_R)].gather(1, target_R[:, None]).sum(dtype=torch.float32)
            log_R = _overwrite_by_gradient(logits_RV, target_R, smoothing, is_learning)
            nll -= log_R.sum()
            normalizers += at_target - log_R.sum()
            if states_gradient_ND is not None:
                gradient_RD = torch.addmm((-each * weights_D).to(half), logits_RV, weight_VD)
                states_gradient_ND[start : start + rows] = gradient_RD[: len(target_R)]
            if weight_gradient_VD is not None:
                weight_gradient_VD += logits_RV.T @ states_RD
        if weight_gradient_VD is not None:
            weight_gradient_VD -= each * sums_D
        logits = sums_D @ weights_D + (0 if bias_V is None else len(target_N) * bias_V.sum())
        ctx.gradients, ctx.is_used = (states_gradient_ND, weight_gradient_VD), False
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * normalizers - each * logits, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        _use_once(ctx)
        to_states, to_weight = (None if part is None else part.mul_(gradient) for part in ctx.gradients)
        return to_states, to_weight, None, None, None, None, None


def _overwrite_by_gradient(logits_RV: Tensor, target_R: Tensor, smoothing: float, is_learning: bool) -> Tensor:
    """Returns the log-probabilities (R) of the targets in float32. If the model is learning, the logits are overwritten
    by their gradients without the part that is the same for all symbols, and by 0 in rows without a target."""
    logits_RV[len(target_R) :].zero_()
    parts = (torch.split(x, _rows(logits_RV, 4 * CHUNK)) for x in (logits_RV[: len(target_R)], target_R[:, None]))
    found = []
    for half_CV, target_C1 in zip(*parts, strict=True):
        found.append(F.log_softmax(half_CV, dim=-1, dtype=torch.float32).gather(1, target_C1)[:, 0])
        if is_learning:
            half_CV.copy_(half_CV.softmax(dim=-1))
    log_R = torch.cat(found)
    if is_learning:
        places_R = target_R + torch.arange(len(target_R)) * logits_RV.shape[1]
        logits_RV.view(-1)[places_R] = (log_R.exp() - (1 - smoothing)).to(logits_RV.dtype)
    return log_R


def _filled(states_RD: Tensor) -> Tensor:
    """With zeros up to a number of rows that occurs often."""
    return F.pad(states_RD, (0, 0, 0, rounded_up(len(states_RD)) - len(states_RD)))


def _use_once(ctx: Any) -> None:
    if ctx.is_used:
        raise RuntimeError("the gradient of a loss can be computed only once: it overwrites the log-probabilities")
    ctx.is_used = True


def _chunks(x_NV: Tensor) -> tuple[Tensor, ...]:
    # On a GPU one chunk: every operation costs a launch, and there is no cache to stay in.
    return torch.split(x_NV, _rows(x_NV, CHUNK) if x_NV.device.type == "cpu" else max(1, len(x_NV)))


def _rows(x_NV: Tensor, elements: int) -> int:
    """Rows with about so many elements."""
    return max(1, elements // x_NV.shape[1])


def bits(nats_sum: Tensor | float, tokens: Tensor | int) -> float:
    """Converts a sum in nats to bits per token, the unit of `dev_loss` and of the reference losses L*."""
    if int(tokens) < 1:
        raise ValueError(f"bits needs at least 1 token; got {int(tokens)}")
    return float(nats_sum) / int(tokens) / math.log(2)
