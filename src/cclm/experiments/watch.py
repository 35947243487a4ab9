"""Trainings side by side, as people see them: a bar each on a terminal, a line for what matters elsewhere too."""

import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from cclm.experiments.processes import Training


class Watch:
    """`saw` takes the events of the trainings, as `side_by_side` gives them; `max_steps` is how far they may go."""

    def __init__(self, max_steps: int) -> None:
        columns = (
            TextColumn("{task.description:>22}"), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"), TimeElapsedColumn(),
        )  # fmt: skip
        self._console = Console(stderr=True)
        self._bars = Progress(*columns, console=self._console, transient=True, disable=not sys.stderr.isatty())
        self._tasks: dict[str, TaskID] = {}
        self._max_steps = max_steps

    def __enter__(self) -> "Watch":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def saw(self, training: Training, event: dict[str, Any]) -> None:
        """An event of a training's log."""
        if training.name not in self._tasks:
            self._tasks[training.name] = self._bars.add_task(training.name, total=self._max_steps, loss="")
        bar = self._tasks[training.name]
        if event["event"] == "train":
            self._bars.update(bar, completed=event["step"], loss=f"loss {event['loss']:.2f}")
        elif event["event"] == "admitted":
            self.say(f"{training.name}, step {event['step']:,}: {event['language']} admitted, {event['reason']}")
        elif event["event"] == "stopped":
            self._bars.remove_task(bar)
            if training.only is None:
                self.say(f"{training.name}: {event['step']:,} steps, {event['reason']}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(Text("    " + line, style="dim"), soft_wrap=True)


class Remaining:
    """Says how many of the trainings that are due are done, and how long the rest will take."""

    def __init__(self, watch: Watch, due: int, of: str) -> None:
        self._watch, self._due, self._done, self._start = watch, due, 0, time.monotonic()
        watch.say(f"{due} trainings to do, of {of}")

    def saw(self, training: Training, event: dict[str, Any]) -> None:
        """An event of a training's log."""
        self._watch.saw(training, event)
        if event["event"] == "stopped":
            self._done += 1
            spent = time.monotonic() - self._start
            left = spent / self._done * (self._due - self._done) / 60
            self._watch.say(f"{training.name}: {self._done} of {self._due} trainings, about {left:.0f} min left")
