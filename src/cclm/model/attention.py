"""Multi-head attention, with one implementation for CPUs and one for GPUs."""

# B batch, T queries, S keys, N and M the same without padding, D model, H heads, K width of a head

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclm.model.packing import Packing
from cclm.model.random import dropout as drop
from cclm.model.random import linear

FEW_SCORES = 1 << 16
"""With fewer attention scores, a CPU multiplies them in float32 even in half precision.

oneDNN prepares a product of half-precision matrices anew for every shape, and here each batch has a shape of its own.
"""


class Attention(nn.Module):
    """Attention from each token of `x` to the tokens of `memory` in the same sentence.

    In self-attention, `memory` is `x`. Both are packed; attention itself needs the padded layout.
    """

    def __init__(self, width: int, heads: int, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.key = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.value = linear(width, width, generator, gain=1 / math.sqrt(2))
        self.output = linear(width, width, generator)

    def forward(
        self, x_ND: Tensor, x_packing: Packing, memory_MD: Tensor, memory_packing: Packing, *, causal: bool = False
    ) -> Tensor:
        """Returns (N, D). Keys that are padding are masked; with `causal`, so are keys after the query."""
        (query_BTD,) = x_packing.unpack(self.query(x_ND))
        key_BSD, value_BSD = memory_packing.unpack(self.key(memory_MD), self.value(memory_MD))
        mixed_BHTK = attend(
            *map(self._split_heads, (query_BTD, key_BSD, value_BSD)),
            keys=memory_packing,
            causal=causal,
            dropout=self.dropout if self.training else 0.0,
        )
        mixed_ND: Tensor = self.output(x_packing.pack(mixed_BHTK.transpose(1, 2).flatten(2)))
        return mixed_ND

    def _split_heads(self, x_BTD: Tensor) -> Tensor:
        batch, length, width = x_BTD.shape
        return x_BTD.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


def attend(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    keys: Packing,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Returns (B, H, T, K): the values weighted by softmax(query . key / sqrt(K)).

    A query attends to the keys of its sentence that are not padding; with `causal` to those up to its own position,
    among which a real query has no padding.
    """
    # On a GPU the fused kernel needs no memory for the (B, H, T, S) weights. On a CPU it makes a training step of our
    # sizes less than 10 % faster and has its own dropout; the explicit computation gives the same numbers in training
    # and in evaluation.
    implementation = fused if query_BHTK.device.type == "cuda" else explicit
    return implementation(query_BHTK, key_BHSK, value_BHSK, keys=keys, causal=causal, dropout=dropout)


def explicit(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    keys: Packing,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Computes attention step by step. Every sentence needs at least one real key; a source always has </s>."""
    batch, heads, length, _ = query_BHTK.shape
    if torch.is_autocast_enabled("cpu") and batch * heads * length * key_BHSK.shape[2] < FEW_SCORES:
        with torch.autocast("cpu", enabled=False):
            exact = (x.float() for x in (query_BHTK, key_BHSK, value_BHSK))
            return explicit(*exact, keys=keys, causal=causal, dropout=dropout).to(query_BHTK.dtype)
    scores_BHTS = (query_BHTK / math.sqrt(query_BHTK.shape[-1])) @ key_BHSK.transpose(2, 3)
    if not causal:
        scores_BHTS.masked_fill_(keys.padding_BT[:, None, None, :], -math.inf)
    else:
        later_TS = torch.ones(scores_BHTS.shape[2:], dtype=torch.bool, device=scores_BHTS.device).triu(1)
        scores_BHTS.masked_fill_(later_TS, -math.inf)
    return drop(scores_BHTS.softmax(dim=-1), dropout) @ value_BHSK


def fused(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    value_BHSK: Tensor,
    *,
    keys: Packing,
    causal: bool,
    dropout: float,
) -> Tensor:
    """Computes attention in one kernel of torch."""
    bias_B11S = None if causal else keys.bias(query_BHTK.dtype)
    return F.scaled_dot_product_attention(
        query_BHTK, key_BHSK, value_BHSK, attn_mask=bias_B11S, dropout_p=dropout, is_causal=causal
    )
