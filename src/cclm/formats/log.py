"""log.jsonl: the events of a training run, one per line. Without times, so that equal runs have equal logs.

    {"event": "probe", "step": 100, "dev_loss": {"aze": 7.1, ...}, ...}

Each kind of event has a class for reading and writing. Losses are in bits per target token; null if not finite.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, TypeAdapter, ValidationError

from cclm.errors import DataError
from cclm.formats.base import explain, parse_json, read_regular, refuse_irregular

PerLanguage = dict[str, float | None]
ADVICE = "restore the file from a copy, or train the run again under another name"


class _Event(BaseModel):
    """The fields of all events. Keys that this version does not know are preserved."""

    model_config = ConfigDict(frozen=True, extra="allow")
    event: str
    step: Annotated[StrictInt, Field(ge=0)]

    def line(self) -> bytes:
        """The event as a line of the file."""
        content = self.model_dump(mode="json", exclude_unset=True)
        ordered = {"event": self.event, "step": self.step, **content}
        return json.dumps(without_nan(ordered), ensure_ascii=False, allow_nan=False).encode() + b"\n"


class Train(_Event):
    """A summary of the steps since the last train event."""

    event: Literal["train"] = "train"
    loss: float | None = None
    nll: float | None = None
    learning_rate: float | None = None
    draws: dict[str, int] = {}
    tokens: dict[str, int] = {}
    skipped: int = 0


class Probe(_Event):
    """A round of the curriculum: measurements on dev samples, and the decisions made from them."""

    event: Literal["probe"] = "probe"
    dev_loss: PerLanguage = {}
    dev_loss_se: PerLanguage = {}
    """The standard error of each dev loss. Only the bounded probe measures it."""
    competence: PerLanguage = {}
    competence_se: PerLanguage = {}
    hrls_competence: PerLanguage = {}
    weights: PerLanguage = {}
    admitted: list[str] = []


class Admitted(_Event):
    """The admission of a language, with the reason."""

    event: Literal["admitted"] = "admitted"
    language: str
    reason: str = ""
    hrls_competence: float | None = None
    threshold: float | None = None
    vouched: PerLanguage | None = None


class Phase(_Event):
    """The beginning of the second phase: all remaining languages were admitted."""

    event: Literal["phase"] = "phase"
    phase: int = 2
    admitted: list[str] = []


class Decay(_Event):
    """The learning rate begins to fall to zero, which it reaches after the last step."""

    event: Literal["decay"] = "decay"
    until: int
    reason: str = ""


class Worst(BaseModel):
    """The language with the highest dev loss."""

    language: str
    loss: float | None


class Validation(_Event):
    """The losses on the complete dev sets, and their summaries."""

    event: Literal["validation"] = "validation"
    dev_loss: PerLanguage = {}
    nll: PerLanguage = {}
    weighted: float | None = None
    macro: float | None = None
    worst: Worst | None = None
    bleu: PerLanguage = {}
    mean_bleu: float | None = None


class Saved(_Event):
    """A checkpoint was written."""

    event: Literal["saved"] = "saved"


class Stopped(_Event):
    """The end of training."""

    event: Literal["stopped"] = "stopped"
    reason: str = ""
    best: int | None = None
    note: str | None = None


class Other(_Event):
    """An event of a kind that this version does not know."""


Event = Train | Probe | Admitted | Phase | Decay | Validation | Saved | Stopped | Other
SomeEvent = TypeVar("SomeEvent", bound=_Event)
_KINDS: dict[str, TypeAdapter[Any]] = {
    kind.model_fields["event"].default: TypeAdapter(kind)
    for kind in (Train, Probe, Admitted, Phase, Decay, Validation, Saved, Stopped)
}
_OTHER: TypeAdapter[Any] = TypeAdapter(Other)


def event_of(content: object, source: str) -> Event:
    """The event of a parsed line."""
    kind = content.get("event") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        raise DataError(f"{source}: not an event: every line must be an object with 'event' and 'step'; {ADVICE}")
    try:
        event: Event = _KINDS.get(kind, _OTHER).validate_python(content)
    except ValidationError as error:
        raise DataError(f"{source}: {kind} event: {explain(error.errors()[0])}; {ADVICE}") from None
    return event


class Log:
    """The events of a run."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)

    @classmethod
    def read(cls, path: Path) -> "Log":
        """Reads a log file. An incomplete last line, left by a killed process, is ignored."""
        return cls(read_events(path))

    def of(self, kind: type[SomeEvent]) -> list[SomeEvent]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def stopped(self) -> Stopped | None:
        """The last stop event. A run that was extended has several."""
        return next(reversed(self.of(Stopped)), None)

    def validation_at(self, step: int | None) -> Validation | None:
        """The validation at a step."""
        return next((event for event in self.of(Validation) if event.step == step), None)

    @property
    def best(self) -> Validation | None:
        """The validation of the checkpoint that was selected when the training ended."""
        return self.validation_at(self.stopped.best) if self.stopped else None

    @property
    def admissions(self) -> dict[str, int]:
        """The step of admission of each language that was not admitted from the start."""
        return {event.language: event.step for event in self.of(Admitted)}

    @property
    def tokens(self) -> int:
        """The number of target tokens in all train events."""
        return sum(sum(event.tokens.values()) for event in self.of(Train))


