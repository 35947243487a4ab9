"""log.jsonl as a training writes it, cut back to a known length on resume; its events for TensorBoard and Trackio."""

import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, BinaryIO

from cclm.errors import TrainingError
from cclm.formats.base import refuse_irregular
from cclm.formats.log import Event, Probe, Train, Validation, read_events, without_nan
from cclm.formats.run import LOG
from cclm.messages import Say


class LogWriter:
    """Appends events to a log; a resumed run continues to the same bytes as one that was never stopped.

    Without a path nothing is written: of several ranks only the first writes. Listeners get every event after it was
    written.
    """

    def __init__(self, path: Path | None, length: int = 0) -> None:
        self.listeners: list[Callable[[Event], object]] = []
        self._is_kept, self._path = path is not None, path or Path(os.devnull)
        with self._errors():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if path and path.exists():
                refuse_irregular(self._path)
            # Unbuffered: after a full disk, a buffer would be written again when the file is closed.
            self._file = self._path.open("ab", buffering=0)
            if path:
                self._cut_back(length)

    def write(self, event: Event) -> None:
        """Appends an event."""
        left = memoryview(event.line())
        with self._errors():
            while left:
                left = left[self._file.write(left) :]
        for listener in self.listeners:
            listener(event)

    def sync(self) -> int:
        """Waits until all events are on disk; returns the length of the log in bytes."""
        with self._errors():
            if self._is_kept:
                os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _cut_back(self, length: int) -> None:
        """Removes what was logged after the checkpoint. A log that lacks a part before it cannot be continued."""
        size = self._file.seek(0, os.SEEK_END)
        ends_with_event = length == 0 or (size >= length and _byte(self._path, length - 1) == b"\n")
        if not ends_with_event:
            raise TrainingError(
                f"{self._path}: {size:,} bytes, but the checkpoint continues a log of {length:,} bytes: the log was"
                " deleted, shortened or edited; restore it from a copy, or train the run again under another name"
            )
        self._file.truncate(length)
        self._file.seek(length)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TrainingError(
                f"{self._path}: {error.strerror or error}; the last checkpoint is intact, and the same command resumes"
            ) from None


def _byte(path: Path, place: int) -> bytes:
    with path.open("rb") as file:
        file.seek(place)
        return file.read(1)


class TensorBoard:
    """Writes RUN/tensorboard. An error is reported once and ends the curves, never the training.

    Every process that works on a run writes a file of its own. When a run is resumed, points of older files from that
    step on are void, and that step's events, which log.jsonl still has, are written again: no point is missing or
    drawn twice.
    """

    def __init__(self, run: Path, step: int, warn: Say) -> None:
        self._folder, self._warn = run / "tensorboard", warn
        self._file: BinaryIO | None = None
        with self._harmless():
            self._begin(run, step)

    def write(self, event: Event) -> None:
        """Adds the numbers of an event that was logged to the curves."""
        with self._harmless():
            if self._file and isinstance(event, Train | Probe | Validation):
                values = [{"tag": tag, "simple_value": number} for tag, number in scalars(event)]
                self._record(step=event.step, summary={"value": values})

    def close(self) -> None:
        """Closes the file of this process."""
        with self._harmless():
            if self._file:
                self._file.close()

    def _begin(self, run: Path, step: int) -> None:
        # Imported here, so that a missing package is noticed before anything is written.
        from tensorboard.compat.proto.event_pb2 import Event as Record  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        self._folder.mkdir(exist_ok=True)
        older = sorted(self._folder.glob("events.out.tfevents.*"))
        since = step if older else 0  # a run resumed with TensorBoard for the first time is drawn from its start
        number = int(older[-1].suffix[1:]) + 1 if older else 0
        self._file = (self._folder / f"events.out.tfevents.{number:06}").open("xb")
        self._new, self._records = Record, RecordWriter(self._file)
        self._record(file_version="brain.Event:2")
        self._record(step=since, session_log={"status": "START"})  # makes older points from this step on void
        for event in read_events(run / LOG):
            if event.step >= since:
                self.write(event)

    def _record(self, **content: Any) -> None:
        """Writes one record at once. TensorBoard's own writer would fail later, in a thread."""
        self._records.write(self._new(wall_time=time.time(), **content).SerializeToString())
        self._records.flush()

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except ImportError:
            self._warn("--tensorboard needs a package that is not here: pip install 'ccl-m[tensorboard]'; going on")
        except Exception as error:  # whatever it is: curves are not worth a training
            self._warn(f"{self._folder}: {getattr(error, 'strerror', None) or error}; the training goes on without it")
            if self._file:
                with suppress(OSError):
                    self._file.close()
            self._file = None


class Trackio:
    """Logs the events to Trackio, project `cclm`: on this machine, unless its own settings name another place.

    An error is reported once and ends it, never the training. A run that is resumed repeats the steps since its last
    checkpoint, with the same numbers.
    """

    def __init__(self, run: Path, warn: Say) -> None:
        self._warn = warn
        self._run: Any = None  # trackio.Run: the package may not be installed
        with self._harmless():
            import trackio

            name = run.resolve().name
            self._run = trackio.init("cclm", name, resume="allow", auto_log_gpu=False, auto_log_cpu=False)

    def write(self, event: Event) -> None:
        """Logs the numbers of an event that are finite."""
        with self._harmless():
            if self._run and isinstance(event, Train | Probe | Validation):
                self._run.log({tag: value for tag, value in scalars(event) if math.isfinite(value)}, step=event.step)

    def close(self) -> None:
        """Waits until everything is written."""
        with self._harmless():
            if self._run:
                import trackio

                # Not the run alone: the package would end it once more at exit, and print.
                trackio.finish()  # type: ignore[no-untyped-call]

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            with redirect_stdout(sys.stderr):  # standard output belongs to the command
                yield
        except ImportError:
            self._warn("--trackio needs a package that is not here: pip install 'ccl-m[trackio]'; going on")
        except Exception as error:  # whatever it is: curves are not worth a training
            self._warn(f"trackio: {error}; the training goes on without it")
            self._run = None


def scalars(event: Train | Probe | Validation) -> Iterator[tuple[str, float]]:
    """The numbers of an event: `event/fact`, or `event_fact/language` where there is one per language. None is NaN."""
    for fact, value in without_nan(event.model_dump(exclude={"event", "step"}, exclude_unset=True)).items():
        several = isinstance(value, dict)
        for name, number in value.items() if several else ((fact, value),):
            if number is None or isinstance(number, int | float):
                tag = f"{event.event}_{fact}/{name}" if several else f"{event.event}/{fact}"
                yield tag, math.nan if number is None else number
