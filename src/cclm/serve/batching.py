"""Concurrent requests in common batches: sentences wait in a bounded queue until a worker thread is free.

A batch has one model, one pair of languages and one number of hypotheses. An idle service translates at once; sentences
that arrive meanwhile are translated together. A further worker joins when enough of them wait, or one waits too long.
Requests take turns, so that a long text does not delay short ones.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from cclm.formats.export import Pair
from cclm.serve.models import Offered
from cclm.translation.model import Hypothesis

ENOUGH, PATIENCE = 16, 0.25
"""While one worker is busy, another one begins if so many sentences wait, or one has waited for this share of the time
that the last batch took."""
Found = list[list[Hypothesis]]
"""The hypotheses of each sentence."""


class QueueFull(Exception):
    """There is no room for more sentences now."""


@dataclass(frozen=True)
class Key:
    """What the sentences of a batch have in common."""

    model: str
    source: str
    target: str
    count: int


@dataclass(eq=False)
class Job:
    """The encoded sentences of one request for one pair, and how far they are."""

    offered: Offered
    pair: Pair
    count: int
    sentences: list[list[str]]
    future: "Future[Found]" = field(default_factory=Future)
    taken: int = 0
    arrived: float = field(default_factory=time.monotonic)
    missing: int = field(init=False)
    found: list[list[Hypothesis]] = field(init=False)

    def __post_init__(self) -> None:
        self.missing, self.found = len(self.sentences), [[] for _ in self.sentences]

    @property
    def key(self) -> Key:
        return Key(self.offered.name, self.pair.source, self.pair.target, self.count)


Slice = tuple[Job, range]


class Batcher:
    """A queue of jobs and the threads that work on it. `observe` is called after each batch with its key and size."""

    def __init__(
        self,
        workers: int,
        *,
        most_waiting: int = 4096,
        most_in_batch: int = 32,
        most_of_a_job: int = 8,
        observe: Callable[[Key, int], object] = lambda key, sentences: None,
    ) -> None:
        self._most_waiting, self._most_in_batch, self._most_of_a_job = most_waiting, most_in_batch, most_of_a_job
        self._observe = observe
        self._jobs: dict[Key, deque[Job]] = {}
        self._change, self._is_over, self._waiting, self._busy = threading.Condition(), False, 0, 0
        self._linger = 0.002
        """Seconds that a sentence waits for others while a worker is busy."""
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Sentences in the queue."""
        return self._waiting

    def submit(self, job: Job) -> "Future[Found]":
        """Puts a job into the queue. If its future is cancelled, what has not been begun is dropped."""
        if not job.sentences:
            job.future.set_result([])
            return job.future
        with self._change:
            if self._is_over or self._waiting + len(job.sentences) > self._most_waiting:
                raise QueueFull
            self._waiting += len(job.sentences)
            self._jobs.setdefault(job.key, deque()).append(job)
            self._change.notify()
        job.future.add_done_callback(lambda _: self._drop(job))
        return job.future

    def _drop(self, job: Job) -> None:
        """Takes a job out of the queue that has been cancelled or has failed: its room is free again at once."""
        with self._change:
            rest = len(job.sentences) - job.taken
            if rest:
                job.taken += rest
                self._waiting -= rest
                self._jobs[job.key].remove(job)

    def stop(self) -> None:
        """Ends the threads after their present batches; jobs that still wait are cancelled."""
        with self._change:
            self._is_over = True
            left = [job for jobs in self._jobs.values() for job in jobs]
            self._change.notify_all()
        for job in left:
            job.future.cancel()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while batch := self._next():
            job = batch[0][0]
            sentences, start = [one.sentences[i] for one, members in batch for i in members], time.monotonic()
            try:
                found = job.offered.model.n_best(sentences, job.pair, job.count)
            except Exception as error:  # whatever it is, the requests must be answered
                for one, _ in batch:
                    _finish(one.future, error)
            else:
                self._observe(job.key, len(sentences))
                self._deliver(batch, found)
            with self._change:
                self._busy -= 1
                self._linger = PATIENCE * (time.monotonic() - start)

    def _next(self) -> list[Slice] | None:
        """The next batch, once there is one; None at the end."""
        with self._change:
            while True:
                if self._is_over:
                    return None
                if self._may_begin() and (batch := self._take()):
                    self._busy += 1
                    if self._jobs:
                        self._change.notify()
                    return batch
                self._change.wait(self._linger if self._jobs else None)

    def _may_begin(self) -> bool:
        if not self._busy or self._waiting >= ENOUGH:
            return True
        return any(time.monotonic() - jobs[0].arrived > self._linger for jobs in self._jobs.values() if jobs)

    def _take(self) -> list[Slice]:
        """Sentences of the key whose turn it is, in turns from each of its jobs."""
        batch: list[Slice] = []
        while self._jobs and not batch:
            key = next(iter(self._jobs))
            jobs, room = self._jobs.pop(key), self._most_in_batch
            while jobs and room:
                job = jobs.popleft()
                members = range(job.taken, min(len(job.sentences), job.taken + min(room, self._most_of_a_job)))
                job.taken, room = members.stop, room - len(members)
                self._waiting -= len(members)
                batch.append((job, members))
                if job.taken < len(job.sentences):
                    jobs.append(job)
            if jobs:
                self._jobs[key] = jobs  # behind the other keys
        return batch

    def _deliver(self, batch: Sequence[Slice], found: Found) -> None:
        hypotheses = iter(found)
        for job, members in batch:
            for i in members:
                job.found[i] = next(hypotheses)
            with self._change:
                job.missing -= len(members)
                is_complete = job.missing == 0
            if is_complete:
                _finish(job.future, job.found)


def _finish(future: "Future[Found]", outcome: Found | Exception) -> None:
    """Sets the outcome, unless the request has gone meanwhile."""
    with suppress(InvalidStateError):
        future.set_exception(outcome) if isinstance(outcome, Exception) else future.set_result(outcome)
