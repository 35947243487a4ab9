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

    def spread(self, x_ND: Tensor) -> Tensor:
        """(B, T, D): each row in its place, zeros where there is padding."""
        x_MD: Tensor = _Spread.apply(x_ND, self._real_N, self.padding_BT.numel())  # type: ignore[no-untyped-call]
        return x_MD.view(*self.padding_BT.shape, -1)

    def gather(self, x_BTD: Tensor) -> Tensor:
        """(N, D): the rows of the real places."""
        x_ND: Tensor = _Gather.apply(x_BTD.flatten(0, 1), self._real_N)  # type: ignore[no-untyped-call]
        return x_ND


# Each is the gradient of the other. Autograd's own would add rows up, one after the other: no place is there twice.


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, real_N: Tensor, places: int) -> Tensor:
        ctx.real_N = real_N
        return x_ND.new_zeros(places, x_ND.shape[1]).index_copy_(0, real_N, x_ND)

    @staticmethod
    def backward(ctx: Any, gradient_MD: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(gradient_MD, ctx.real_N), None, None  # type: ignore[no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_MD: Tensor, real_N: Tensor) -> Tensor:
        ctx.real_N, ctx.places = real_N, len(x_MD)
        return x_MD.index_select(0, real_N)

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, None]:
        return _Spread.apply(gradient_ND, ctx.real_N, ctx.places), None  # type: ignore[no-untyped-call]
