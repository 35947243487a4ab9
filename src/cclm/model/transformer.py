"""Sinusoidal position embeddings, in fairseq's layout."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclm.model.attention import Attention
from cclm.model.packing import PAD, Places
from cclm.model.random import dropout, embedding, linear

# N tokens, T positions, D model


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


# B batch, S source, T target, M and N their positions without padding, D model, V symbols


@dataclass(frozen=True)
class Shape:
    """All that decides which parameters a model has, and its dropout rates."""

    source_symbols: int
    target_symbols: int
    layers: int
    """Layers of the encoder, and of the decoder."""
    heads: int
    width: int
    feed_forward: int
    dropout: float
    """Rate for embeddings and for the output of each sublayer."""
    attention_dropout: float
    """Rate for attention weights."""
    activation_dropout: float
    """Rate inside the feed-forward sublayers, after the ReLU."""
    joint: bool = False
    """One embedding for source, target and output."""

    def __post_init__(self) -> None:
        for name in ("source_symbols", "target_symbols", "layers", "heads", "width", "feed_forward"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1; got {getattr(self, name)}")
        if self.width % 2 or self.width < 4:
            raise ValueError(f"width must be even and at least 4, for sines and cosines; got {self.width}")
        if self.width % self.heads:
            raise ValueError(f"heads must divide width; got {self.heads} heads and width {self.width}")
        if self.joint and self.source_symbols != self.target_symbols:
            sides = f"{self.source_symbols} source and {self.target_symbols} target symbols"
            raise ValueError(f"a joint embedding needs one vocabulary; got {sides}")


class Transformer(nn.Module):
    """The model; its parameters are a pure function of shape and seed.

        model = Transformer(Shape(...), seed=1)
        loss = losses(model(source_BS, target_input_BT), target_output_BT, smoothing=0.1)
        (loss.smoothed / loss.tokens).backward()

    Only dropout uses torch's global stream: `torch.manual_seed` before a pass decides what is dropped in it.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.shape = shape
        self.target_embedding = embedding(shape.target_symbols, shape.width, PAD, generator)
        self.source_embedding: nn.Embedding | None = None
        if not shape.joint:
            self.source_embedding = embedding(shape.source_symbols, shape.width, PAD, generator)
        self.positions = Positions(shape.width)
        self.encoder = Encoder(shape, generator)
        self.decoder = Decoder(shape, generator)

    def forward(self, source_BS: Tensor, target_input_BT: Tensor) -> Tensor:
        """The logits (N, V) of the symbol that follows each position of the target, sentence after sentence."""
        source, target = Places(source_BS), Places(target_input_BT)
        return self.logits(self.decode(target, self.encode(source), source))

    def encode(self, source: Places) -> Tensor:
        """The output of the encoder: (M, D)."""
        memory_MD: Tensor = self.encoder(self._embed(self.source_embedding or self.target_embedding, source), source)
        return memory_MD

    def decode(self, target: Places, memory_MD: Tensor, source: Places) -> Tensor:
        """The states (N, D) of the decoder, after its last norm; a position sees the target up to itself."""
        states_ND: Tensor = self.decoder(self._embed(self.target_embedding, target), target, memory_MD, source)
        return states_ND

    def logits(self, states: Tensor) -> Tensor:
        """(..., V) from states (..., D): the target embedding is also the output projection."""
        return F.linear(states, self.target_embedding.weight)

    def _embed(self, table: nn.Embedding, places: Places) -> Tensor:
        x_ND = self.positions(table(places.ids_N) * math.sqrt(self.shape.width), places.positions_N)
        return dropout(x_ND, self.shape.dropout, self.training)


class Encoder(nn.Module):
    """A stack of layers, and the norm after the last."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape, generator) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x_MD: Tensor, source: Places) -> Tensor:
        for layer in self.layers:
            x_MD = layer(x_MD, source)
        normed_MD: Tensor = self.norm(x_MD)
        return normed_MD


class Decoder(nn.Module):
    """A stack of layers, and the norm after the last."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(shape, generator) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x_ND: Tensor, target: Places, memory_MD: Tensor, source: Places) -> Tensor:
        for layer in self.layers:
            x_ND = layer(x_ND, target, memory_MD, source)
        normed_ND: Tensor = self.norm(x_ND)
        return normed_ND


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward; each with a residual connection."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.self_attention = Attention(shape.width, shape.heads, shape.attention_dropout, generator)
        self.self_attention_norm = nn.LayerNorm(shape.width)
        self.feed_forward = FeedForward(shape, generator)
        self.feed_forward_norm = nn.LayerNorm(shape.width)

    def forward(self, x_MD: Tensor, source: Places) -> Tensor:
        normed_MD = self.self_attention_norm(x_MD)
        x_MD = x_MD + self._drop(self.self_attention(normed_MD, source, normed_MD, source))
        return x_MD + self._drop(self.feed_forward(self.feed_forward_norm(x_MD)))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the source, then feed-forward; each with a residual connection."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.self_attention = Attention(shape.width, shape.heads, shape.attention_dropout, generator)
        self.self_attention_norm = nn.LayerNorm(shape.width)
        self.cross_attention = Attention(shape.width, shape.heads, shape.attention_dropout, generator)
        self.cross_attention_norm = nn.LayerNorm(shape.width)
        self.feed_forward = FeedForward(shape, generator)
        self.feed_forward_norm = nn.LayerNorm(shape.width)

    def forward(self, x_ND: Tensor, target: Places, memory_MD: Tensor, source: Places) -> Tensor:
        normed_ND = self.self_attention_norm(x_ND)
        # Padding comes last, so the causal mask hides it from every real token.
        x_ND = x_ND + self._drop(self.self_attention(normed_ND, target, normed_ND, target, causal=True))
        normed_ND = self.cross_attention_norm(x_ND)
        x_ND = x_ND + self._drop(self.cross_attention(normed_ND, target, memory_MD, source))
        return x_ND + self._drop(self.feed_forward(self.feed_forward_norm(x_ND)))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class FeedForward(nn.Module):
    """Every position independently: a wider layer, ReLU, back to the model's width."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = shape.activation_dropout
        self.inner = linear(shape.width, shape.feed_forward, generator)
        self.outer = linear(shape.feed_forward, shape.width, generator)

    def forward(self, x_ND: Tensor) -> Tensor:
        hidden_NF = dropout(F.relu_(self.inner(x_ND)), self.dropout, self.training)
        projected_ND: Tensor = self.outer(hidden_NF)
        return projected_ND
