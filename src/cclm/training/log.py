"""Logs that continue to the same bytes when a run is resumed, and the differences between two settings."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Log:
    """Lines of JSON, appended; cut back to a known length when a run goes on.

    Without a path nothing is kept: of several ranks one writes.
    """

    def __init__(self, path: Path | None, length: int = 0) -> None:
        self.listeners: list[Callable[[str, int, dict[str, Any]], object]] = []
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._kept = path is not None
        self._file = (path or Path(os.devnull)).open("ab")
        if path:
            self._file.truncate(length)
            self._file.seek(length)

    def write(self, event: str, step: int, **facts: Any) -> None:
        """A line: what happened at which step."""
        facts = _without_nan(facts)
        line = json.dumps({"event": event, "step": step, **facts}, ensure_ascii=False, allow_nan=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        for listener in self.listeners:
            listener(event, step, facts)

    def sync(self) -> int:
        """Sees to it that all is on disk, and gives the bytes so far."""
        if self._kept:
            os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Ends writing."""
        self._file.close()


def _without_nan(value: Any) -> Any:
    """The value with null for every number that JSON has no word for."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """The settings that differ, each as `key: before -> now`."""
    found: list[str] = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name}: {old!r} -> {new!r}")
    return found
