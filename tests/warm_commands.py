"""`cclm` commands forked off a process that has loaded everything: each is a process of its own, but starts at once.

Most tests of the command line are about what a command does, not about how Python starts, which takes seconds here.
Tests of signals and of the environment start a new Python (`start` in `command` and in `off_path.cli`).
"""

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


def run_warm(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float
) -> tuple[int | None, str, str]:
    """Runs `cclm ARGUMENTS` in a folder; returns its exit code, None if it took too long, and what it printed."""
    command = WarmCommand(arguments, folder, environment)
    if command.wait(limit) is None:
        command.kill()
        return None, *command.printed()
    return command.returncode, *command.printed()


class WarmCommand:
    """A command under way, as the leader of a process group; others may run at the same time."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        *,
        own_fork_server: bool = False,
    ) -> None:
        """`own_fork_server` is that of `forked_commands.start`."""
        self.args, self.returncode = arguments, None
        self._output = Path(tempfile.mkdtemp(prefix="warm-"))
        request = {"arguments": arguments, "folder": str(folder), "output": str(self._output)}
        request["own_fork_server"] = own_fork_server
        self.pid: int = _ask({**request, "environment": dict(environment or {})})

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after that time."""
        if self.returncode is None:
            self.returncode: int | None = _ask({"wait": self.pid, "seconds": seconds})
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None if it still runs."""
        return self.wait(0)

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it with its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(60)

    def printed(self) -> tuple[str, str]:
        """What it has printed so far, on standard output and standard error."""
        paths = self._output / "stdout.txt", self._output / "stderr.txt"
        stdout, stderr = (path.read_text(encoding="utf-8", errors="replace") for path in paths)
        return stdout, stderr

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Waits for its end and returns what it printed, as `subprocess.Popen` does."""
        if self.wait(timeout) is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout)
        return self.printed()


def warm(*arguments: str, folder: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs `cclm ARGUMENTS` to its end, in a folder or here; fails if it takes longer than five minutes."""
    code, stdout, stderr = run_warm(arguments, folder or Path.cwd(), environment, limit=300)
    assert code is not None, f"cclm {' '.join(arguments)} still ran after 5 minutes\n{stdout}\n{stderr}"
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


def load_for_commands(*modules: str) -> None:
    """Imports modules that some commands need, for all commands that are started later."""
    _ask({"load": modules})


def _ask(request: Mapping[str, object]) -> Any:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@cache
def _server() -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(server.kill)
    return server


def _serve() -> None:
    """Starts commands and waits for them, as standard input asks for it."""
    from forked_commands import Started, left_over, load_everything, share_fork_server, start, wait

    load_everything()
    answers = os.fdopen(share_fork_server(), "w")
    started: dict[int, Started] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = wait(started[request["wait"]], request["seconds"])
            if answer is not None and len(started) == 1:
                left_over(0)  # takes the exit codes of processes that commands have left behind
            if answer is not None:
                del started[request["wait"]]
        elif "load" in request:
            answer = [importlib.import_module(name).__name__ for name in request["load"]]
            gc.freeze()
        else:
            place, output = Path(request["folder"]), Path(request["output"])
            options = {name: request[name] for name in ("environment", "own_fork_server")}
            process = start(request["arguments"], place, output, **options)
            started[process.pid] = process
            answer = process.pid
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
