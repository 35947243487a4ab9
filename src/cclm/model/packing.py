"""Packing: which positions of a padded batch are real. Everything but attention computes on these rows alone."""

# B batch, T tokens, N real positions, M positions with padding (B x T), D model

from typing import Any

import torch
from torch import Tensor

PAD = 0
"""The id of padding, which occurs only at the end of a sentence."""


class Places:
    """The real positions of a batch of ids (B, T). Packed tensors (N, D) have a row for each, sentence by sentence."""

    def __init__(self, ids_BT: Tensor) -> None:
        self.padding_BT = ids_BT == PAD
        self._real_N = (~self.padding_BT).flatten().nonzero().squeeze(1)
        self.ids_N = ids_BT.flatten()[self._real_N]
        self.positions_N = self._real_N % ids_BT.shape[1]
        """The position of each token in its sentence, from 0."""

    def spread(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """Unpacks each (N, D) to (B, T, D), with zeros where there is padding."""
        places = self.padding_BT.numel()
        if len(self._real_N) < places:
            rows = _Spread.apply(self._real_N, places, *rows)  # type: ignore[no-untyped-call]
        return tuple(x_MD.view(*self.padding_BT.shape, -1) for x_MD in rows)

    def gather(self, x_BTD: Tensor) -> Tensor:
        """Packs (B, T, D) to (N, D)."""
        x_MD = x_BTD.flatten(0, 1)
        if len(self._real_N) < len(x_MD):
            (x_MD,) = _Gather.apply(self._real_N, x_MD)  # type: ignore[no-untyped-call]
        return x_MD


# Each is the gradient of the other. Autograd's own gradient of an index would add rows up one after the other, which
# is slow and not needed: no position occurs twice.


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real_N: Tensor, places: int, *rows: Tensor) -> tuple[Tensor, ...]:
        ctx.real_N = real_N
        return tuple(x_ND.new_zeros(places, x_ND.shape[1]).index_copy_(0, real_N, x_ND) for x_ND in rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_Gather.apply(ctx.real_N, *gradients)  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real_N: Tensor, *spread: Tensor) -> tuple[Tensor, ...]:
        ctx.real_N, ctx.places = real_N, len(spread[0])
        return tuple(x_MD.index_select(0, real_N) for x_MD in spread)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_Spread.apply(ctx.real_N, ctx.places, *gradients)  # type: ignore[no-untyped-call]
