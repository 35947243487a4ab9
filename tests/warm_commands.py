"""`cclm` commands forked off a process that has loaded everything: each is a process of its own, but starts at once.

Most tests of the command line are about what a command does, not about how Python starts, which takes seconds here.
Tests of signals and of the environment start a new Python (`start` in `command` and in `off_path.cli`).
"""

import atexit
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

sys.path.insert(0, str(Path(__file__).parent))


def run_warm(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], limit: float
) -> tuple[int | None, str, str]:
    """Runs `cclm ARGUMENTS` in a folder; returns its exit code, None if it took too long, and what it printed."""
    server, output = _server(), Path(tempfile.mkdtemp(prefix="warm-"))
    assert server.stdin is not None
    assert server.stdout is not None
    request = {"arguments": arguments, "folder": str(folder), "output": str(output), "limit": limit}
    server.stdin.write(json.dumps({**request, "environment": dict(environment)}) + "\n")
    server.stdin.flush()
    code: int | None = json.loads(server.stdout.readline())
    printed = [(output / f"{name}.txt").read_text(encoding="utf-8", errors="replace") for name in ("stdout", "stderr")]
    return code, printed[0], printed[1]


@cache
def _server() -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(server.kill)
    return server


def _serve() -> None:
    """Runs commands one after another, as standard input asks for them."""
    from forked_commands import left_over, load_everything, share_fork_server, start, wait

    load_everything()
    answers = os.fdopen(share_fork_server(), "w")
    for line in sys.stdin:
        request = json.loads(line)
        process = start(
            request["arguments"],
            Path(request["folder"]),
            Path(request["output"]),
            environment=request["environment"],
        )
        code = wait(process, request["limit"])
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        left_over(0)  # takes the exit codes of processes that commands have left behind
        print(json.dumps(code), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
