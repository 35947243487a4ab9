"""The `cclm` command. Signals are handled before anything large is imported."""

import sys

from cclm.signals import end_at_once


def main() -> None:
    """The `cclm` command. A signal that arrives while the rest is imported ends it at once: nothing has been done."""
    if _is_worker():
        return
    end_at_once()
    from cclm.cli.main import main as run

    run()


def _is_worker() -> bool:
    """Whether this is a process that a command has started: such a process runs the user's script again if that calls
    `main` without asking for `__name__`."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None
