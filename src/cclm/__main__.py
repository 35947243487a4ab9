"""`python -m cclm` is the `cclm` command."""

from cclm.cli import main

main()
