"""Random numbers of the model: initial parameters and dropout.

Initial parameters come from the generator that is passed in. Dropout uses torch's global generator: call
`seed_dropout` before a forward pass to make its dropout reproducible, as `Trainer._learn` does.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POOL = 1 << 24
"""Length of the pool of random numbers that dropout masks on a CPU are slices of."""
ALIGNMENT = 16
"""Masks start at multiples of this many numbers, which is one cache line."""


def linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A linear layer, initialised as in fairseq: Xavier uniform weights, zero bias."""
    layer = nn.Linear(inputs, outputs, device="meta")  # on "meta" it takes nothing from the global generator
    weight = torch.empty(outputs, inputs, device="cpu", dtype=torch.float32)
    layer.weight = nn.Parameter(nn.init.xavier_uniform_(weight, gain, generator=generator))
    layer.bias = nn.Parameter(torch.zeros(outputs, device="cpu", dtype=torch.float32))
    return layer


def embedding(symbols: int, width: int, padding: int, generator: torch.Generator) -> nn.Embedding:
    """An embedding, initialised as in fairseq: N(0, 1 / width), with a zero row for padding."""
    weight = torch.empty(symbols, width, device="cpu", dtype=torch.float32)
    nn.init.normal_(weight, 0.0, width**-0.5, generator=generator)
    weight[padding] = 0
    return nn.Embedding(symbols, width, padding_idx=padding, _weight=weight)


def seed_dropout(number: int, device: torch.device) -> None:
    """Seeds the generator that dropout on this device uses. Of the 64 bits of `number` the lowest is ignored."""
    if device.type == "cpu":
        # torch.manual_seed also notes the seed for every kind of GPU that is not there, each time with a stack trace:
        # half a millisecond.
        torch.default_generator.manual_seed(number >> 1)
    else:
        torch.manual_seed(number >> 1)


def dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """Sets each element of `x` to zero with probability `rate` and scales the others by 1 / (1 - rate)."""
    # Random numbers cost nothing on a GPU, but a sixth of a training step and twice the memory on a CPU. There, a mask
    # is a slice of a pool that is generated once; torch's global generator chooses where the slice starts.
    if not training or rate == 0:
        return x
    if x.device.type == "cpu" and x.numel() <= POOL // 2:
        return x * mask(x.shape, rate, x.dtype)
    return F.dropout(x, rate)


def mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """A dropout mask: 0 for dropped elements, 1 / (1 - rate) for the others."""
    size = shape.numel()
    start = ALIGNMENT * int(torch.randint((POOL - size) // ALIGNMENT + 1, ()))
    return _pool(rate, dtype)[start : start + size].view(shape)


@lru_cache(maxsize=4)
def _pool(rate: float, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.rand(POOL, generator=generator) >= rate).to(dtype).div_(1 - rate)
