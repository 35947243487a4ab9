"""Packing: removes the padding of a batch, so that every layer except attention computes on real tokens only."""

# B batch, T tokens per sentence, N real tokens, M tokens with padding (B x T), D model

from typing import Any

import torch
from torch import Tensor

PAD = 0
"""The id of padding, which occurs only at the end of a sentence."""


class Packing:
    """Converts between the padded layout (B, T, D) of a batch and its packed layout (N, D), sentence after sentence."""

    def __init__(self, ids_BT: Tensor) -> None:
        self.padding_BT = ids_BT == PAD
        self._real_N = (~self.padding_BT).flatten().nonzero().squeeze(1)
        self.ids_N = ids_BT.flatten()[self._real_N]
        self.positions_N = self._real_N % ids_BT.shape[1]
        """The position of each token in its sentence, from 0."""

    def unpack(self, *packed: Tensor) -> tuple[Tensor, ...]:
        """Converts each (N, D) to (B, T, D), with zeros for padding."""
        size = self.padding_BT.numel()
        if len(self._real_N) < size:
            packed = _Unpack.apply(self._real_N, size, *packed)  # type: ignore[no-untyped-call]
        return tuple(x_MD.view(*self.padding_BT.shape, -1) for x_MD in packed)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """Converts (B, T, D) to (N, D)."""
        x_MD = x_BTD.flatten(0, 1)
        if len(self._real_N) < len(x_MD):
            (x_MD,) = _Pack.apply(self._real_N, x_MD)  # type: ignore[no-untyped-call]
        return x_MD


# Each of the two is the gradient of the other. Autograd's gradient of an index would accumulate row by row, which is
# slow and not needed here: no index occurs twice.


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real_N: Tensor, size: int, *packed: Tensor) -> tuple[Tensor, ...]:
        ctx.real_N = real_N
        return tuple(x_ND.new_zeros(size, x_ND.shape[1]).index_copy_(0, real_N, x_ND) for x_ND in packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_Pack.apply(ctx.real_N, *gradients)  # type: ignore[no-untyped-call]


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real_N: Tensor, *padded: Tensor) -> tuple[Tensor, ...]:
        ctx.real_N, ctx.size = real_N, len(padded[0])
        return tuple(x_MD.index_select(0, real_N) for x_MD in padded)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_Unpack.apply(ctx.real_N, ctx.size, *gradients)  # type: ignore[no-untyped-call]
