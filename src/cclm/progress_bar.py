"""Progress of long work: a bar on a terminal, elsewhere (a log file, a job's output) one line every half minute."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

Progress = Callable[[str, int], object]
"""A function that is called with the name of a stage and how many units of it were done since the last call. A call
with 0 announces that the stage begins."""
Totals = Mapping[str, int | str]
"""The units of each stage, as far as they are known: a number, or the name of another stage that has as many."""

SECONDS = 30.0
"""Between two lines."""


@contextmanager
def shown(totals: Totals | None = None) -> Iterator[Progress]:
    """A function that reports progress; a stage whose total is unknown only counts."""
    with _bars(totals or {}) if sys.stderr and sys.stderr.isatty() else _lines(totals or {}) as advance:
        yield advance


@contextmanager
def _bars(totals: Totals) -> Iterator[Progress]:
    from rich.console import Console  # here: whoever imports the type needs no rich
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
    """A thread writes the lines, for a stage may go on for minutes without any unit being done."""
    reporter, ended = _Reporter(totals), threading.Event()

    def report() -> None:
        while not ended.wait(SECONDS):
            if line := reporter.line(time.monotonic()):
                with suppress(OSError, ValueError):  # nobody reads it: stderr is full, broken or closed
                    print(line, file=sys.stderr, flush=True)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield reporter.advance
    finally:
        ended.set()
        thread.join()


class _Reporter:
    """What is being done now, and since when."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._stage = ""
        self._since = 0.0
        self._done: dict[str, int] = {}

    def advance(self, stage: str, amount: int) -> None:
        """Counts units of a stage."""
        if stage != self._stage:
            self._stage, self._since = stage, time.monotonic()
        self._done[stage] = self._done.get(stage, 0) + amount

    def line(self, now: float) -> str:
        """`encoding 20,000 of 80,000, 30 s, about 90 s left`; empty before the first stage."""
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
