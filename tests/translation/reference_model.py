"""A Transformer in plain torch, slow and simple, and a textbook beam search: the oracle for exports."""

# B batch, S source, T target, D model, H heads, V symbols

import math
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
LANGUAGES = ["aze", "bel", "glg"]
TAGS = [f"<2{language}>" for language in LANGUAGES]


def symbols(pieces: int, letter: str) -> list[str]:
    """Specials, tags, and so many pieces; one that looks like a special, as real vocabularies may have."""
    return [*SPECIALS, *TAGS, "<s> ", *(f"▁{letter}{i}" for i in range(pieces - 1))]


@cache
def sinusoids(width: int) -> Tensor:
    """(1024, D): element by element from the definition: position t + 2, frequency i."""
    half = width // 2
    rows = []
    for t in range(1024):
        angles = [(t + 2) * math.exp(-math.log(10000) * i / (half - 1)) for i in range(half)]
        rows.append([*map(math.sin, angles), *map(math.cos, angles)])
    return torch.tensor(rows)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x_BTD: Tensor, memory_BSD: Tensor, *, causal: bool = False) -> Tensor:
        size = x_BTD.shape[2] // self.heads
        query, key, value = self.query(x_BTD), self.key(memory_BSD), self.value(memory_BSD)
        mixed = []
        for h in range(self.heads):
            part = slice(h * size, (h + 1) * size)
            scores_BTS = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)
            if causal:
                scores_BTS = scores_BTS.masked_fill(torch.ones_like(scores_BTS).triu(1).bool(), -math.inf)
            mixed.append(scores_BTS.softmax(-1) @ value[..., part])
        result: Tensor = self.output(torch.cat(mixed, dim=2))
        return result


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.outer(self.inner(x).relu())
        return result


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, *, cross: bool) -> None:
        super().__init__()
        self.self_attention, self.self_attention_norm = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.cross_attention, self.cross_attention_norm = Attention(width, heads), nn.LayerNorm(width)
        self.feed_forward, self.feed_forward_norm = FeedForward(width, inner), nn.LayerNorm(width)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        normal = self.self_attention_norm(x)
        x = x + self.self_attention(normal, normal, causal=memory is not None)
        if memory is not None:
            x = x + self.cross_attention(self.cross_attention_norm(x), memory)
        result: Tensor = x + self.feed_forward(self.feed_forward_norm(x))
        return result


class Stack(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, inner: int, *, cross: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, inner, cross=cross) for _ in range(layers))
        self.norm = nn.LayerNorm(width)


