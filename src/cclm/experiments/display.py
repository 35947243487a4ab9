"""How far parallel trainings have come, in the terminal."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from cclm.experiments.executor import Job
from cclm.formats.log import Admitted, Event, Stopped, Train
from cclm.training.console import duration

QUIET = 30.0
"""Seconds between two lines about the progress of a job, if there is no terminal for progress bars."""
REPLAY_SECONDS = 1.0
"""Seconds after the first event of a job in which others may be old ones, of a resumed job's log: the speed is measured
after them."""


class Display:
    """A watcher of jobs that shows how far they have come; `max_steps` is how far they may go."""

    def __init__(self, max_steps: int) -> None:
        columns = (
            TextColumn("{task.description:>22}"), BarColumn(bar_width=24), MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"), TimeElapsedColumn(),
        )  # fmt: skip
        self._console = Console(stderr=True)
        self._is_terminal = sys.stderr.isatty()
        self._bars = Progress(*columns, console=self._console, transient=True, disable=not self._is_terminal)
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, tuple[float, int]] = {}
        """When the last line about each job was due, and at which step it was then."""
        self._max_steps = max_steps

    def __enter__(self) -> "Display":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, job: Job, event: Event) -> None:
        """An event of a job's log."""
        if job.name not in self._tasks:
            self._tasks[job.name] = self._bars.add_task(job.name, total=self._max_steps, loss="")
        bar = self._tasks[job.name]
        if isinstance(event, Train):
            loss = "" if event.loss is None else f"loss {event.loss:.2f}"
            self._bars.update(bar, completed=event.step, loss=loss)
            self._print_progress(job, event.step, loss)
        elif isinstance(event, Admitted):
            self.print(f"{job.name}, step {event.step:,}: {event.language} admitted, {event.reason}")
        elif isinstance(event, Stopped):
            self._bars.remove_task(self._tasks.pop(job.name))  # a run that was extended has several ends
            if job.only is None:
                self.print(f"{job.name}: {event.step:,} steps, {event.reason}")

    def _print_progress(self, job: Job, step: int, loss: str) -> None:
        now = time.monotonic()
        then, before = self._said.setdefault(job.name, (now, step))
        if now - then < min(REPLAY_SECONDS, QUIET):
            self._said[job.name] = (then, step)
        elif not self._is_terminal and now - then >= QUIET:
            self._said[job.name] = (now, step)
            seconds = (now - then) / max(1, step - before) * (self._max_steps - step)
            parts = (f"step {step:,} of {self._max_steps:,}", loss, f"at most {duration(seconds)} left")
            self.print(f"{job.name}: {', '.join(part for part in parts if part)}")

    def print(self, line: str) -> None:
        """Prints a line that stays."""
        self._console.print(Text("    " + line, style="dim"), soft_wrap=True)


class Remaining:
    """A watcher that also prints how many of the jobs are done, and how long the rest will take."""

    def __init__(self, display: Display, due: int, of: str) -> None:
        self._display, self._due, self._done, self._start = display, due, 0, time.monotonic()
        self._names: set[str] = set()
        display.print(f"{due} trainings to do, of {of}")

    def __call__(self, job: Job, event: Event) -> None:
        """An event of a job's log."""
        self._display(job, event)
        if isinstance(event, Stopped) and job.name not in self._names:
            self._names.add(job.name)
            self._done += 1
            spent, waiting = time.monotonic() - self._start, self._due - self._done
            rest = f", about {duration(spent / self._done * waiting)} left" if waiting > 0 else ""
            self._display.print(f"{job.name}: {self._done} of {self._due} trainings{rest}")
