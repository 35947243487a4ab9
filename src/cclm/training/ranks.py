"""Several processes as one training: `torchrun` or `srun` starts the same command on every rank.

Each piece of work has a number, which decides its rank (`Ranks.takes`), and results that all ranks need are summed. The
rest of the code knows nothing else about other ranks. A single process is rank 0 of 1; then nothing here has an effect.
"""

import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from cclm.errors import Interrupted, TrainingError
from cclm.signals import signals_end_at_once
from cclm.training.overlap import OverlappedSums
from cclm.training.torchrun import set_torch_environment, world_size

ANSWER_SECONDS = 50.0
"""Seconds in which a rank must answer, or it counts as gone; CCLM_RANKS_TIMEOUT in the environment changes it."""
JOIN_TIMEOUT = timedelta(seconds=90)
"""How long ranks wait for each other when they start; a longer CCLM_RANKS_TIMEOUT counts here, too."""
WAIT_TIMEOUT = timedelta(days=7)
"""How long the others wait for what the first rank does alone: data, bitext models, checkpoints."""
EXACT = 1 << 53
"""Whole numbers below this are exact in float64, in which ranks exchange numbers."""
BUCKET = 1 << 20
"""Numbers that are summed in one call."""


@dataclass(frozen=True)
class ProcessGroups:
    """Process groups of torch.distributed, each of all ranks: `patient` has a long timeout, `numbers` is for values on
    the CPU, `gradients` for the device of the model."""

    patient: Any = None
    numbers: Any = None
    gradients: Any = None


