"""Parameters as they are before the first step: fairseq's distributions, drawn from the generator that is passed in."""

import torch
from torch import nn


def linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A projection: Xavier uniform, bias zero."""
    made = nn.Linear(inputs, outputs, device="meta")  # there it draws nothing from the global stream
    weight = torch.empty(outputs, inputs, device="cpu", dtype=torch.float32)
    made.weight = nn.Parameter(nn.init.xavier_uniform_(weight, gain, generator=generator))
    made.bias = nn.Parameter(torch.zeros(outputs, device="cpu", dtype=torch.float32))
    return made


def embedding(symbols: int, width: int, padding: int, generator: torch.Generator) -> nn.Embedding:
    """An embedding: N(0, 1 / width), the row of the padding zero."""
    weight = torch.empty(symbols, width, device="cpu", dtype=torch.float32)
    nn.init.normal_(weight, 0.0, width**-0.5, generator=generator)
    weight[padding] = 0
    return nn.Embedding(symbols, width, padding_idx=padding, _weight=weight)
