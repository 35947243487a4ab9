"""Packing: removes the padding of a batch, so that every layer except attention computes on real tokens only."""

# B batch, T tokens per sentence, N real tokens, M tokens with padding (B x T), D model

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

PAD = 0
"""The id of padding, which occurs only at the end of a sentence."""
MULTIPLE = 32
"""What numbers of tokens are rounded up to in half precision on a CPU; numbers from 2,048 on to some more.

torch multiplies such matrices with oneDNN, which prepares a product anew for every shape. For a small model that takes
as long as the product itself, and what was prepared takes half a megabyte.
"""
ALIGNMENT = 8
"""Numbers that a row of an attention bias is a multiple of in memory; torch's kernels for GPUs need that."""


class Packing:
    """Converts between the padded layout (B, T, D) of a batch and its packed layout (N, D), sentence after sentence.

    With `keep_padding` the packed layout has the padding, too (N is M), and nothing is moved. That is the faster way on
    a GPU: where the real tokens are would have to be read by the host, and moving them costs more than computing the
    few padded ones. `rows` selects the real tokens in the end.

    In half precision on a CPU rows of padding follow the real tokens, so that batches have fewer different shapes.
    """

    def __init__(self, ids_BT: Tensor, *, keep_padding: bool = False) -> None:
        self.padding_BT = ids_BT == PAD
        self.ids_N = ids_BT.flatten()
        self.tokens = len(self.ids_N)
        """The number of real tokens or, with `keep_padding`, of all."""
        self._real: Tensor | None = None
        """The numbers of the real tokens in the flattened batch."""
        if not keep_padding:
            self._real = (~self.padding_BT).flatten().nonzero().squeeze(1)
            self.tokens = len(self._real)
            self.ids_N = self.ids_N[self._real]
            if torch.is_autocast_enabled("cpu"):
                self.ids_N = _filled(self.ids_N, rounded_up(self.tokens) - self.tokens)
        self._bias: dict[torch.dtype, Tensor] = {}

    @property
    def length(self) -> int:
        """The length T of the padded sentences."""
        return self.padding_BT.shape[1]

    def add_positions(self, x_ND: Tensor, table_TD: Tensor) -> Tensor:
        """Adds to each token the row of the table for its position in its sentence, from 0."""
        if self._real is not None:
            return x_ND + table_TD[_filled(self._real, len(x_ND) - self.tokens) % self.length]
        return (x_ND.view(*self.padding_BT.shape, -1) + table_TD[: self.length]).flatten(0, 1)

    def unpack(self, *packed: Tensor) -> tuple[Tensor, ...]:
        """Converts each (N, D) to (B, T, D), with zeros for padding."""
        size = self.padding_BT.numel()
        if self._real is not None and not self.tokens == len(self.ids_N) == size:
            packed = _Unpack.apply(self._real, size, *packed)  # type: ignore[no-untyped-call]
        return tuple(x_MD.view(*self.padding_BT.shape, -1) for x_MD in packed)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """Converts (B, T, D) to (N, D)."""
        x_MD = x_BTD.flatten(0, 1)
        if self._real is not None and not self.tokens == len(self.ids_N) == len(x_MD):
            (x_MD,) = _Pack.apply(self._real, len(self.ids_N), x_MD)  # type: ignore[no-untyped-call]
        return x_MD

    def bias(self, dtype: torch.dtype) -> Tensor:
        """(B, 1, 1, T): 0 for real tokens and -inf for padding, to be added to attention scores.

        Computed once per batch. torch would convert a boolean mask, and copy a mask whose rows are not aligned, again
        in every layer.
        """
        if dtype not in self._bias:
            aligned = -(-self.length // ALIGNMENT) * ALIGNMENT
            zeros_B11T = self.padding_BT.new_zeros(len(self.padding_BT), 1, 1, aligned, dtype=dtype)[..., : self.length]
            self._bias[dtype] = zeros_B11T.masked_fill_(self.padding_BT[:, None, None, :], -math.inf)
        return self._bias[dtype]


def rounded_up(rows: int) -> int:
    """The number of rows to compute instead, in half precision on a CPU: at most 3 % more if there are many."""
    multiple = MULTIPLE
    while rows >= 2 * MULTIPLE * multiple:
        multiple *= 2
    return -(-rows // multiple) * multiple


def _filled(numbers: Tensor, filling: int) -> Tensor:
    """The numbers and, in half precision, zeros (`PAD`) at the end."""
    return F.pad(numbers, (0, filling)) if filling else numbers


def rows(x_MD: Tensor, rows_N: Tensor) -> Tensor:
    """Some rows of a matrix, each at most once."""
    x_ND: Tensor
    (x_ND,) = _Pack.apply(rows_N, len(rows_N), x_MD)  # type: ignore[no-untyped-call]
    return x_ND


# Each of the two is the gradient of the other. Autograd's gradient of an index would accumulate row by row, which is
# slow and not needed here: no index occurs twice. The packed matrices may have rows of zeros at the end.


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real: Tensor, size: int, *packed: Tensor) -> tuple[Tensor, ...]:
        ctx.real, ctx.size = real, len(packed[0])
        return tuple(x_ND.new_zeros(size, x_ND.shape[1]).index_copy_(0, real, x_ND[: len(real)]) for x_ND in packed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_Pack.apply(ctx.real, ctx.size, *gradients)  # type: ignore[no-untyped-call]


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real: Tensor, size: int, *padded: Tensor) -> tuple[Tensor, ...]:
        ctx.real, ctx.size = real, len(padded[0])
        packed = tuple(x_MD.new_empty(size, x_MD.shape[1]) for x_MD in padded)
        for x_ND, x_MD in zip(packed, padded, strict=True):
            torch.index_select(x_MD, 0, real, out=x_ND[: len(real)])
            x_ND[len(real) :].zero_()
        return packed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_Unpack.apply(ctx.real, ctx.size, *gradients)  # type: ignore[no-untyped-call]
