"""Lines for people, on standard error: results go to standard output."""

import sys
from collections.abc import Callable

Say = Callable[[str], object]
"""Shows a line to the user."""


def announce(line: str) -> None:
    """Prints a line on standard error."""
    print(line, file=sys.stderr, flush=True)
