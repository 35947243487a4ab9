"""The Transformer: pre-norm, sinusoidal positions as in fairseq, output projection tied to the target embedding."""

# B batch, S source, T target, M and N their tokens without padding, D model, F feed-forward, V symbols

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclm.model.attention import Attention
from cclm.model.interface import TranslationModel
from cclm.model.packing import PAD, Packing, rows
from cclm.model.random import dropout, embedding, linear

FIRST_POSITION = 2
"""The position of the first token. fairseq counts from its padding id (1) plus one."""


def sinusoids(length: int, width: int) -> Tensor:
    """The position embeddings (length, width) in float64; row t is for the t-th token of a sentence, from 0.

    The left half of a row are sines, the right half cosines. Frequencies fall geometrically from 1 to 1/10000.
    """
    half = width // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / (half - 1)))
    angles = torch.arange(FIRST_POSITION, FIRST_POSITION + length, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Positions(nn.Module):
    """Adds position embeddings. The table grows with the longest sentence seen and is not saved in checkpoints."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._table_TD = torch.empty(0, width)

    def forward(self, x_ND: Tensor, packing: Packing) -> Tensor:
        length, table = packing.length, self._table_TD
        if length > len(table) or table.dtype != x_ND.dtype or table.device != x_ND.device:
            # A power of two, so that the table is rebuilt rarely.
            size = 1 << (max(length, 256) - 1).bit_length()
            self._table_TD = sinusoids(size, x_ND.shape[1]).to(x_ND)
        return packing.add_positions(x_ND, self._table_TD)


@dataclass(frozen=True)
class Shape:
    """The hyperparameters of a Transformer: its sizes and dropout rates."""

    source_symbols: int
    target_symbols: int
    layers: int
    """Number of encoder layers, and of decoder layers."""
    heads: int
    width: int
    feed_forward: int
    dropout: float
    """Dropout rate of embeddings and of the output of each sublayer."""
    attention_dropout: float
    """Dropout rate of attention weights."""
    activation_dropout: float
    """Dropout rate inside the feed-forward sublayers, after the ReLU."""
    joint: bool = False
    """Whether source, target and output share one embedding."""

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


class Transformer(TranslationModel):
    """An encoder-decoder Transformer. Shape and seed determine its initial parameters.

        model = Transformer(Shape(...), seed=1)
        loss = losses(model(source_BS, target_input_BT), target_output_BT, smoothing=0.1)
        (loss.smoothed / loss.tokens).backward()

    Dropout uses torch's global generator: call `torch.manual_seed` before a forward pass to make it reproducible.
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

    def states(self, source_BS: Tensor, target_input_BT: Tensor, rows_N: Tensor | None = None) -> Tensor:
        """The output (N, D) of the decoder at each real target token."""
        is_padded = rows_N is not None
        source, target = (Packing(ids, keep_padding=is_padded) for ids in (source_BS, target_input_BT))
        states = self.decode(target, self.encode(source), source)
        return states[: target.tokens] if rows_N is None else rows(states, rows_N)

    def encode(self, source: Packing) -> Tensor:
        """The output (M, D) of the encoder."""
        memory_MD: Tensor = self.encoder(self._embed(self.source_embedding or self.target_embedding, source), source)
        return memory_MD

    def decode(self, target: Packing, memory_MD: Tensor, source: Packing) -> Tensor:
        """The output (N, D) of the decoder. Each token attends to the target up to and including itself."""
        states_ND: Tensor = self.decoder(self._embed(self.target_embedding, target), target, memory_MD, source)
        return states_ND

    def output(self) -> tuple[Tensor, None]:
        """The target embedding (V, D), and nothing to add."""
        return self.target_embedding.weight, None

    def _embed(self, table: nn.Embedding, packing: Packing) -> Tensor:
        x_ND = self.positions(table(packing.ids_N) * math.sqrt(self.shape.width), packing)
        if torch.is_autocast_enabled("cpu"):
            # From here on everything is in half precision: half the memory, and no conversion before each product.
            x_ND = x_ND.to(torch.get_autocast_dtype("cpu"))
        return dropout(x_ND, self.shape.dropout, self.training)


class Encoder(nn.Module):
    """A stack of layers with a final layer norm."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape, generator) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x_MD: Tensor, source: Packing) -> Tensor:
        for layer in self.layers:
            x_MD = layer(x_MD, source)
        normed_MD: Tensor = self.norm(x_MD)
        return normed_MD


class Decoder(nn.Module):
    """A stack of layers with a final layer norm."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(shape, generator) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, x_ND: Tensor, target: Packing, memory_MD: Tensor, source: Packing) -> Tensor:
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

    def forward(self, x_MD: Tensor, source: Packing) -> Tensor:
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

    def forward(self, x_ND: Tensor, target: Packing, memory_MD: Tensor, source: Packing) -> Tensor:
        normed_ND = self.self_attention_norm(x_ND)
        # Padding is at the end of a sentence, so the causal mask hides it from every real token.
        x_ND = x_ND + self._drop(self.self_attention(normed_ND, target, normed_ND, target, causal=True))
        normed_ND = self.cross_attention_norm(x_ND)
        x_ND = x_ND + self._drop(self.cross_attention(normed_ND, target, memory_MD, source))
        return x_ND + self._drop(self.feed_forward(self.feed_forward_norm(x_ND)))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them, applied to every token independently."""

    def __init__(self, shape: Shape, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = shape.activation_dropout
        self.inner = linear(shape.width, shape.feed_forward, generator)
        self.outer = linear(shape.feed_forward, shape.width, generator)

    def forward(self, x_ND: Tensor) -> Tensor:
        hidden_NF = dropout(F.relu_(self.inner(x_ND)), self.dropout, self.training)
        projected_ND: Tensor = self.outer(hidden_NF)
        return projected_ND
