"""Progress of long work: a bar on a terminal; elsewhere, as in a batch job's log, a line every half minute."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Progress = Callable[[str, int], object]
"""A function that is called with the name of a stage and how many units of it were done since the last call."""
INTERVAL = 30.0
"""Seconds between two lines, where there is no terminal."""


@contextmanager
def shown(totals: dict[str, int] | None = None) -> Iterator[Progress]:
    """A function that shows the progress of a stage; a stage whose total is unknown only counts."""
    if not sys.stderr or not sys.stderr.isatty():
        yield _Lines(totals or {})
        return
    from rich.console import Console  # here: whoever imports the type needs no rich
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:>18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, object] = {}

        def advance(stage: str, amount: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=(totals or {}).get(stage))
            bars.advance(tasks[stage], amount)  # type: ignore[arg-type]

        yield advance


class _Lines:
    """Lines on stderr, at most one per INTERVAL: work that is done sooner prints none."""

    def __init__(self, totals: dict[str, int]) -> None:
        self._totals, self._last = totals, time.monotonic()
        self._stages: dict[str, tuple[float, int]] = {}
        """When each stage began, and how many units of it are done."""

    def __call__(self, stage: str, amount: int) -> None:
        now = time.monotonic()
        begun, done = self._stages.get(stage, (self._last if not self._stages else now, 0))
        self._stages[stage] = begun, done + amount
        if now - self._last >= INTERVAL:
            self._last = now
            with suppress(OSError, AttributeError):  # nobody reads it: stderr is full, broken or closed
                print(self._line(stage, now), file=sys.stderr, flush=True)

    def _line(self, stage: str, now: float) -> str:
        begun, done = self._stages[stage]
        total = self._totals.get(stage)
        if total is None:
            return f"{stage}: {done:,}"
        left = f", {duration((now - begun) * (total - done) / done)} left" if 0 < done <= total else ""
        return f"{stage}: {done:,}/{total:,}{left}"


def duration(seconds: float) -> str:
    """A time to wait: seconds up to two minutes, then minutes, then hours and minutes."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"
