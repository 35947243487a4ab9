"""The entry point: runs a command and turns errors into a message and an exit code: 0 success, 1 failure, 2 wrong usage
or settings, 128 + N after signal N (130 for SIGINT, 143 for SIGTERM)."""

import io
import os
import sys
import warnings
from typing import Any

import click

from cclm.atomic import name_write_errors
from cclm.cli import (  # noqa: F401 (they add themselves to the group)
    board_commands,
    recipe_commands,
    run_commands,
    serve_commands,
    standalone_commands,
)
from cclm.cli.group import cli
from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.signals import Ended, Received, end_at_once, end_now, ignore_from_now_on, raise_at_once

EXTRAS = {
    "train": {"torch", "sentencepiece", "safetensors", "sacrebleu", "ctranslate2", "jinja2"},
    "board": {"starlette", "uvicorn"},
    "slurm": {"submitit"},
}
"""What each extra brings."""


def main() -> None:
    """The `cclm` command: errors that a user can mend are told in a line or two, without a traceback."""
    received = raise_at_once()
    try:
        _main(received)
    except Ended:  # a signal while the command was ending
        end_now(received.number)


def _main(received: Received) -> None:
    _open_closed_streams()
    _name_stdout()
    warnings.formatwarning = lambda message, *_, **__: f"cclm: warning: {message}\n"  # without our source line
    try:
        _refuse_deleted_folder()
        cli.main(prog_name="cclm", standalone_mode=False)
        if sys.stdout:  # None where it was closed
            sys.stdout.flush()  # here and not at exit, where an error could not be told
    except Interrupted as error:
        _end("interrupted; the same command goes on from here", 128 + error.number)
    except (Exception, KeyboardInterrupt) as error:
        if received.number:  # a library may have turned the interruption into an error of its own
            _end("interrupted", 128 + received.number)
        if isinstance(error, click.ClickException):
            error.show()
            sys.exit(2)
        told = _told(error)
        if told is None:
            raise
        _end(*told)
    finally:
        ignore_from_now_on() if received.number else end_at_once()


def _open_closed_streams() -> None:
    """Opens /dev/null where standard input, output or error was closed: another file would get its number otherwise."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(number, True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (for the whole process)


def _refuse_deleted_folder() -> None:
    """Refuses a current folder that was deleted: libraries end the process without a word of ours."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError("the current folder was deleted; change to another one") from None


def _told(error: BaseException) -> tuple[str, int] | None:
    """The message and the exit code of an error that a user can fix; None for a bug in cclm."""
    match error:
        case ConfigError():
            return str(error), 2
        case DataError() | TrainingError():
            return str(error), 1
        case OSError():
            return (f"{error.filename}: {error.strerror or error}" if error.filename else str(error)), 1
        case ModuleNotFoundError() if extra := _extra_of(error.name):
            return f"this command needs {(error.name or '').partition('.')[0]}: pip install 'ccl-m[{extra}]'", 1
        case KeyboardInterrupt() | click.Abort():
            return "interrupted", 130
    return None


def _extra_of(module: str | None) -> str | None:
    """The extra that brings a module, if it is one of ours."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, packages in EXTRAS.items() if package in packages), None)


def _end(message: str, code: int) -> None:
    click.echo(f"cclm: {message}", err=True)
    sys.exit(code)


class _Stdout(io.FileIO):
    """Standard output, whose errors say so: those of a full disk come without a name."""

    failed = False

    def write(self, data: Any) -> int:  # bytes, or what can be read as such
        """Writes, or discards what comes after an error: Python writes the rest of its buffer at exit."""
        if self.failed:
            return len(data)
        try:
            with name_write_errors("standard output"):
                return super().write(data)
        except OSError:
            self.failed = True
            raise


def _name_stdout() -> None:
    """Replaces sys.stdout by the same stream with `_Stdout` below it, unless something else has replaced it."""
    old = sys.__stdout__
    if old is None or sys.stdout is not old:
        return
    raw = _Stdout(old.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), old.encoding, old.errors, line_buffering=raw.isatty(), write_through=False
    )


if __name__ == "__main__":
    main()
