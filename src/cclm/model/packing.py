"""The real places of a padded batch. All but attention computes on these alone, a row each, and not on the padding."""

# B batch, T tokens, N real places, M places with padding (B x T), D model

from typing import Any

import torch
from torch import Tensor

PAD = 0
"""The id of padding. It stands at the end of a sentence only."""


class Places:
    """Where a batch of ids (B, T) is real. Rows (N, D) stand for the real places, sentence after sentence."""

    def __init__(self, ids_BT: Tensor) -> None:
        self.padding_BT = ids_BT == PAD
        self._real_N = (~self.padding_BT).flatten().nonzero().squeeze(1)
        self.ids_N = ids_BT.flatten()[self._real_N]
        self.positions_N = self._real_N % ids_BT.shape[1]
        """Of each in its sentence, from 0."""

    def spread(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """(B, T, D) of each (N, D): the rows in their places, zeros where there is padding."""
        places = self.padding_BT.numel()
        if len(self._real_N) < places:
            rows = _Spread.apply(self._real_N, places, *rows)  # type: ignore[no-untyped-call]
        return tuple(x_MD.view(*self.padding_BT.shape, -1) for x_MD in rows)

    def gather(self, x_BTD: Tensor) -> Tensor:
        """(N, D): the rows of the real places."""
        x_MD = x_BTD.flatten(0, 1)
        if len(self._real_N) < len(x_MD):
            (x_MD,) = _Gather.apply(self._real_N, x_MD)  # type: ignore[no-untyped-call]
        return x_MD


# Each is the gradient of the other. Autograd's own would add rows up, one after the other: no place is there twice.


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
