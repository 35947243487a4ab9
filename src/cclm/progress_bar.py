"""A progress bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int], object]
"""A function that is called with the name of a stage and how many units of it were done since the last call."""


@contextmanager
def shown(totals: dict[str, int] | None = None) -> Iterator[Progress]:
    """A function that moves the bar of a stage; a stage whose total is unknown only counts."""
    from rich.console import Console  # here: whoever imports the type needs no rich
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:>18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Bars(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bars:
        tasks: dict[str, object] = {}

        def advance(stage: str, amount: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=(totals or {}).get(stage))
            bars.advance(tasks[stage], amount)  # type: ignore[arg-type]

        yield advance
