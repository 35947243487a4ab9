"""Work spread over processes: results in order, and never more in flight than the workers can hold."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
Item = TypeVar("Item")

AHEAD = 3
"""Tasks waiting for each worker: enough to keep it busy, few enough to keep memory flat."""


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A pool of processes, or with one worker this very process."""

    def __init__(self, count: int | None = None) -> None:
        self._count = count or available_cores()
        # A fork of a process that has threads (a progress bar, torch) may hang; a fork server has none.
        context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
        self._pool = (
            ProcessPoolExecutor(self._count, mp_context=context, initializer=_live_with_the_parent)
            if self._count > 1
            else None
        )

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The function of every task, in the order of the tasks; tasks are taken only as results are."""
        if self._pool is None:
            yield from map(function, tasks)
            return
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            with _undisturbed():
                waiting.append(self._pool.submit(function, task))
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
        # A signal may have come in the middle of a submit: a pool that is then asked to end in order can wait for ever.
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Lets signals wait: a submit may start a worker, which nobody would know of if it were broken off in between."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are none of its business
        return
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def _live_with_the_parent() -> None:
    """Leaves interrupts to the parent, and ends when the parent does, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
