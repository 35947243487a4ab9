"""Random numbers of the model: the initial parameters, and dropout.

Initial parameters are a pure function of the generator that is passed in. Dropout depends on torch's global stream:
`torch.manual_seed` before a pass decides what is dropped in it.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POOL = 1 << 24
"""Length of the pool of random numbers that dropout masks on a CPU are cut from."""
ALIGNED = 16
"""Masks start at multiples of this many numbers: a cache line."""


def linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    """A projection as fairseq initialises it: Xavier uniform, bias zero."""
    made = nn.Linear(inputs, outputs, device="meta")  # on this device it draws nothing from the global stream
    weight = torch.empty(outputs, inputs, device="cpu", dtype=torch.float32)
    made.weight = nn.Parameter(nn.init.xavier_uniform_(weight, gain, generator=generator))
    made.bias = nn.Parameter(torch.zeros(outputs, device="cpu", dtype=torch.float32))
    return made


def embedding(symbols: int, width: int, padding: int, generator: torch.Generator) -> nn.Embedding:
    """An embedding as fairseq initialises it: N(0, 1 / width), the row of the padding zero."""
    weight = torch.empty(symbols, width, device="cpu", dtype=torch.float32)
    nn.init.normal_(weight, 0.0, width**-0.5, generator=generator)
    weight[padding] = 0
    return nn.Embedding(symbols, width, padding_idx=padding, _weight=weight)


def dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """`x` with the share `rate` of its numbers set to zero, the others scaled up so that the mean stays."""
    # On a GPU random numbers are free. On a CPU they take a sixth of a training step, and twice the memory: there, a
    # mask is a piece of a pool that was drawn once; torch's stream decides where the piece starts.
    if not training or rate == 0:
        return x
    if x.device.type == "cpu" and x.numel() <= POOL // 2:
        return x * mask(x.shape, rate, x.dtype)
    return F.dropout(x, rate)


def mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """A mask of this shape: 0 where something is dropped, 1 / (1 - rate) elsewhere."""
    size = shape.numel()
    start = ALIGNED * int(torch.randint((POOL - size) // ALIGNED + 1, ()))
    return _pool(rate, dtype)[start : start + size].view(shape)


@lru_cache(maxsize=4)
def _pool(rate: float, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (torch.rand(POOL, generator=generator) >= rate).to(dtype).div_(1 - rate)