class Ranks:
    """This process and the others. Sums, maxima and broadcasts are the same on every rank."""

    def __init__(
        self, rank: int = 0, world: int = 1, *, store: Any = None, groups: "ProcessGroups | None" = None
    ) -> None:
        self.rank, self.world = rank, world
        self._store, self._groups = store, groups or ProcessGroups()
        self._broadcasts = 0

    @property
    def overlaps(self) -> bool:
        """Whether gradients are summed while the backward pass still runs, as between GPUs."""
        return self.world > 1 and self._groups.gradients is not self._groups.numbers

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def takes(self, number: int) -> bool:
        """Whether this rank does the piece of work with this number."""
        return number % self.world == self.rank

    def sum(self, rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
        """Row by row the sum over the ranks. A row that only one rank fills arrives exactly, because x + 0 = x."""
        return self._all(rows, dist.ReduceOp.SUM)

    def largest(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        return int(self._all([[number]], dist.ReduceOp.MAX)[0][0])

    def tokens(self, own: int, expected: int) -> int:
        """The number that the losses of an update are divided by: its target tokens on all ranks.

        GPUs would have to wait for that number. They divide by the `expected` one, and correct the gradient later.
        """
        return expected if self.overlaps else int(self.sum([[own]])[0][0])

    def sum_table(self, table: torch.Tensor) -> None:
        """Adds up the ranks' tables, in place; each rank fills rows of its own. On GPUs this is only queued."""
        if self.world > 1:
            group = self._groups.gradients if self.overlaps else self._groups.numbers
            self._call(dist.all_reduce, table, group=group)

    def overlapped(self, parameters: Iterable[torch.nn.Parameter]) -> OverlappedSums | None:
        """Sums of the gradients of a training's parameters during its backward passes, where that can be done."""
        return OverlappedSums(list(parameters), self._groups.gradients, self._call) if self.overlaps else None

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Adds up the ranks' gradients: once per update, after its last micro-batch.

        DistributedDataParallel is not used: it computes means, which for three ranks are not sums to the last bit, it
        wants the model wrapped, and it was no faster here. Small gradients are sent together, because every call has a
        fixed cost.
        """
        if self.world == 1:
            return
        for bucket in _buckets([parameter.grad for parameter in parameters if parameter.grad is not None]):
            if len(bucket) == 1:
                self._call(dist.all_reduce, bucket[0], group=self._groups.gradients)
                continue
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            self._call(dist.all_reduce, flat, group=self._groups.gradients)
            for gradient, part in zip(bucket, torch.split(flat, [g.numel() for g in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def broadcast(self, text: str = "") -> str:
        """The text of the first rank; the others wait for it, however long it takes."""
        if self.world == 1:
            return text
        self._broadcasts += 1
        key = f"broadcast {self._broadcasts}"
        if self.first:
            self._call(self._store.set, key, text)
            return text
        while not self._call(self._store.check, [key]):
            time.sleep(0.05)  # signals are handled here; inside a call of gloo they would not be
        answer: bytes = self._call(self._store.get, key)
        return answer.decode()

    def check_same_weights(self, model: torch.nn.Module, step: int) -> None:
        """Raises TrainingError on every rank if the weights of any two ranks differ in a bit."""
        if self.world == 1:
            return
        # The bits of the (fp32) weights as numbers; modulo, because ranks exchange 64-bit floats.
        sums = [parameter.detach().view(torch.int32).sum(dtype=torch.int64) for parameter in model.parameters()]
        digest = int(torch.stack(sums).sum()) % EXACT
        # The largest -x is the smallest x: one exchange gives both.
        highest, lowest = self._all([[digest, -digest]], dist.ReduceOp.MAX)[0]
        if highest != -lowest:
            raise TrainingError(
                f"the ranks have different weights at step {step}: one has loaded another checkpoint, or computes"
                " differently; nothing was saved, and the same command resumes from the last checkpoint"
            )

    def wait(self) -> None:
        """Returns when every rank is here, however long it takes."""
        if self.world > 1:
            self._call(dist.barrier, group=self._groups.patient)

    def _all(self, rows: Sequence[Sequence[float]], how: Any) -> Sequence[Sequence[float]]:
        if self.world == 1:
            return rows
        table = torch.tensor(rows, dtype=torch.float64)
        self._call(dist.all_reduce, table, how, group=self._groups.numbers)
        summed: list[list[float]] = table.tolist()
        return summed

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except RuntimeError as error:  # a closed connection, or a timeout
            raise TrainingError(
                f"rank {self.rank}: another rank is gone or does not answer ({_reason(error)});"
                " the last checkpoint is intact, and the same command resumes from it"
            ) from None


ALONE = Ranks()


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """All ranks that torchrun or srun has started; without them, this process alone."""
    if world_size() == 1:
        yield ALONE
        return
    ranks = _join(device)
    try:
        yield ranks
    except Interrupted as interrupted:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends it to all ranks as soon as one has ended
        _leave(ranks)
        if not ranks.first:
            sys.exit(128 + interrupted.number)
        raise
    _leave(ranks)  # not after an error: the other ranks notice the closed connection


def _join(device: torch.device) -> Ranks:
    """Meets the other ranks. torch waits for them where no handler of a signal can run: hence the thread."""
    with ThreadPoolExecutor(1) as thread, signals_end_at_once():
        ranks = thread.submit(_meet, device).result()
    if device.type == "cuda":
        torch.cuda.set_device(device)  # which counts for one thread
    return ranks


def _meet(device: torch.device) -> Ranks:
    try:
        set_torch_environment()
        answer = timedelta(seconds=float(os.environ.get("CCLM_RANKS_TIMEOUT", ANSWER_SECONDS)))
        _await_first(max(JOIN_TIMEOUT, answer))
        store, rank, world = next(rendezvous("env://", timeout=max(JOIN_TIMEOUT, answer)))
        # torchrun keeps its store when it starts all ranks again: without a prefix they would read the old keys.
        count = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = dist.PrefixStore(f"start {count}", store)  # type: ignore[attr-defined]
        # A rank that dies now is noticed after this time. Later ones notice the closed connection.
        dist.init_process_group("gloo", timeout=max(JOIN_TIMEOUT, answer), store=store, rank=rank, world_size=world)
        patient = dist.new_group(timeout=WAIT_TIMEOUT, backend="gloo")
        numbers = dist.new_group(timeout=answer, backend="gloo")
        gradients = numbers
        if device.type == "cuda":
            torch.cuda.set_device(device)
            gradients = dist.new_group(timeout=answer, backend="nccl")
    except (RuntimeError, ValueError) as error:
        raise TrainingError(
            f"could not join the other ranks: {_reason(error)}; start them with torchrun, or with srun"
        ) from None
    return Ranks(rank, world, store=store, groups=ProcessGroups(patient, numbers, gradients))


def _await_first(patience: timedelta) -> None:
    """Returns when the first rank can be reached. torch itself would exceed its timeout."""
    address, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT", "")
    if os.environ.get("RANK") == "0" or not address or not port.isdigit():
        return  # this is the first rank; or torch says what is missing
    end = time.monotonic() + patience.total_seconds()
    while True:
        try:
            socket.create_connection((address, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                reason = f"nobody answers at {address}:{port} ({error.strerror or error})"
                raise RuntimeError(reason) from None
        time.sleep(0.2)


def _leave(ranks: Ranks) -> None:
    """Leaves together: torchrun ends all ranks as soon as one has failed, and the first may still be writing."""
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
    """The message without the place in gloo's source and without its advice."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[\S+\] ", "", line).partition(". This is typically")[0]
