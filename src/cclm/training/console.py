"""The display of a training in the terminal, and timing.jsonl. Times are measured here; no result depends on them."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cclm.formats.base import refuse_irregular
from cclm.formats.checkpoint import Progress
from cclm.formats.log import PerLanguage, Probe, Stopped, Train, Validation
from cclm.formats.run import Timing
from cclm.text_table import text_table

HEADS = ("", "", "competence", "HRLs-evaluated", "share", "passes", "dev loss")
OTHER_LINES = 4
"""Lines of the terminal without a language: the step, the table head, the number of omitted languages, the cursor."""


@dataclass(frozen=True)
class Shown:
    """Facts about a training that the display needs and events do not contain."""

    name: str
    max_steps: int
    batches: Mapping[str, int]
    """The number of batches per pass over the data of each task."""
    threshold: float | None = None
    """The threshold of the competence gate; None with another gate."""


class TrainingConsole:
    """A live table on a terminal, plain lines elsewhere. An error here never stops a training.

    `latest` is the initial state of the curriculum, as a probe event.
    """

    def __init__(
        self, shown: Shown, progress: Progress, latest: Probe, *, timing: Path | None, is_silent: bool = False
    ) -> None:
        self._shown, self._progress, self._latest = shown, progress, latest
        self._console = Console(stderr=True)
        self._is_silent = is_silent
        self._live = Live(console=self._console, auto_refresh=False) if not is_silent and sys.stderr.isatty() else None
        if timing and timing.is_fifo():  # opening one without a reader would block for ever
            refuse_irregular(timing)
        self._timing = timing.open("ab", buffering=0) if timing else None
        self._start = self._last = time.monotonic()
        self._first_step = progress.step
        self._counted = sum(progress.shown.tokens.values())  # tokens of an earlier process, since its last train event
        self._spent: dict[str, float] = {"probe": 0.0, "reward": 0.0, "validation": 0.0}
        self._line = f"step {progress.step:,}/{shown.max_steps:,}"

    def __enter__(self) -> "TrainingConsole":
        if self._live:
            self._live.start()
            self._refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._time("end", 0)
        with self._harmless():
            if self._live:
                self._live.stop()
        if self._timing:
            self._timing.close()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Counts the seconds of a probe, of rewards or of a validation."""
        start = time.monotonic()
        yield
        self._spent[what] += time.monotonic() - start

    def trained(self, event: Train) -> None:
        """Shows speed, loss and the time left."""
        now = time.monotonic()
        tokens = sum(event.tokens.values()) - self._counted
        rate = tokens / max(now - self._last, 1e-9)
        self._last, self._counted = now, 0
        self._line = (
            f"step {event.step:,}/{self._shown.max_steps:,}  loss {event.loss:.3f}  lr {event.learning_rate:.1e}"
            f"  {rate:,.0f} tokens/s  {self._left(event.step, now)}"
        )
        self._time("train", event.step, tokens_per_second=rate)
        if self._live:
            self._refresh()
        else:
            self.print(f"{self._shown.name}  {self._line}")

    def probed(self, event: Probe) -> None:
        """Shows the languages as the curriculum sees them now."""
        self._latest = event
        self._time("probe", event.step)
        self._refresh()

    def admitted(self, step: int, lang: str, reason: str) -> None:
        """Shows which language was admitted, and why."""
        self.print(f"step {step:,}: {lang} admitted: {reason}", style="bold green")

    def validated(self, event: Validation) -> None:
        """Shows the dev losses of a validation."""
        self._time("validation", event.step)
        worst = f", worst {event.worst.language} {event.worst.loss:.3f}" if event.worst else ""
        bleu = f", BLEU {event.mean_bleu:.1f}" if event.mean_bleu is not None else ""
        self.print(f"step {event.step:,}: dev loss weighted {event.weighted:.3f}, macro {event.macro:.3f}{worst}{bleu}")

    def stopped(self, event: Stopped) -> None:
        """Shows why the training ended."""
        note = f" ({event.note})" if event.note else ""
        best = f"the best checkpoint is step {event.best}{note}"
        self.print(f"step {event.step:,}: stopped, {event.reason}; {best}")
        self._line = f"step {event.step:,}/{self._shown.max_steps:,}  {event.reason}"
        self._refresh()

    def print(self, line: str, style: str = "") -> None:
        """Prints a line that stays, above the live table where there is one."""
        with self._harmless():
            if self._live:
                self._live.console.print(Text(line, style=style))
            elif not self._is_silent:
                print(line, file=sys.stderr, flush=True)

    def _time(self, event: str, step: int, **rates: float) -> None:
        seconds = round(time.monotonic() - self._start, 3)
        spent = {f"{name}_seconds": round(value, 3) for name, value in self._spent.items()}
        timing = Timing(event=event, step=step, seconds=seconds, **spent, **rates)
        if self._timing:
            try:
                self._timing.write(timing.line())
            except OSError as error:
                self._timing.close()
                self._timing = None
                self.print(f"timing.jsonl: {error.strerror}; times are no longer recorded")

    def _left(self, step: int, now: float) -> str:
        """How long the remaining steps take, at the mean speed since this process began."""
        steps = step - self._first_step
        if not steps:
            return "time unknown"
        return f"{duration((self._shown.max_steps - step) * (now - self._start) / steps)} left"

    def _refresh(self) -> None:
        with self._harmless():
            if self._live:
                counters = self._progress.counters
                passes = {lang: counters.get(lang, 0) / count for lang, count in self._shown.batches.items()}
                threshold, height = self._shown.threshold, self._console.height
                table = language_table(self._latest, passes, threshold=threshold, height=height)
                self._live.update(Group(Text(self._line, style="bold"), table), refresh=True)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """Ends all output to a terminal or pipe that is gone; the training goes on."""
        try:
            yield
        except OSError:
            self._is_silent, self._live = True, None