def read_events(path: Path) -> Iterator[Event]:
    """The events in a file. An incomplete last line is ignored."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    last = max((number for number, line in enumerate(lines, 1) if line.strip()), default=0)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        source = f"{path} line {number}"
        try:
            content = parse_json(line, source, ADVICE)
        except DataError:
            if number == last:  # incomplete
                return
            raise
        yield event_of(content, source)


def events_backwards(path: Path) -> Iterator[Event]:
    """The events in a file, the last one first; a last line that is still being written is skipped.

    The file is read in blocks from its end, so that the last events of a long log cost little.
    """
    for line in _lines_backwards(path):
        if line.strip():
            yield event_of(parse_json(line, str(path), ADVICE), str(path))


def _lines_backwards(path: Path, block: int = 1 << 16) -> Iterator[bytes]:
    """The complete lines of a file, the last one first."""
    refuse_irregular(path)
    with path.open("rb") as file:
        left, rest = file.seek(0, os.SEEK_END), b""
        is_torn = True  # what follows the last newline
        while left > 0:
            size = min(block, left)
            left = file.seek(left - size)
            first, *lines = (file.read(size) + rest).split(b"\n")
            for line in reversed(lines):
                if not is_torn:
                    yield line
                is_torn = False
            rest = first
        if not is_torn:
            yield rest


def without_nan(value: Any) -> Any:  # any JSON value
    """Replaces NaN and infinity, which JSON lacks, by None."""
    if isinstance(value, Mapping):
        return {name: without_nan(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


LONGEST_LINE = 1 << 26
"""Bytes; what is longer is no line of ours, and a reader waits in vain for its end."""


class FileTail:
    """Follows a file that grows by lines. What was read is forgotten when the file turns out to be another one.

    A run that is resumed cuts its log back and repeats it to the byte; with `--force`, or if its folder was replaced,
    the log continues differently. A few bytes before the place that was reached tell the cases apart.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._before = path, 0, b""

    def new(self, most: int = 1 << 22) -> tuple[bool, list[bytes]]:
        """Whether all earlier lines are void, and the complete lines since then, of `most` bytes at most.

        A line that is still being written is left for the next call, and so is a file that cannot be read now.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._read - len(self._before))
                is_same = file.read(len(self._before)) == self._before
                if not is_same:
                    self._read = file.seek(0)
                new = file.read(most)
                while b"\n" not in new and len(new) < LONGEST_LINE and (more := file.read(most)):
                    new += more
        except OSError:
            return False, []
        complete = new[: new.rfind(b"\n") + 1]
        self._read += len(complete)
        self._before = complete[-64:] or (self._before if is_same else b"")
        return not is_same, complete.split(b"\n")[:-1]


class LogTail:
    """Follows a log while it is written. A resumed run truncates its log and then writes the same bytes again."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def new(self) -> Iterator[Event]:
        """The events since the last call. An incomplete last line is left for the next call.

        Lines that are no events are passed over: the training that the log is of ends with an error about them.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return
        complete = new[: new.rfind(b"\n") + 1]
        self._read += len(complete)
        for line in complete.split(b"\n")[:-1]:
            with suppress(DataError):
                yield event_of(parse_json(line, str(self._path), ADVICE), str(self._path))
