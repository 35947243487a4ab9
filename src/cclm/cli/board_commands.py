"""`cclm board`, and the board that `cclm train --board` starts beside a training."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from cclm.cli.group import cli


@cli.command(short_help="Show runs in a browser, live while they train.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(1, 65535), help="Default: the first free one from 8600 on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--token", help="Ask for this token; beyond this machine there is always one.")
@click.option("--open/--no-open", "opens", default=True, help="Open the page in a browser (default: yes).")
@click.option("--beside", is_flag=True, hidden=True, help="Start before DIR exists; end when standard input ends.")
def board(folder: Path, port: int | None, host: str, token: str | None, opens: bool, beside: bool) -> None:
    """Shows the runs below DIR in a browser, live while they train and as well afterwards.

    DIR is a run, a work folder, a study, a sweep, or any folder above them; the board only reads. Of a run it shows the
    language graph filling in, every curve, every language, what happened and how long it will take; of many, their
    states, any of them in one chart, and the scores of studies.

    \b
      cclm board work/phrasebook
      cclm train phrasebook --board
    """
    if not folder.is_dir() and not beside:
        raise click.UsageError(f"{folder}: no such folder; give a run, a work folder, or a folder above")
    import asyncio

    from cclm.report.board import serve
    from cclm.web.access import access_to
    from cclm.web.server import address, listen

    access, listening = access_to(host, token), listen(host, port)
    url = address(listening, access)
    click.echo(f"the board of {folder} is at {url}", err=beside)
    if opens and sys.stderr.isatty():
        import webbrowser

        webbrowser.open(url)

    async def ended() -> None:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)

    serve(folder, listening, access, ended=ended if beside else None)


@contextmanager
def board_beside(work: Path, *, wanted: bool) -> Iterator[None]:
    """Shows the work folder while something is trained in it, in a process that cannot disturb the training.

    The board ends with the training: a pipe tells it, even if the training is killed.
    """
    if not wanted or os.environ.get("RANK", "0") != "0":
        yield
        return
    command = [sys.executable, "-m", "cclm", "board", str(work), "--beside"]
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, close_fds=True
        )
    except OSError as error:
        click.echo(f"cclm: the board could not be started: {error.strerror}; going on without it", err=True)
        yield
        return
    try:
        yield
    finally:
        if child.stdin:
            child.stdin.close()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        click.echo(f"cclm: `cclm board {work}` shows the board again", err=True)
