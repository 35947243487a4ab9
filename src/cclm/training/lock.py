"""One process owns a run directory.

The owner holds a flock on RUN/lock, which also works across containers. The kernel releases it when the process ends.
Other machines may not see the flock, and readers never take it. They read the owner from the file. Its modification
time, updated every 30 seconds, shows that the owner is alive. The file is empty if nobody owns the run.

A process on another machine may own the run as soon as that time has not changed for two minutes: the machine has
failed, or was cut off. An owner that was only cut off, or suspended, finds the other one in the file before it writes
anything more, and stops.

Cache entries, studies, sweeps and translations are locked in the same way while they are made.
"""

import os
import platform
import threading
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cclm.errors import ConfigError, DataError, TrainingError
from cclm.formats.run import LOCK, Owner
from cclm.messages import Say, announce

DEAD_AFTER_SECONDS = 120.0
"""Seconds without a heartbeat after which an owner counts as dead; CCLM_LOCK_TIMEOUT in the environment changes it.
There are four heartbeats in that time."""
RETRY_SECONDS = 0.5
"""Seconds between two tries to get a lock that another process holds."""


class Lock:
    """Ownership of a folder, for the time of a `with` block.

    If another process owns the folder, calls `wait` with a message and waits until it is released. Without `wait`,
    waits only as long as it is unknown whether an owner on another machine is alive, and then raises TrainingError.
    `file` is a lock file at another path, which is removed on release.
    """

    def __init__(self, folder: Path, *, file: Path | None = None, wait: Say | None = None) -> None:
        self._folder, self._path = folder, file or folder / LOCK
        self._is_removed, self._wait = file is not None, wait
        self._lock = FileLock(self._path, blocking=False)
        self._over = threading.Event()
        self._dead, self._this, self._last_beat = DEAD_AFTER_SECONDS, _this_process(), 0.0
        self._place: tuple[int, int] | None = None
        self._watched: tuple[float, float] | None = None  # the last heartbeat of another owner, and when it was noticed

    def __enter__(self) -> "Lock":
        self._dead = dead_after()
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
        if before and _is_elsewhere(before) and not self._is_silent():
            self._lock.release()
            return False
        self._this, self._place = _this_process(), _identity(self._folder)
        self._path.write_text(self._this.text(), encoding="utf-8")  # in place: the lock is on this very file
        self._last_beat = time.time()
        return True

    def _is_silent(self) -> bool:
        """Whether the other owner counts as dead: by the clock, or, if the clocks differ, because nothing changes."""
        beat, now = self._changed(), time.monotonic()
        if beat is None:
            return False  # it has just ended: the file that is locked here is not the next one's
        if self._watched is None or self._watched[0] != beat:
            self._watched = (beat, now)
        return time.time() - beat >= self._dead or now - self._watched[1] >= self._dead

    def _wait_for_it(self) -> None:
        owner = _read(self._path)
        if self._wait is None and not (owner and _is_elsewhere(owner)):
            raise self._refused(owner)
        said = self._wait or announce
        said(f"waiting for {name_of(owner)}, which works on {self._folder}" + ("" if self._wait else ", or has died"))
        first = self._changed()
        while not self._take():
            if self._wait is None and self._changed() not in (None, first):
                raise self._refused(owner)
            time.sleep(RETRY_SECONDS)

    def _changed(self) -> float | None:
        """When the file was changed last; None if its owner has removed it."""
        try:
            return self._path.stat().st_mtime
        except FileNotFoundError:
            return None

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):  # the folder may be gone: the lock goes with the process
            if self._is_lost():
                pass  # the file belongs to another owner
            elif self._is_removed:
                self._path.unlink()  # a waiting process notices that the file it locked was deleted
            else:
                os.truncate(self._path, 0)
        self._lock.release()

    def check(self) -> None:
        """Raises TrainingError if another process has taken the folder over. Called before anything is written.

        Also if somebody has deleted or moved the folder: a part of a run would appear in its place.
        """
        if self._place and _identity(self._folder) not in (None, self._place):
            raise TrainingError(
                f"{self._folder} was deleted, moved or replaced while this process worked on it;"
                " nothing more is written here"
            )
        if time.time() - self._last_beat < self._dead / 2:
            return  # nobody counts this process as dead
        if self._is_lost():
            raise TrainingError(
                f"{self._folder} was taken over by {name_of(_read(self._path))}, because this process gave no sign of"
                f" life for {self._dead:.0f} seconds; nothing more is written here"
            )
        self._give_sign()

    def _is_lost(self) -> bool:
        owner = _read(self._path)
        return owner is not None and owner != self._this

    def _give_sign(self) -> None:
        os.utime(self._path)
        self._last_beat = time.time()

    def _beat(self) -> None:
        while not self._over.wait(self._dead / 4):
            try:
                if self._is_lost():
                    self._last_beat = 0.0  # makes `check` read the owner from the file
                    return
                self._give_sign()
            except OSError:
                return

    def _refused(self, owner: Owner | None) -> TrainingError:
        who = f"process {owner.pid} on {owner.host}" if owner else "another process"
        return TrainingError(f"{self._folder} belongs to {who}: only one process may train it")


def _identity(folder: Path) -> tuple[int, int] | None:
    """What distinguishes a folder from another one that has its name later; (0, 0) if there is none, None if that is
    unknown, as on a disk that does not answer."""
    try:
        found = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    except OSError:
        return None
    return found.st_dev, found.st_ino


def dead_after() -> float:
    """Seconds without a heartbeat after which an owner on another machine counts as dead."""
    text = os.environ.get("CCLM_LOCK_TIMEOUT", str(DEAD_AFTER_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"environment variable CCLM_LOCK_TIMEOUT is {text!r}: a number of seconds, or not set")
    return seconds


def name_of(owner: Owner | None) -> str:
    """The owner in messages: `PID@HOST`, or `another process` if it is unknown."""
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


def _is_elsewhere(owner: Owner) -> bool:
    """Whether the owner is on another machine, whose flock may not be visible here."""
    return bool(owner.machine) and not _is_on_this_machine(owner)


def _read(path: Path) -> Owner | None:
    try:
        return Owner.read(path)
    except DataError:
        return None


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < dead_after()
    except OSError:
        return False


def _this_process() -> Owner:
    pid = os.getpid()
    return Owner(
        pid=pid,
        host=_host() or platform.node(),
        machine=_machine(),
        namespace=_namespace(),
        started=_started(pid) or "",
        job=os.environ.get("SLURM_JOB_ID"),
    )


def _host() -> str | None:
    """CCLM_HOST, a name to use instead of this machine's: several nodes of a cluster can be on one machine."""
    return os.environ.get("CCLM_HOST")


def _machine() -> str:
    if host := _host():
        return host
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
    try:  # not Linux: only check that the process exists
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return ""
