"""log.jsonl as a training writes it: one event per line, appended, and cut back to a known length on resume."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cclm.errors import TrainingError
from cclm.formats.log import Event


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
        """Ends writing."""
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
