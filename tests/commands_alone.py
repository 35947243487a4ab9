"""Runs `cclm` commands one after another, each forked off this process: `python commands_alone.py COMMANDS.json`.

Prints a JSON list with the exit code and the output of each. This process imports nothing but what commands need, so
that it can stand for an installation without some packages.
"""

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

LIMIT = 60
"""Seconds after which a command is ended by SIGALRM."""


def run(arguments: list[str]) -> tuple[int, str]:
    """The exit code of a command, or minus the signal that ended it, and what it printed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        pid = os.fork()
        if not pid:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os._exit(_main(arguments))
        _, status = os.waitpid(pid, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read()


def _main(arguments: list[str]) -> int:
    import cclm.cli

    signal.alarm(LIMIT)
    sys.argv = ["cclm", *arguments]
    code: object = 0
    try:
        cclm.cli.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    for module in ("torch", "cclm.cli.entry", "cclm.recipe", "cclm.experiments.pipeline", "cclm.report.pages"):
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)  # once for all commands
    print(json.dumps([run(command) for command in json.loads(Path(sys.argv[1]).read_text())]))
