"""The log of a training as curves in TensorBoard: fed the same events as log.jsonl, and it decides nothing."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

MEASURED = ("train", "probe", "validation")
"""The events whose numbers are drawn."""


class TensorBoard:
    """Writes RUN/tensorboard; what goes wrong is told once and ends the drawing, never the training.

    Every session has a file of its own. What stands in older ones from the step on that the training goes on from is
    void, and that step's events, which log.jsonl has kept, are written again: nothing is drawn twice, nothing lost.
    """

    def __init__(self, run: Path, step: int, warn: Callable[[str], object]) -> None:
        self._folder, self._warn = run / "tensorboard", warn
        self._file: BinaryIO | None = None
        with self._harmless():
            self._begin(run, step)

    def follow(self, event: str, step: int, facts: Mapping[str, Any]) -> None:
        """Draws what has just been logged."""
        with self._harmless():
            if self._file and event in MEASURED:
                values = [{"tag": tag, "simple_value": number} for tag, number in scalars(event, facts)]
                self._record(step=step, summary={"value": values})

    def close(self) -> None:
        """Ends the file."""
        with self._harmless():
            if self._file:
                self._file.close()

    def _begin(self, run: Path, step: int) -> None:
        # Here, so that a package that is missing is noticed before anything is written.
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        self._folder.mkdir(exist_ok=True)
        older = sorted(self._folder.glob("events.out.tfevents.*"))
        since = step if older else 0  # a run that goes on with TensorBoard for the first time is drawn from its start
        number = int(older[-1].suffix[1:]) + 1 if older else 0
        self._file = (self._folder / f"events.out.tfevents.{number:06}").open("xb")
        self._event, self._records = Event, RecordWriter(self._file)
        self._record(file_version="brain.Event:2")
        self._record(step=since, session_log={"status": "START"})  # voids what is older
        with (run / "log.jsonl").open("rb") as lines:
            for facts in map(json.loads, lines):
                if facts["step"] >= since:
                    self.follow(facts.pop("event"), facts.pop("step"), facts)

    def _record(self, **content: Any) -> None:
        """One record, on disk when this returns. TensorBoard's own writer would fail later, in a thread."""
        self._records.write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._records.flush()

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except ImportError:
            self._warn("--tensorboard needs a package that is not here: pip install 'ccl-m[tensorboard]'; going on")
        except Exception as error:  # whatever it is, a picture is not worth a training
            self._warn(f"{self._folder}: {getattr(error, 'strerror', None) or error}; the training goes on without it")
            if self._file:
                with suppress(OSError):
                    self._file.close()
            self._file = None


def scalars(event: str, facts: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of an event: `event/fact`, or `event_fact/language` where there is one a language. Null is NaN."""
    for fact, value in facts.items():
        several = isinstance(value, dict)
        for name, number in value.items() if several else ((fact, value),):
            if number is None or isinstance(number, int | float):
                yield f"{event}_{fact}/{name}" if several else f"{event}/{fact}", math.nan if number is None else number
