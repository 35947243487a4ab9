"""The `cclm` command."""

from cclm.cli.main import cli, main

__all__ = ["cli", "main"]
