"""A progress bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cclm.data.scan import Progress as Report


@contextmanager
def shown(totals: dict[str, int] | None = None) -> Iterator[Report]:
    """A function that moves the bar of a stage; a stage whose total is unknown only counts."""
    columns = (TextColumn("{task.description:>18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bars:
        tasks: dict[str, object] = {}

        def advance(stage: str, amount: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=(totals or {}).get(stage))
            bars.advance(tasks[stage], amount)  # type: ignore[arg-type]

        yield advance
