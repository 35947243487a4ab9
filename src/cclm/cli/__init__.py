"""The `cclm` command. Signals are handled before anything large is imported."""

from cclm.signals import end_at_once


def main() -> None:
    """The `cclm` command. A signal that arrives while the rest is imported ends it at once: nothing has been done."""
    end_at_once()
    from cclm.cli.main import main as run

    run()