class Reference(nn.Module):
    """No padding and no cache: a batch holds sentences of one length. Every weight is random, norms and biases too."""

    def __init__(self, *, joint: bool = False, width: int = 32, heads: int = 4, seed: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.target_symbols = symbols(16, "t")
        self.source_symbols = self.target_symbols if joint else symbols(40, "s")
        if not joint:
            self.source_embedding = nn.Embedding(len(self.source_symbols), width)
        self.target_embedding = nn.Embedding(len(self.target_symbols), width)
        self.encoder = Stack(2, width, heads, 48, cross=False)
        self.decoder = Stack(3, width, heads, 48, cross=True)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                around = 1.0 if name.endswith("norm.weight") else 0.0
                spread = width**-0.5 if weight.dim() == 2 else 0.3
                weight.copy_(around + spread * torch.randn(weight.shape, generator=generator))

    def state(self) -> dict[str, np.ndarray]:
        """The live weights, not copies of them."""
        return {name: weight.detach().numpy() for name, weight in self.named_parameters()}

    def encode(self, sources: Sequence[Sequence[str]]) -> Tensor:
        """(B, S, D): of [tag] pieces, to which </s> is added."""
        ids = [[*(self.source_symbols.index(symbol) for symbol in source), EOS] for source in sources]
        x_BSD = self._embedded(getattr(self, "source_embedding", self.target_embedding), ids)
        for layer in self.encoder.layers:
            x_BSD = layer(x_BSD)
        result: Tensor = self.encoder.norm(x_BSD)
        return result

    def logits(self, memory_BSD: Tensor, targets: Sequence[Sequence[int]]) -> Tensor:
        """(B, T, V): of what follows each token of the targets."""
        x_BTD = self._embedded(self.target_embedding, targets)
        for layer in self.decoder.layers:
            x_BTD = layer(x_BTD, memory_BSD)
        result: Tensor = self.decoder.norm(x_BTD) @ self.target_embedding.weight.T
        return result

    @torch.no_grad()
    def logprobs(self, source: Sequence[str], target: Sequence[str]) -> list[float]:
        """Of every token of the target after the first, and of </s>."""
        ids = [self.target_symbols.index(symbol) for symbol in target]
        logprobs_TV = self.logits(self.encode([source]), [ids])[0].log_softmax(-1)
        return [float(logprobs_TV[t, following]) for t, following in enumerate([*ids[1:], EOS])]

    @staticmethod
    def _embedded(embedding: nn.Embedding, ids: Sequence[Sequence[int]]) -> Tensor:
        x_BTD: Tensor = embedding(torch.tensor(ids)) * math.sqrt(embedding.embedding_dim)
        return x_BTD + sinusoids(embedding.embedding_dim)[: len(ids[0])]


def taught(model: Reference, *, steps: int = 150, seed: int = 0) -> Reference:
    """The model after a little training, so that its translations end and differ, but are far from certain.

    The task: the source backwards, source piece i as target piece i modulo their number. An untrained model hardly ever
    ends a sentence, and goes on repeating one piece: a search would have nothing to get wrong.
    """
    chance = random.Random(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    first = len(SPECIALS) + len(TAGS)
    pieces = len(model.target_symbols) - first
    for _ in range(steps):
        length, tag = chance.randint(1, 7), chance.choice(TAGS)
        numbers = [chance.choices(range(len(model.source_symbols) - first), k=length) for _ in range(32)]
        sources = [[tag, *(model.source_symbols[first + n] for n in row)] for row in numbers]
        targets = [[first + n % pieces for n in reversed(row)] for row in numbers]
        start = model.target_symbols.index(tag)
        logits_BTV = model.logits(model.encode(sources), [[start, *row] for row in targets])
        following_BT = torch.tensor([[*row, EOS] for row in targets])
        loss = nn.functional.cross_entropy(logits_BTV.flatten(0, 1), following_BT.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def beam_search(
    model: Reference,
    source: Sequence[str],
    prefix: str,
    *,
    beam: int,
    length_penalty: float,
    max_length: int,
    allowed: Sequence[str] | None = None,
) -> list[str]:
    """The textbook's: keep the best `beam` unfinished, stop when so many are finished, and take the best of these.

    Of the best 2 x beam continuations, those among the first `beam` that end are finished; the unfinished go on. What
    is finished is ranked by log-probability / tokens ** length_penalty. <unk> is never taken, nor is what is not
    `allowed`; special symbols and the prefix always are.
    """
    memory, start = model.encode([source]), model.target_symbols.index(prefix)
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for step in range(1, max_length + 1):
        logits_BV = model.logits(memory, [[start, *ids] for _, ids in alive])[:, -1]
        logits_BV[:, UNK] = -math.inf
        if allowed is not None:
            names = {*allowed, prefix, *SPECIALS}
            logits_BV[:, [symbol not in names for symbol in model.target_symbols]] = -math.inf
        logprobs = logits_BV.log_softmax(-1).tolist()
        candidates = [
            (score + logprob, [*ids, following])
            for (score, ids), row in zip(alive, logprobs, strict=True)
            for following, logprob in enumerate(row)
        ]
        best = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * beam]
        finished += [(s, ids) for s, ids in best[:beam] if ids[-1] == EOS or step == max_length]
        alive = [(s, ids) for s, ids in best if ids[-1] != EOS][:beam]
        if len(finished) >= beam:
            break
    ids = max(finished, key=lambda one: one[0] / len(one[1]) ** length_penalty)[1]
    return [model.target_symbols[i] for i in ids if i != EOS]
