"""The `cclm` command. Signals are handled before anything large is imported."""

import atexit
import gc
import sys

from cclm.signals import end_at_once


def main() -> None:
    """The `cclm` command. A signal that arrives while the rest is imported ends it at once: nothing has been done."""
    if _is_worker():
        return
    end_at_once()
    atexit.register(gc.freeze)  # or Python would look for garbage among all modules before it ends: half a second
    from cclm.cli.entry import main as run

    run()


def _is_worker() -> bool:
    """Whether this is a multiprocessing child that is importing the user's script. A script that calls `main` without
    `if __name__ == "__main__":` would otherwise run again."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and getattr(processes.current_process(), "_inheriting", False)
