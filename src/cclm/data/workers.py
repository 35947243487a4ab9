"""A pool of worker processes that returns results in order, with only a few tasks in flight at a time."""

import gc
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from types import TracebackType
from typing import Any, TypeVar

from cclm.errors import DataError
from cclm.signals import signals_blocked

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")

AHEAD = 3
"""Tasks in flight per worker: enough to keep it busy, few enough to keep memory small."""


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of processes, or with one worker this process itself."""

    def __init__(self, count: int | None = None) -> None:
        self._count = count or available_cores()
        # A forked child of a process with threads (a progress bar, torch) may hang on a lock; a fork server has none.
        context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        self._pool: ProcessPoolExecutor | None = None
        if self._count > 1:
            with signals_blocked():  # they stay blocked in the workers: this process handles them
                self._pool = ProcessPoolExecutor(self._count, mp_context=context, initializer=_begin_worker)

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The result for every task, in the order of the tasks. Tasks are read as results are, not all at once."""
        tasks = iter(tasks)
        first = list(islice(tasks, 2))
        if self._pool is None or len(first) < 2:  # a single task is done sooner than a process is started
            yield from map(function, chain(first, tasks))
            return
        try:
            yield from self._results(self._pool, function, chain(first, tasks))
        except BrokenProcessPool:
            raise DataError(
                f"one of {self._count} worker processes was killed, perhaps for lack of memory:"
                f" try fewer, as in --workers {max(1, self._count // 2)}"
            ) from None

    def _results(
        self, pool: ProcessPoolExecutor, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[Result]:
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            try:
                with signals_blocked():  # a submit may start a worker, which would be lost if a signal interrupted it
                    waiting.append(pool.submit(function, task))
            except (EOFError, ConnectionError) as error:  # the fork server was killed
                raise BrokenProcessPool from error
            if len(waiting) >= AHEAD * self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is None:
            return
        if kind is None:
            self._pool.shutdown()
            return
        # A signal may have interrupted a submit: shutting such a pool down in order can wait for ever.
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _begin_worker() -> None:
    """Sets up a worker process. Garbage collection would look at all lists of a chunk again and again for nothing: they
    are freed without it."""
    end_with_parent()
    gc.set_threshold(1_000_000)


def end_with_parent() -> None:
    """Ends this process when its parent ends, even if that was killed.

    It exits at once, without saving: a restarted command may already be waiting for its files.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def chunked(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of this size, the last one shorter."""
    iterator: Iterator[Any] = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
