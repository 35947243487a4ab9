"""The limit of the machine: the matrix products of a training step and nothing else, as target tokens/s.

Forward, towards the input and towards the weight, at the shapes of a full batch. How fast these products run gives
GFLOP/s; divided by the FLOPs that the real tokens need (attention included), it is the rate nobody can exceed who does
not multiply faster. A processor without bf16 multiplies in fp32, as ours does there.
"""

import sys
from pathlib import Path

import torch
from events import Events
from workload import SIZES, Size, flops_a_target_token

from cclm.training.device import device_of


def products(size: Size) -> list[tuple[int, int, int, int]]:
    """(times, rows, inner, columns) of every forward product of a step."""
    rows, width = size.step_tokens, size.width
    return [
        (12 * size.layers, rows, width, width),
        (2 * size.layers, rows, width, size.feed_forward),
        (2 * size.layers, rows, size.feed_forward, width),
        (1, rows, width, size.target_symbols),
    ]


def main(prepared: str, name: str, precision: str, work: str, told: str) -> None:
    """Multiplies until it is killed."""
    events, size = Events(Path(told)), SIZES[name]
    half = precision == "bf16" and not device_of("cpu", precision).emulates
    dtype = torch.bfloat16 if half else torch.float32
    cost = flops_a_target_token(size, Path(prepared))
    operands = [
        (times, torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype), torch.randn(m, n).to(dtype))
        for times, m, k, n in products(size)
    ]
    while True:
        for times, x_MK, weight_NK, gradient_MN in operands:
            for _ in range(times):
                torch.mm(x_MK, weight_NK.T)
                torch.mm(gradient_MN, weight_NK)
                torch.mm(gradient_MN.T, x_MK)
            events.tokens += times * 6 * x_MK.numel() * len(weight_NK) / cost
        events.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])
