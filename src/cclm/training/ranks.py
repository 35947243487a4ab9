"""Several processes as one training: `torchrun` starts the same command on every rank, and this is all that they share.

What a rank computes is dealt out by number, and what all must know is summed. The rest of the code sees no more of the
others than that; a process alone is rank 0 of 1, and nothing here does anything for it.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from cclm.errors import Interrupted, TrainingError

ANSWER = 50.0
"""Seconds in which a rank must answer, or it is given up; CCLM_RANKS_TIMEOUT in the environment changes it."""
PATIENCE = timedelta(days=7)
"""How long the others wait for what the first rank does alone: data, bitext models, checkpoints."""
BUCKET = 1 << 20
"""Numbers that are summed in one go."""


class Ranks:
    """This process and the others. What a method gives is the same on every rank."""

    def __init__(
        self, rank: int = 0, world: int = 1, *, store: Any = None, numbers: Any = None, gradients: Any = None
    ) -> None:
        self.rank, self.world = rank, world
        self._store, self._numbers, self._gradients = store, numbers, gradients
        self._said = 0

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def takes(self, number: int) -> bool:
        """Whether this rank computes what has this number."""
        return number % self.world == self.rank

    def sum(self, rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
        """Row by row the sum over the ranks. A row that only one rank fills arrives to the last bit: x + 0 = x."""
        return self._all(rows, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        return int(self._all([[number]], dist.ReduceOp.MAX)[0][0])

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Adds up the ranks' gradients: once an update, after its last micro-batch.

        Not DistributedDataParallel: it takes means, which for three ranks are not sums to the last bit, wants the model
        wrapped, and was no faster here. Small gradients travel together, as every journey costs.
        """
        if self.world == 1:
            return
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            if len(bucket) == 1:
                self._call(dist.all_reduce, bucket[0], group=self._gradients)
                continue
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            self._call(dist.all_reduce, flat, group=self._gradients)
            for gradient, part in zip(bucket, torch.split(flat, [g.numel() for g in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def told(self, text: str = "") -> str:
        """What the first rank says; the others wait for it, however long it takes."""
        if self.world == 1:
            return text
        self._said += 1
        key = f"told {self._said}"
        if self.first:
            self._call(self._store.set, key, text)
            return text
        while not self._call(self._store.check, [key]):
            time.sleep(0.05)  # a signal is heard here; inside a call of gloo's it would not be
        answer: bytes = self._call(self._store.get, key)
        return answer.decode()

    def wait(self) -> None:
        """Returns when every rank is here, however long it takes."""
        if self.world > 1:
            self._call(dist.barrier)

    def _all(self, rows: Sequence[Sequence[float]], how: Any) -> Sequence[Sequence[float]]:
        if self.world == 1:
            return rows
        table = torch.tensor(rows, dtype=torch.float64)
        self._call(dist.all_reduce, table, how, group=self._numbers)
        summed: list[list[float]] = table.tolist()
        return summed

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except RuntimeError as error:  # a connection that was closed, or a time that ran out
            raise TrainingError(
                f"rank {self.rank}: another rank is gone or does not answer ({_reason(error)});"
                " the last checkpoint is intact, and the same command goes on from it"
            ) from None


ALONE = Ranks()


def local_rank() -> int:
    """The number of this rank on its machine: which GPU is its own."""
    return int(os.environ.get("LOCAL_RANK", 0))


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """All ranks that torchrun has started; without it, this process alone."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    ranks = _join(device)
    try:
        yield ranks
    except Interrupted as interrupted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends one to all as soon as one of them has ended
        _part(ranks)
        if not ranks.first:
            sys.exit(128 + interrupted.number)
        raise
    _part(ranks)  # after an error nobody waits: the others notice the closed connection


def _join(device: torch.device) -> Ranks:
    try:
        answer = timedelta(seconds=float(os.environ.get("CCLM_RANKS_TIMEOUT", ANSWER)))
        store, rank, world = next(rendezvous("env://"))
        # Three ways to talk: patiently, in numbers on the CPU, and in gradients where the model is.
        dist.init_process_group("gloo", timeout=PATIENCE, store=store, rank=rank, world_size=world)
        numbers = dist.new_group(timeout=answer, backend="gloo")
        gradients = numbers
        if device.type == "cuda":
            torch.cuda.set_device(device)
            gradients = dist.new_group(timeout=answer, backend="nccl")
    except (RuntimeError, ValueError) as error:
        raise TrainingError(f"could not join the other ranks: {_reason(error)}; start them with torchrun") from None
    return Ranks(rank, world, store=store, numbers=numbers, gradients=gradients)


def _part(ranks: Ranks) -> None:
    """Leaves together: torchrun ends all as soon as one has failed, and the first may still be tidying up."""
    ranks.wait()
    dist.destroy_process_group()


def _buckets(gradients: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    bucket: list[torch.Tensor] = []
    for gradient in gradients:
        if bucket and sum(g.numel() for g in bucket) + gradient.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(gradient)
    yield bucket


def _reason(error: Exception) -> str:
    """What went wrong, without the place in gloo's source and without its advice."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[\S+\] ", "", line).partition(". This is typically")[0]
