"""What people see while it trains, and timing.jsonl: all that has a clock in it, and decides nothing."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from cclm.training.progress import Progress
from cclm.training.table import language_table


class Telling:
    """A live table on a terminal, plain lines elsewhere. What goes wrong here never stops a training.

    `told` is what the curriculum explains at the start, `batches` how many each language has, `threshold` that of a
    gate that has one.
    """

    def __init__(
        self,
        name: str,
        progress: Progress,
        told: dict[str, Any],
        *,
        max_steps: int,
        batches: Mapping[str, int],
        threshold: float | None,
        timing: Path | None,
        aloud: bool = True,
    ) -> None:
        self._name, self._progress, self._told = name, progress, told
        self._max_steps, self._batches, self._threshold = max_steps, batches, threshold
        self._console = Console(stderr=True)
        self._aloud = aloud
        self._live = Live(console=self._console, auto_refresh=False) if aloud and sys.stderr.isatty() else None
        self._timing = timing.open("ab", buffering=0) if timing else None
        self._start = self._last = time.monotonic()
        self._first_step = progress.step
        self._counted = sum(progress.shown.get("tokens", {}).values())  # by an earlier process, since its last line
        self._spent: dict[str, float] = {"probe": 0.0, "reward": 0.0, "validation": 0.0}
        self._line = f"step {progress.step:,}/{max_steps:,}"

    def __enter__(self) -> "Telling":
        if self._live:
            self._live.start()
            self._redraw()
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

    def trained(self, step: int, facts: dict[str, Any]) -> None:
        """Some steps more."""
        now = time.monotonic()
        tokens = sum(facts["tokens"].values()) - self._counted
        rate = tokens / max(now - self._last, 1e-9)
        self._last, self._counted = now, 0
        self._line = (
            f"step {step:,}/{self._max_steps:,}  loss {facts['loss']:.3f}  lr {facts['learning_rate']:.1e}"
            f"  {rate:,.0f} tokens/s  {self._left(step, now)}"
        )
        self._time("train", step, tokens_per_second=rate)
        if self._live:
            self._redraw()
        else:
            self._event(f"{self._name}  {self._line}")

    def probed(self, step: int, told: dict[str, Any], progress: Progress) -> None:
        """A round of the curriculum."""
        self._told, self._progress = told, progress
        self._time("probe", step)
        self._redraw()

    def admitted(self, step: int, lang: str, reason: str) -> None:
        """A language has joined."""
        self._event(f"step {step:,}: {lang} admitted: {reason}", style="bold green")

    def validated(self, step: int, facts: dict[str, Any]) -> None:
        """The whole dev sets were looked at."""
        self._time("validation", step)
        worst, bleu = facts["worst"], f", BLEU {facts['mean_bleu']:.1f}" if "mean_bleu" in facts else ""
        self._event(
            f"step {step:,}: dev loss weighted {facts['weighted']:.3f}, macro {facts['macro']:.3f},"
            f" worst {worst['language']} {worst['loss']:.3f}{bleu}"
        )

    def stopped(self, step: int, facts: dict[str, Any]) -> None:
        """The end."""
        note = f" ({facts['note']})" if "note" in facts else ""
        self._event(f"step {step:,}: stopped, {facts['reason']}; the best checkpoint is step {facts['best']}{note}")
        self._line = f"step {step:,}/{self._max_steps:,}  {facts['reason']}"
        self._redraw()

    def say(self, text: str) -> None:
        """Something worth a line of its own."""
        self._event(text)

    def _time(self, event: str, step: int, **facts: Any) -> None:
        seconds = round(time.monotonic() - self._start, 3)
        spent = {f"{name}_seconds": round(value, 3) for name, value in self._spent.items()}
        line = json.dumps({"event": event, "step": step, "seconds": seconds, **spent, **facts})
        if self._timing:
            try:
                self._timing.write(line.encode() + b"\n")
            except OSError as error:
                self._timing.close()
                self._timing = None
                self._event(f"timing.jsonl: {error.strerror}; times are no longer kept")

    def _left(self, step: int, now: float) -> str:
        """How long the rest takes, if it goes on as it has since this process began."""
        steps = step - self._first_step
        return f"{duration((self._max_steps - step) * (now - self._start) / steps)} left" if steps else "time unknown"

    def _redraw(self) -> None:
        with self._harmless():
            if self._live:
                counters = self._progress.counters
                passes = {lang: counters.get(lang, 0) / count for lang, count in self._batches.items()}
                height = self._console.height
                table = language_table(self._told, passes, threshold=self._threshold, height=height)
                self._live.update(Group(Text(self._line, style="bold"), table), refresh=True)

    def _event(self, line: str, style: str = "") -> None:
        with self._harmless():
            if self._live:
                self._live.console.print(Text(line, style=style))
            elif self._aloud:
                print(line, file=sys.stderr, flush=True)

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """A terminal that is gone is told nothing more."""
        try:
            yield
        except OSError:
            self._aloud, self._live = False, None


def duration(seconds: float) -> str:
    """A time as people say it: its two largest units at most."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"
