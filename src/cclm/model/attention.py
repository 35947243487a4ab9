"""Attention with several heads, computed in the way that suits the device."""

# B batch, T queries, S keys, N and M those without padding, D model, H heads, K width of a head

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclm.model.packing import Places
from cclm.model.random import dropout as drop
from cclm.model.random import linear


class Attention(nn.Module):
    """Attention from each position of `x` to the memory of its sentence; for self-attention both are the same."""

    def __init__(self, width: int, heads: int, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.key = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.value = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.output = linear(width, width, generator)

    def forward(
        self, x_ND: Tensor, x_places: Places, memory_MD: Tensor, memory_places: Places, *, causal: bool = False
    ) -> Tensor:
        """(N, D). Keys that are padding are masked; with `causal`, so are those after the query."""
        spread = (*x_places.spread(self.query(x_ND)), *memory_places.spread(self.key(memory_MD), self.value(memory_MD)))
        mixed_BHTK = attend(
            *map(self._split, spread),
            padding_BS=None if causal else memory_places.padding_BT,
            causal=causal,
            dropout=self.dropout if self.training else 0.0,
        )
        mixed_ND: Tensor = self.output(x_places.gather(mixed_BHTK.transpose(1, 2).flatten(2)))
        return mixed_ND

    def _split(self, x_BTD: Tensor) -> Tensor:
        batch, length, width = x_BTD.shape
        return x_BTD.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


def attend(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    padding_BS: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """(B, H, T, K): the values weighted by softmax(query . key / sqrt K)."""
    # On a GPU the fused kernel saves the memory of the (B, H, T, S) weights and the passes over it. On a CPU it makes a
    # training step of our sizes less than a tenth faster, and it has its own dropout; computed explicitly, training
    # and evaluation give the same numbers.
    way = fused if query_BHTK.device.type == "cuda" else explicit
    return way(query_BHTK, key_BHSK, value_BHSK, padding_BS=padding_BS, causal=causal, dropout=dropout)


def explicit(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    padding_BS: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Attention step by step. At least one key of each sentence must be real: every source ends with </s>."""
    scores_BHTS = (query_BHTK / math.sqrt(query_BHTK.shape[-1])) @ key_BHSK.transpose(2, 3)
    if padding_BS is not None:
        scores_BHTS.masked_fill_(padding_BS[:, None, None, :], -math.inf)
    if causal:
        later_TS = torch.ones(scores_BHTS.shape[2:], dtype=torch.bool, device=scores_BHTS.device).triu(1)
        scores_BHTS.masked_fill_(later_TS, -math.inf)
    return drop(scores_BHTS.softmax(dim=-1), dropout) @ value_BHSK


def fused(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    padding_BS: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Attention in one kernel of torch; padding and causal are never used together."""
    seen_BHTS = None if padding_BS is None else ~padding_BS[:, None, None, :]
    return F.scaled_dot_product_attention(
        query_BHTK, key_BHSK, value_BHSK, attn_mask=seen_BHTS, dropout_p=dropout, is_causal=causal
    )
