"""A run directory: who owns it, what stands in its files, and logs that continue to the same bytes."""

import json
import math
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from cclm.training.errors import TrainingError


class Lock:
    """One process owns a run directory; a lock of a process that is gone counts for nothing."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"

    def __enter__(self) -> "Lock":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        mine = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        try:
            with self._path.open("x", encoding="utf-8") as file:
                file.write(mine)
        except FileExistsError:
            self._take_over(mine)
        return self

    def _take_over(self, mine: str) -> None:
        owner = owner_of(self._path.parent)
        if owner is not None and owner.pid != os.getpid():
            raise TrainingError(
                f"{self._path.parent} belongs to process {owner.pid} on {owner.host};"
                f" if that is gone, delete {self._path}"
            )
        self._path.write_text(mine, encoding="utf-8")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Owner:
    """The process that has locked a run directory."""

    pid: int
    host: str


def owner_of(folder: Path) -> Owner | None:
    """Who owns the run directory; None where there is no lock, or only that of a process that is gone."""
    try:
        owner = Owner(**json.loads((folder / "lock").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return owner if owner.host != socket.gethostname() or is_alive(owner.pid) else None


def is_alive(pid: int) -> bool:
    """Whether there is such a process on this machine. One that has ended and only waits to be noticed is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
