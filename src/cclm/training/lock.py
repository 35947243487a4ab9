"""One process owns a run directory.

On one machine the kernel decides: the owner holds a flock on RUN/lock, in whatever container it runs, until it dies.
Other machines may not see that lock, and readers never take it: for them the file says who owns the run, and its
modification time, renewed every 30 seconds, that the owner is alive. The file is empty while nobody owns the run.
"""

import os
import platform
import threading
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cclm.errors import DataError, TrainingError
from cclm.formats.run import LOCK, Owner

BEAT, DEAD = 30, 120
"""Seconds between two heartbeats of an owner, and seconds without one after which it counts as dead."""


class Lock:
    """Ownership of a run directory, for the time of a `with` block; TrainingError where another process has it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / LOCK
        self._lock = FileLock(self._path, blocking=False)
        self._over = threading.Event()

    def __enter__(self) -> "Lock":
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self._take()
        except Timeout:
            raise self._refused(_read(self._folder)) from None
        except OSError as error:
            self._lock.release()
            raise TrainingError(f"{self._path}: {error.strerror or error}") from None
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def _take(self) -> None:
        before = _read(self._folder)
        if before and _owns_elsewhere(before, self._path):
            self._lock.release()
            raise self._refused(before)
        self._path.write_text(_this_process().text(), encoding="utf-8")  # in place: the lock is on this very file

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):  # the folder may be gone: the lock goes with the process
            os.truncate(self._path, 0)
        self._lock.release()

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            try:
                os.utime(self._path)
            except OSError:
                return

    def _refused(self, owner: Owner | None) -> TrainingError:
        who = f"process {owner.pid} on {owner.host}" if owner else "another process"
        elsewhere = f"; if that is gone, wait {DEAD // 60} minutes" if owner and not _is_on_this_machine(owner) else ""
        return TrainingError(f"{self._folder} belongs to {who}: only one process may train it{elsewhere}")


def owner_of(folder: Path) -> Owner | None:
    """The process that owns the run directory, found without taking the lock; None where nobody does."""
    owner, path = _read(folder), folder / LOCK
    if owner is None:
        return None
    if not _is_on_this_machine(owner) or owner.namespace != _namespace():
        return owner if _is_fresh(path) else None
    started = _started(owner.pid)
    return owner if started is not None and started == owner.started else None


def _is_on_this_machine(owner: Owner) -> bool:
    """Whether the kernel of this machine knows if the process lives."""
    return owner.machine == _machine()


def _owns_elsewhere(owner: Owner, path: Path) -> bool:
    """Whether a process on a machine that does not share our locks still lives."""
    resumed = owner.job is not None and owner.job == _job()
    return not _is_on_this_machine(owner) and bool(owner.machine) and not resumed and _is_fresh(path)


def _read(folder: Path) -> Owner | None:
    try:
        return Owner.read(folder / LOCK)
    except DataError:
        return None


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < DEAD
    except OSError:
        return False


def _this_process() -> Owner:
    pid = os.getpid()
    return Owner(
        pid=pid,
        host=platform.node(),
        machine=_machine(),
        namespace=_namespace(),
        started=_started(pid) or "",
        job=_job(),
    )


def _machine() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return platform.node()  # not Linux


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process started; None if there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except OSError:
        pass
    if Path("/proc/self").exists():
        return None
    try:  # not Linux: that it exists must do
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""


def _job() -> str | None:
    return os.environ.get("SLURM_JOB_ID")
