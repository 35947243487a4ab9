"""log.jsonl as a training writes it: one event per line, appended, and cut back to a known length on resume."""

import os
from collections.abc import Callable
from pathlib import Path

from cclm.formats.log import Event


class LogWriter:
    """Appends events to a log; a resumed run continues to the same bytes as one that was never stopped.

    Without a path nothing is written: of several ranks only the first writes. Listeners get every event after it was
    written.
    """

    def __init__(self, path: Path | None, length: int = 0) -> None:
        self.listeners: list[Callable[[Event], object]] = []
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._is_kept = path is not None
        self._file = (path or Path(os.devnull)).open("ab")
        if path:
            self._file.truncate(length)
            self._file.seek(length)

    def write(self, event: Event) -> None:
        """Appends an event."""
        self._file.write(event.line())
        self._file.flush()
        for listener in self.listeners:
            listener(event)

    def sync(self) -> int:
        """Waits until all events are on disk; returns the length of the log in bytes."""
        if self._is_kept:
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Ends writing."""
        self._file.close()
