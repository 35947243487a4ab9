"""What people see while it trains, and timing.jsonl: all that has a clock in it, and decides nothing."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cclm.training.progress import Progress


class Telling:
    """A live table on a terminal, plain lines elsewhere. What goes wrong here never stops a training."""

    def __init__(
        self,
        name: str,
        *,
        max_steps: int,
        sizes: dict[str, int],
        batches: dict[str, int],
        timing: Path | None,
        aloud: bool = True,
    ) -> None:
        self._name, self._max_steps, self._sizes, self._batches = name, max_steps, sizes, batches
        self._console = Console(stderr=True)
        self._aloud = aloud
        self._live = Live(console=self._console, refresh_per_second=4) if aloud and sys.stderr.isatty() else None
        self._timing = timing.open("a", encoding="utf-8") if timing else None
        self._start = self._last = time.monotonic()
        self._spent: dict[str, float] = {"probe": 0.0, "validation": 0.0}
        self._first_step: int | None = None
        self._line, self._told, self._progress = "", {}, Progress()  # type: tuple[str, dict[str, Any], Progress]

    def __enter__(self) -> "Telling":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._time("end", 0)
        if self._live:
            self._live.stop()
        if self._timing:
            self._timing.close()

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Counts the seconds of a probe or a validation."""
        start = time.monotonic()
        yield
        self._spent[what] += time.monotonic() - start

    def trained(self, step: int, facts: dict[str, Any]) -> None:
        """Some steps more."""
        now = time.monotonic()
        tokens = sum(facts["tokens"].values())
        rate = tokens / (now - self._last)
        self._first_step = self._first_step if self._first_step is not None else step
        left = (self._max_steps - step) * (now - self._last) / 50
        self._last = now
        self._line = (
            f"{self._name}  step {step:,}/{self._max_steps:,}  loss {facts['loss']:.3f}"
            f"  lr {facts['learning_rate']:.1e}  {rate:,.0f} tokens/s  {left / 60:.1f} min left"
        )
        self._time("train", step, tokens_per_second=rate)
        self._say(self._line)

    def probed(self, step: int, told: dict[str, Any], progress: Progress) -> None:
        """A round of the curriculum."""
        self._told, self._progress = told, progress
        self._time("probe", step)
        if self._live:
            self._live.update(self._view())

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

    def say(self, text: str) -> None:
        """Something worth a line of its own."""
        self._event(text)

    def _time(self, event: str, step: int, **facts: Any) -> None:
        if self._timing:
            seconds = round(time.monotonic() - self._start, 3)
            spent = {f"{name}_seconds": round(value, 3) for name, value in self._spent.items()}
            self._timing.write(json.dumps({"event": event, "step": step, "seconds": seconds, **spent, **facts}) + "\n")
            self._timing.flush()

    def _say(self, line: str) -> None:
        if self._live:
            self._live.update(self._view())
        elif self._aloud:
            print(line, file=sys.stderr, flush=True)

    def _event(self, line: str, style: str = "") -> None:
        if self._live:
            self._live.console.print(Text(line, style=style))
        elif self._aloud:
            print(line, file=sys.stderr, flush=True)

    def _view(self) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for head in ("", "", "competence", "HRLs-evaluated", "share", "passes", "dev loss"):
            table.add_column(head, justify="right" if head else "left")
        for lang in self._sizes if self._told else ():
            table.add_row(*self._row(lang), style="" if lang in self._told["weights"] else "dim")
        return Group(Text(self._line, style="bold"), table)

    def _row(self, lang: str) -> list[str]:
        told = self._told
        ready, competence = told["hrls_competence"].get(lang), told["competence"].get(lang)
        passes = self._progress.counters.get(lang, 0) / self._batches[lang]
        return [
            lang,
            "admitted" if lang in told["weights"] else "waiting",
            "-" if competence is None else f"{competence:.2f}",
            "" if ready is None else f"{ready:.2f}",
            f"{told['weights'].get(lang, 0):.0%}",
            f"{passes:.1f}",
            f"{told['dev_loss'].get(lang, 0):.2f}",
        ]
