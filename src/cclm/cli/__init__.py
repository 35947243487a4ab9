"""The `cclm` command."""

from cclm.cli.group import cli
from cclm.cli.main import main

__all__ = ["cli", "main"]
