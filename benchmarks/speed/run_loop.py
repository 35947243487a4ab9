"""A plain loop around torch.nn.Transformer: what one writes in an afternoon, with care.

Sentences of like length are batched under a token budget, losses are summed over real tokens, and the
output projection is the target's embedding; the norm comes first, as in ours. bf16 is autocast.
"""

# B batch, S source, T target, D model, V symbols

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from events import Events
from torch import Tensor, nn
from workload import SIZES, Ids, Size, pairs_of

PAD, BOS, EOS = 0, 1, 2
Batch = tuple[Tensor, Tensor, Tensor]


class Model(nn.Module):
    def __init__(self, size: Size, dropout: float = 0.3) -> None:
        super().__init__()
        self.width, self.dropout = size.width, nn.Dropout(dropout)
        self.target_embedding = nn.Embedding(size.target_symbols, size.width, PAD)
        self.source_embedding = (
            self.target_embedding if size.joint else nn.Embedding(size.source_symbols, size.width, PAD)
        )
        for table in {self.source_embedding, self.target_embedding}:
            nn.init.normal_(table.weight, std=size.width**-0.5)
        self.transformer = nn.Transformer(
            size.width,
            size.heads,
            size.layers,
            size.layers,
            size.feed_forward,
            dropout,
            batch_first=True,
            norm_first=True,
        )
        angles = torch.arange(256)[:, None] * torch.exp(
            torch.arange(0, size.width, 2) * (-math.log(10000) / size.width)
        )
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], dim=1))

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        padding_BS = source_BS == PAD
        causal_TT = nn.Transformer.generate_square_subsequent_mask(target_BT.shape[1], dtype=torch.bool)
        states_BTD = self.transformer(
            self.embed(self.source_embedding, source_BS),
            self.embed(self.target_embedding, target_BT),
            tgt_mask=causal_TT,
            src_key_padding_mask=padding_BS,
            memory_key_padding_mask=padding_BS,
            tgt_is_causal=True,
        )
        return F.linear(states_BTD, self.target_embedding.weight)

    def embed(self, table: nn.Embedding, ids_BT: Tensor) -> Tensor:
        return self.dropout(table(ids_BT) * math.sqrt(self.width) + self.positions[: ids_BT.shape[1]])


def buckets(pairs: list[tuple[Ids, Ids]], budget: int, seed: int) -> list[list[int]]:
    """Sentence numbers batch by batch: sorted by target and source length, cut by the budget, shuffled."""
    generator = np.random.default_rng(seed)
    noise = generator.random(len(pairs))
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0]), noise[i]))
    batches: list[list[int]] = [[]]
    longest = 0
    for i in order:
        longest = max(longest, len(pairs[i][0]) + 1, len(pairs[i][1]) + 1)
        if batches[-1] and longest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            longest = max(len(pairs[i][0]) + 1, len(pairs[i][1]) + 1)
        batches[-1].append(i)
    return [batches[i] for i in generator.permutation(len(batches))]


def budget_for(pairs: list[tuple[Ids, Ids]], tokens: int) -> int:
    """The budget with which a batch has so many real target tokens."""
    total, budget = sum(len(target) + 1 for _, target in pairs), tokens
    while total / len(buckets(pairs, budget, 0)) < tokens:
        budget += tokens // 20
    return budget


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def batches(pairs: list[tuple[Ids, Ids]], budget: int) -> Iterator[Batch]:
    seed = 0
    while True:
        for members in buckets(pairs, budget, seed):
            sources = [[*pairs[i][0].tolist(), EOS] for i in members]
            targets = [pairs[i][1].tolist() for i in members]
            yield padded(sources), padded([[BOS, *row] for row in targets]), padded([[*row, EOS] for row in targets])
        seed += 1


def main(prepared: str, name: str, precision: str, work: str, told: str) -> None:
    """Trains until it is killed."""
    size, events = SIZES[name], Events(Path(told))
    events.tell_updates()
    model = Model(size)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.9, 0.98))
    pairs = pairs_of(Path(prepared), "train")
    for source_BS, input_BT, output_BT in batches(pairs, budget_for(pairs, size.step_tokens)):
        tokens = int((output_BT != PAD).sum())
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            logits_BTV = model(source_BS, input_BT)
            loss = F.cross_entropy(
                logits_BTV.flatten(0, 1).float(),
                output_BT.flatten(),
                ignore_index=PAD,
                label_smoothing=0.1,
                reduction="sum",
            )
        (loss / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        events.tokens += tokens
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
