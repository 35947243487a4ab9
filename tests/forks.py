"""`cclm` commands as processes of their own, forked from one that has imported everything: no start-up to wait for."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = """
import json, os, sys
import cclm.cli, cclm.experiments.pipeline, cclm.training.session
import torch
from cclm.model.random import dropout
sys.path.insert(0, sys.argv[1])
from forked_commands import share_fork_server
dropout(torch.ones(1), 0.2)  # draws the pool of that rate
answers = os.fdopen(share_fork_server(), "w")
for line in sys.stdin:
    wanted = json.loads(line)
    child = os.fork()
    if child == 0:
        for number in (1, 2):
            os.dup2(os.open(wanted["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        os.environ.update(wanted["environment"])
        sys.argv = ["cclm", *wanted["arguments"]]
        code = 0
        try:
            cclm.cli.main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, file=answers, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
"""


@dataclass(frozen=True)
class Finished:
    """How a command ended: its exit code, or minus the signal that ended it; what it printed."""

    code: int
    output: str


class Forks:
    """Runs one command at a time; `start` gives its process id, `finish` waits for its end."""

    def __init__(self, folder: Path) -> None:
        self._output, self._count = folder, 0
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", SERVER, str(Path(__file__).parent)]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, *arguments: str, **environment: str) -> Finished:
        """A command from beginning to end."""
        self.start(*arguments, **environment)
        return self.finish()

    def start(self, *arguments: str, **environment: str) -> int:
        """Begins a command."""
        self._count += 1
        self._path.touch()
        self._ask({"arguments": arguments, "environment": environment, "output": str(self._path)})
        return int(self._answer())

    def finish(self) -> Finished:
        """Waits for the end of the command that was started last."""
        code = int(self._answer())
        return Finished(code, self._path.read_text(encoding="utf-8"))

    def close(self) -> None:
        """Ends the process that they are forked from."""
        self._server.communicate()

    @property
    def _path(self) -> Path:
        return self._output / f"{self._count}.txt"

    def _ask(self, wanted: dict[str, Any]) -> None:
        assert self._server.stdin
        self._server.stdin.write(json.dumps(wanted) + "\n")
        self._server.stdin.flush()

    def _answer(self) -> str:
        assert self._server.stdout
        return self._server.stdout.readline()


def send(pid: int, number: int) -> None:
    """A signal to a command, which may just have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
