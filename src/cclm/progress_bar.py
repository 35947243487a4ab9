"""Progress display: bars on a terminal; elsewhere, such as in a log file, one line every 30 seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

Progress = Callable[[str, int], object]
"""A callback for the name of a stage and the number of units done since the last call. 0 announces a new stage."""
Totals = Mapping[str, int | str]
"""The number of units of each stage if known, or the name of another stage with the same number."""

SECONDS = 30.0
"""Seconds between two lines."""


@contextmanager
def shown(totals: Totals | None = None) -> Iterator[Progress]:
    """Displays progress; yields the callback that reports it. `totals` may lack stages of unknown length."""
    with _bars(totals or {}) if sys.stderr and sys.stderr.isatty() else _lines(totals or {}) as advance:
        yield advance


@contextmanager
def _bars(totals: Totals) -> Iterator[Progress]:
    from rich.console import Console  # imported here, so that the type `Progress` does not need rich
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    text, times = TextColumn("{task.description:>18}"), (TimeElapsedColumn(), TimeRemainingColumn())
    with Bars(text, BarColumn(), MofNCompleteColumn(), *times, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        done: dict[str, int] = {}

        def advance(stage: str, amount: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=_total(stage, totals, done))
            done[stage] = done.get(stage, 0) + amount
            bars.advance(tasks[stage], amount)

        yield advance


@contextmanager
def _lines(totals: Totals) -> Iterator[Progress]:
    """The lines are written by a thread, because minutes may pass between two calls of the callback."""
    reporter, ended = _Reporter(totals), threading.Event()

    def report() -> None:
        while not ended.wait(SECONDS):
            if line := reporter.line(time.monotonic()):
                with suppress(OSError, ValueError):  # stderr is full, broken or closed
                    print(line, file=sys.stderr, flush=True)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield reporter.advance
    finally:
        ended.set()
        thread.join()


class _Reporter:
    """The current stage, its start time, and the units done."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._stage = ""
        self._since = 0.0
        self._done: dict[str, int] = {}

    def advance(self, stage: str, amount: int) -> None:
        """Adds units to a stage."""
        if stage != self._stage:
            self._stage, self._since = stage, time.monotonic()
        self._done[stage] = self._done.get(stage, 0) + amount

    def line(self, now: float) -> str:
        """A line such as `encoding 20,000 of 80,000, 30 s, about 90 s left`; empty before the first stage."""
        if not self._stage:
            return ""
        done, seconds = self._done[self._stage], now - self._since
        total = _total(self._stage, self._totals, self._done)
        of = f" of {total:,}" if total else ""
        rest = seconds * (total - done) / done if total and 0 < done <= total else None
        left = (
            "" if rest is None else f", about {rest:.0f} s left" if rest < 120 else f", about {rest / 60:.0f} min left"
        )
        return f"{self._stage} {done:,}{of}, {seconds:.0f} s{left}"


def _total(stage: str, totals: Totals, done: Mapping[str, int]) -> int | None:
    total = totals.get(stage)
    return done.get(total) if isinstance(total, str) else total
