"""The command `cclm` as its users run it: a process with a time limit, judged by its exit code and its messages."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from warm_commands import run_warm

LIMIT = 60.0
"""Seconds after which a command counts as hanging. Those in these tests take a few seconds."""
Started = subprocess.Popen[bytes]


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal that ended it, and what it printed."""

    code: int
    stdout: str
    stderr: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def start(
    *arguments: str | Path,
    folder: Path,
    before: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    prepare: Callable[[], object] | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
) -> Started:
    """Starts `cclm` in a folder as the leader of its own process group.

    `before` is a command that `cclm` is run by, and `prepare` is called in the new process before it.
    """
    return subprocess.Popen(
        [*before, sys.executable, "-m", "cclm", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(environment or {})},
        start_new_session=True,
        preexec_fn=prepare,
    )


def finish(process: Started, limit: float = LIMIT) -> Ended:
    """Waits for the end of a command; one that takes longer than the limit is killed and fails the test."""
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        stdout, stderr = process.communicate()
        text = str(Ended(process.returncode, _text(stdout), _text(stderr)))
        raise AssertionError(f"still running after {limit:.0f} s\n{text}") from None
    return Ended(process.returncode, _text(stdout), _text(stderr))


def cclm(*arguments: str | Path, folder: Path, limit: float = LIMIT, **options: Any) -> Ended:
    """Runs `cclm` from beginning to end; with options of `start`, in a new Python."""
    if options:
        return finish(start(*arguments, folder=folder, **options), limit)
    code, stdout, stderr = run_warm([str(argument) for argument in arguments], folder, {"COLUMNS": "200"}, limit)
    assert code is not None, f"still running after {limit:.0f} s\n{stdout}\n{stderr}"
    return Ended(code, stdout, stderr)


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")


@contextmanager
def running(*arguments: str | Path, folder: Path, **options: Any) -> Iterator[Started]:
    """A command that runs in the background, and is killed with its group at the end."""
    with start(*arguments, folder=folder, **options) as process:
        try:
            yield process
        finally:
            signal_group(process, signal.SIGKILL)
            process.communicate()


def signal_group(process: Started, number: int) -> None:
    """Sends a signal to the process group of a command, as a terminal does; it may have ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def signal_all(processes: Sequence[int], number: int) -> None:
    """Sends a signal to each of these processes; some may have ended."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for(condition: Callable[[], object], process: Started, limit: float = LIMIT) -> None:
    """Waits until something has happened; the command must be running until then."""
    deadline = time.monotonic() + limit
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"ended before it came to that: {finish(process)}")
        assert time.monotonic() < deadline, f"did not happen within {limit:.0f} s"
        time.sleep(0.002)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have started, the deepest last."""
    with suppress(OSError):
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [*children, *(deeper for child in children for deeper in descendants(child))]
    return []


def limited(which: int, amount: int) -> Callable[[], None]:
    """For `prepare`: a resource limit of the new process, as `ulimit` sets it."""
    return lambda: resource.setrlimit(which, (amount, amount))


def assert_done(ended: Ended) -> None:
    """The command succeeded, without a traceback on the way."""
    assert ended.code == 0, ended
    assert "Traceback" not in ended.stderr, ended


def assert_refused(ended: Ended, *named: str | Path, codes: Sequence[int] = (1, 2)) -> None:
    """The command ended with a message that names everything in `named`, and with no traceback."""
    assert "Traceback" not in ended.stderr, ended
    assert ended.code in codes, ended
    assert ended.stderr.strip(), ended
    for name in named:
        assert str(name) in ended.stderr, f"{str(name)!r} is not named\n{ended}"


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder with the checksum of its content."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def rewrite_manifest(checkpoint: Path) -> None:
    """Lets the manifest of a checkpoint agree with its files, as someone who edits them on purpose would."""
    manifest = read_json(checkpoint / "manifest.json")
    for name, facts in manifest["files"].items():
        content = (checkpoint / name).read_bytes()
        facts |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
