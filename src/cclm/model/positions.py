"""Sinusoidal position embeddings, in fairseq's layout."""

# N tokens, T positions, D model

import math

import torch
from torch import Tensor, nn

FIRST = 2
"""The position of the first token: fairseq counts from its padding id (1) plus one."""


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width), float64: row t is the token at position t + FIRST, sines in the left half, cosines in the right.

    Frequencies fall geometrically from 1 to 1/10000.
    """
    half = width // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / (half - 1)))
    angles = torch.arange(FIRST, FIRST + length, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Positions(nn.Module):
    """Adds the position embedding to each token. The table grows with the longest sentence and is not saved."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._table_TD = torch.empty(0, width)

    def forward(self, x_ND: Tensor, positions_N: Tensor) -> Tensor:
        length, table = int(positions_N.max()) + 1, self._table_TD
        if length > len(table) or table.dtype != x_ND.dtype or table.device != x_ND.device:
            # A power of two, so that not every longer sentence makes a new table.
            size = 1 << (max(length, 256) - 1).bit_length()
            self._table_TD = sinusoids(size, x_ND.shape[1]).to(x_ND)
        return x_ND + self._table_TD[positions_N]
