"""One process owns a run directory.

On one machine the kernel decides: the owner holds a flock on RUN/lock, in whatever container it runs, until it dies.
Other machines may not see that lock, and readers never take it: for them the file says who owns the run, and its
modification time, renewed every 30 seconds, that the owner is alive. The file is empty while nobody owns the run.

Entries of the cache, studies, sweeps and translations have an owner in the same way, while they are made.
"""

import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cclm.errors import DataError, TrainingError
from cclm.formats.run import LOCK, Owner

BEAT, DEAD = 30, 120
"""Seconds between two heartbeats of an owner, and seconds without one after which it counts as dead."""
PATIENCE = 0.5
"""Seconds between two tries to get a lock that another process holds."""
Say = Callable[[str], object]


def announce(line: str) -> None:
    """Prints a line for people on standard error."""
    print(line, file=sys.stderr, flush=True)


class Lock:
    """Ownership of a folder, for the time of a `with` block.

    Where another process has it, this one waits until that has ended, and says so with `wait`; without `wait`, a
    TrainingError is raised. `file` is a lock file at another place, which is removed in the end.
    """

    def __init__(self, folder: Path, *, file: Path | None = None, wait: Say | None = None) -> None:
        self._folder, self._path = folder, file or folder / LOCK
        self._is_removed, self._wait = file is not None, wait
        self._lock = FileLock(self._path, blocking=False)
        self._over = threading.Event()

    def __enter__(self) -> "Lock":
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._take():
                self._wait_for_it()
        except OSError as error:
            self._lock.release()
            raise TrainingError(f"{error.filename or self._path}: {error.strerror or error}") from None
        threading.Thread(target=self._beat, daemon=True).start()
        return self

    def _take(self) -> bool:
        """Whether this process owns the folder now."""
        try:
            self._lock.acquire()
        except Timeout:
            return False
        before = _read(self._path)
        if before and _owns_elsewhere(before, self._path):
            self._lock.release()
            return False
        self._path.write_text(_this_process().text(), encoding="utf-8")  # in place: the lock is on this very file
        return True

    def _wait_for_it(self) -> None:
        owner = _read(self._path)
        if self._wait is None:
            raise self._refused(owner)
        self._wait(f"waiting for {name_of(owner)}, which works on {self._folder}")
        while not self._take():
            time.sleep(PATIENCE)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):  # the folder may be gone: the lock goes with the process
            if self._is_removed:
                self._path.unlink()  # whoever waits notices that its lock is of a file that is gone
            else:
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


def name_of(owner: Owner | None) -> str:
    """An owner as people are told of it."""
    return f"{owner.pid}@{owner.host}" if owner else "another process"


def owner_of(folder: Path) -> Owner | None:
    """The process that owns the run directory, found without taking the lock; None where nobody does."""
    path = folder / LOCK
    owner = _read(path)
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


def _read(path: Path) -> Owner | None:
    try:
        return Owner.read(path)
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
