"""Is bf16 faster than fp32 on this processor? Training steps of models of several widths, on one and more threads.

    python benchmarks/precision.py                      # a table: milliseconds per step, and the ratio
    python benchmarks/precision.py --width 96 --threads 1

`cclm` uses such tables for `training.precision: auto` (cclm/training/device.py). Times are processor time per thread,
which other work on the machine changes little. Both precisions take turns, and the median of each counts. Every batch
has another shape, as in a training.

2026-11-19, AMD EPYC with avx512_bf16, two quiet cores, `--tokens 500 --rounds 20`. Threads that wait for each other
take processor time, too, so that the times of two threads are too long; the ratio is what counts.

    width threads  fp32 ms  bf16 ms  fp32/bf16
       64       1     25.9     23.5       1.10
       96       1     36.5     28.8       1.27
      128       1     49.2     34.2       1.44
      256       1    127.7     63.6       2.01
      512       1    407.2    157.8       2.58
       64       2     17.0     19.1       0.89
       96       2     23.4     20.9       1.12
      128       2     29.2     23.9       1.22
      256       2     70.2     40.0       1.76
      512       2    216.7     91.5       2.37
"""

import argparse
import time
from statistics import median

import numpy as np
import torch

from cclm.data.batches import Batch
from cclm.model import PAD, Shape, Transformer
from cclm.training.adam import Adam
from cclm.training.device import Device

WIDTHS = (64, 96, 128, 192, 256, 384, 512)
SYMBOLS, LENGTH = 1000, 10
"""Symbols of a vocabulary, and tokens of a sentence."""


def step_time(model: Transformer, optimizer: Adam, device: Device, batch: Batch) -> float:
    """Processor seconds for a forward pass, a backward pass and an update, over all threads."""
    start = time.process_time()
    device.losses(model, batch, 0.1).smoothed.backward()  # type: ignore[no-untyped-call]
    optimizer.step(1e-4)
    optimizer.zero_grad()
    return time.process_time() - start


def batch_of(number: int, tokens: int) -> Batch:
    """Sentences of several lengths, about `tokens` in all: another shape for every number."""
    generator = torch.Generator().manual_seed(number)
    longest = LENGTH + number % 8
    ids = torch.randint(4, SYMBOLS, (2 * tokens // longest, longest), generator=generator)
    lengths = torch.randint(1, longest + 1, (len(ids), 1), generator=generator)
    padded = ids.masked_fill_(torch.arange(longest) >= lengths, PAD).numpy()
    return Batch(padded, padded, padded, np.arange(len(padded)))


def measure(width: int, threads: int, tokens: int, rounds: int) -> dict[str, float]:
    """The median time per step of each precision, in milliseconds."""
    torch.set_num_threads(threads)
    shape = Shape(SYMBOLS, SYMBOLS, 2, 4, width, 2 * width, dropout=0.1, attention_dropout=0.1, activation_dropout=0.1)
    model = Transformer(shape, seed=1)
    model.train()
    optimizer = Adam(model)
    times: dict[str, list[float]] = {"fp32": [], "bf16": []}
    for number in range(rounds + 1):
        batch = batch_of(number, tokens)
        for precision, found in times.items():
            seconds = step_time(model, optimizer, Device(torch.device("cpu"), precision), batch)
            if number:  # the first is a warm-up
                found.append(1000 * seconds / threads)
    return {precision: median(found) for precision, found in times.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, action="append", help="model.width; repeatable (default: 64 to 512)")
    parser.add_argument("--threads", type=int, action="append", help="repeatable (default: 1 and all)")
    parser.add_argument("--tokens", type=int, action="append", help="per batch; repeatable (default: 250 and 1000)")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    flags = {"avx512_bf16": torch.cpu._is_avx512_bf16_supported(), "amx": torch.cpu._is_amx_tile_supported()}
    print("  ".join(f"{name}: {'yes' if there else 'no'}" for name, there in flags.items()))
    print(f"{'width':>6} {'threads':>7} {'tokens':>6} {'fp32 ms':>8} {'bf16 ms':>8} {'fp32/bf16':>10}")
    for threads in arguments.threads or sorted({1, torch.get_num_threads()}):
        for tokens in arguments.tokens or (250, 1000):
            for width in arguments.width or WIDTHS:
                found = measure(width, threads, tokens, arguments.rounds)
                times = f"{found['fp32']:>8.1f} {found['bf16']:>8.1f} {found['fp32'] / found['bf16']:>10.2f}"
                print(f"{width:>6} {threads:>7} {tokens:>6} {times}", flush=True)


if __name__ == "__main__":
    main()
