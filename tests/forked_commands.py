"""`cclm` commands that the soak programs start, watch and end: forked off this process, which has loaded torch."""

import atexit
import ctypes
import hashlib
import importlib
import os
import pkgutil
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from command import descendants

PR_SET_CHILD_SUBREAPER = 36
NEW_PYTHON = util.spawnv_passfds
FRAME = re.compile(r'^\s+File "([^"]+)", line \d+', re.MULTILINE)
START_UP = re.compile(r"<frozen |<string>|/lib(64)?/python3\.\d+/(?!site-packages)")
"""Files of Python's own: what it runs before a program has begun, and its fork server."""


@dataclass(frozen=True)
class Started:
    """A command under way."""

    pid: int
    stdout: Path
    stderr: Path


def load_everything() -> None:
    """Imports what commands need, once for all of them, and adopts the processes that killed commands leave behind.

    No command needs `cclm.integrations`, which would load the trainer of Transformers: three seconds.
    """
    import torch

    import cclm

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(cclm.__path__, "cclm."):
        if not module.name.startswith("cclm.integrations.") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("drawn_pools")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def share_fork_server() -> int:
    """Forks one fork server off this process, for the workers and trainings of all commands forked off here.

    Each command would start its own otherwise, which takes seconds. What the server's processes print goes to standard
    error. Returns a file descriptor of standard output, for the answers of this process.
    """
    import cclm.experiments.fork_server  # what a fork server loads

    answers = os.dup(1)
    os.dup2(2, 1)
    with patch.object(util, "spawnv_passfds", _fork_server):
        forkserver.ensure_running()
    # A command is not the parent of the server, and must not wait for it to see whether it is alive.
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]
    assert cclm.experiments.executor.PROCESSES.get_start_method() == "forkserver"
    return answers


def _fork_server(path: str, command: Sequence[str], passed: Sequence[int]) -> int:
    """Stands for a new Python that runs a fork server: a process that has loaded everything already."""
    if "forkserver" not in command[-1]:
        return NEW_PYTHON(path, command, passed)
    pid = os.fork()
    if pid:
        return pid
    try:
        for number in {int(name) for name in os.listdir("/proc/self/fd")} - {0, 1, 2, *passed}:
            with suppress(OSError):
                os.close(number)
        forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # as in a new Python
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exec(command[-1])  # `python -c` would run it
    finally:
        os._exit(0)


def _forget_fork_server() -> None:
    """Lets this process fork a fork server of its own off when it needs one, and start a resource tracker."""
    del forkserver._forkserver.ensure_running  # type: ignore[attr-defined]
    forkserver._forkserver.__init__()  # type: ignore[attr-defined]
    resource_tracker._resource_tracker.__init__()  # type: ignore[attr-defined]
    util.spawnv_passfds = _fork_server  # type: ignore[assignment]


def start(
    arguments: Sequence[str],
    folder: Path,
    output: Path,
    *,
    cold: bool = False,
    environment: Mapping[str, str] | None = None,
    gigabytes: int | None = None,
    own_fork_server: bool = False,
) -> Started:
    """Starts `cclm ARGUMENTS` in a folder, as the leader of a group of its own.

    Where it is `cold`, a new Python is started for it, as a shell does; otherwise it is forked off this process.
    `gigabytes` limits its address space. With `own_fork_server`, its trainings and workers are not those of a shared
    fork server, but of one in its group that ends with it, as those of a new Python are.
    """
    output.mkdir(parents=True, exist_ok=True)
    started = output / "stdout.txt", output / "stderr.txt"
    pid = os.fork()
    if pid:
        with suppress(OSError):
            os.setpgid(pid, pid)  # here too: a kill of the group may come before the child has done so
        return Started(pid, *started)
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(started, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
        os.environ.update({"OMP_NUM_THREADS": "1", **(environment or {})})
        if gigabytes:
            resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
        if own_fork_server:
            _forget_fork_server()
        if cold:
            os.execv(sys.executable, [sys.executable, "-m", "cclm", *arguments])
        code = _main(arguments)
    finally:
        os._exit(code)


def _main(arguments: Sequence[str]) -> int:
    """`cclm` in this process, to the exit code that Python would end with."""
    import cclm.cli

    sys.argv = ["cclm", *arguments]
    sys.modules["__main__"] = ModuleType("__main__")  # or its worker processes would import the soak program
    code: object = 0
    try:
        cclm.cli.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def wait(process: Started, seconds: float) -> int | None:
    """The exit code of a command, or minus the signal that ended it; None if it still runs after that time."""
    deadline = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(min(0.005, max(0.0005, deadline - time.monotonic())))


def end_all(process: Started) -> None:
    """Kills a command and everything that it has started."""
    for pid in [process.pid, *descendants(os.getpid())]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, 0)
    left_over(5)


def left_over(seconds: float) -> list[int]:
    """The processes that commands have left behind and that still run after that time."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        alive = descendants(os.getpid())
        if not alive or time.monotonic() >= deadline:
            return alive
        time.sleep(0.01)


def tracebacks(stderr: str) -> list[str]:
    """The tracebacks in what a command printed.

    Those of Python alone do not count: of its fork server, whose parent was killed, and of a signal that came before
    `python -m cclm` had got to our code.
    """
    found = [f"Traceback{block}" for block in stderr.split("Traceback")[1:]]
    return [text for text in found if not (frames := FRAME.findall(text)) or not all(map(START_UP.search, frames))]


def listing(folder: Path, leave_out: Sequence[Path] = ()) -> dict[str, str]:
    """Everything below a folder, except for some folders in it: of each path its kind, permissions and content."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(place, name) not in leave_out]
        for name in (*folders, *files):
            path = Path(place, name)
            found[str(path.relative_to(folder))] = f"{path.lstat().st_mode:o} {_content(path)}"
    return found


def _content(path: Path) -> str:
    if path.is_symlink():
        return os.readlink(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The paths of which there is another one, or none, or a new one."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