def language_table(latest: Probe, passes: Mapping[str, float], *, threshold: float | None, height: int) -> Table:
    """One row per language, as many as fit; `passes` is how often the data of each has been seen."""
    weights = latest.weights
    shown = fitting(list(passes), weights, latest.hrls_competence, max(1, height - OTHER_LINES))
    table = text_table(HEADS, wrap=False)
    for lang in shown:
        ready = latest.hrls_competence.get(lang)
        table.add_row(
            lang,
            "admitted" if lang in weights else "waiting",
            _short(latest.competence.get(lang)) + _error(latest.competence_se.get(lang)),
            "" if ready is None or threshold is None else f"{_short(ready)}/{_short(threshold)}",
            f"{weights.get(lang) or 0:.1%}",
            f"{passes[lang]:.1f}",
            _short(latest.dev_loss.get(lang)),
            style="" if lang in weights else "dim",
        )
    absent = [lang for lang in passes if lang not in shown]
    if absent:
        admitted = sum(lang in weights for lang in absent)
        table.caption = f"and {len(absent)} more: {admitted} admitted, {len(absent) - admitted} waiting"
    return table


def fitting(languages: Sequence[str], weights: PerLanguage, ready: PerLanguage, rows: int) -> list[str]:
    """The languages that get a row. If there are too many: those nearest to admission and those drawn most."""
    admitted = sorted((lang for lang in languages if lang in weights), key=lambda lang: -(weights[lang] or 0))
    waiting = sorted((lang for lang in languages if lang not in weights), key=lambda lang: -(ready.get(lang) or 0))
    near = waiting[: max(rows // 2, rows - len(admitted))]
    chosen = {*near, *admitted[: rows - len(near)]}
    return [lang for lang in languages if lang in chosen]


def _short(value: float | None) -> str:
    """Two digits after the point, and no zero before it."""
    return "-" if value is None else f"{value:.2f}".removeprefix("0") if 0 <= value < 1 else f"{value:.2f}"


def _error(value: float | None) -> str:
    """A standard error, where it is known."""
    return "" if value is None else f" ±{_short(value)}"


def duration(seconds: float) -> str:
    """A duration as text with at most two units, such as `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
