"""The `cclm` command. Signals are handled before anything large is imported."""

import sys

from cclm.signals import end_at_once


def main() -> None:
    """The `cclm` command. A signal that arrives while the rest is imported ends it at once: nothing has been done."""
    if _is_worker():
        return
    end_at_once()
    from cclm.cli.entry import main as run

    run()


def _is_worker() -> bool:
    """Whether this is a process that a command has started, and multiprocessing imports the user's script in it: a
    script that calls `main` without asking for `__name__` would run again."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and getattr(processes.current_process(), "_inheriting", False)
