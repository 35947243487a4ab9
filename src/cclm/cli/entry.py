"""The entry point: runs a command and turns errors into a message and an exit code: 0 success, 1 failure, 2 wrong usage
or settings, 128 + N after signal N (130 for SIGINT, 143 for SIGTERM)."""

import codecs
import io
import os
import sys
import warnings
from contextlib import suppress
from typing import Any, TextIO

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
from cclm.errors import ConfigError, DataError, Interrupted, TrainingError, explain_os_error
from cclm.signals import Ended, Received, end_at_once, end_now, ignore_from_now_on, raise_at_once

EXTRAS = {
    "train": {"torch", "sentencepiece", "safetensors", "sacrebleu", "ctranslate2", "jinja2"},
    "board": {"starlette", "uvicorn", "jinja2", "markupsafe", "sentencepiece"},
    "serve": {"starlette", "uvicorn", "jinja2", "markupsafe", "sentencepiece", "ctranslate2"},
    "slurm": {"submitit"},
}
"""What each extra brings. That of the command's own name is the one to install, then the first that has a package."""


def main() -> None:
    """The `cclm` command: errors that a user can fix are printed in a line or two, without a traceback."""
    received = raise_at_once()
    try:
        _main(received)
    except Ended:  # a signal while the command was ending
        end_now(received.number)


def _main(received: Received) -> None:
    _open_closed_streams()
    _replace_streams()
    if os.environ.get("COLUMNS") == "0":  # a terminal of unknown width, in which tables would have none
        del os.environ["COLUMNS"]
    warnings.formatwarning = lambda message, *_, **__: f"cclm: warning: {message}\n"  # without our source line
    try:
        _refuse_deleted_folder()
        cli.main(prog_name="cclm", standalone_mode=False)
        if sys.stdout:  # None where it was closed
            sys.stdout.flush()  # here and not at exit, where an error could not be reported
    except Interrupted as error:
        _end("interrupted; run the same command to continue", 128 + error.number)
    except (Exception, KeyboardInterrupt) as error:
        if received.number:  # a library may have turned the interruption into an error of its own
            _end("interrupted", 128 + received.number)
        if isinstance(error, click.ClickException):
            error.show()
            sys.exit(2)
        known = _message_and_code(error)
        if known is None:
            raise
        _end(*known)
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


def _message_and_code(error: BaseException) -> tuple[str, int] | None:
    """The message and the exit code of an error that a user can fix; None for a bug in cclm."""
    match error:
        case MemoryError():
            return "out of memory", 1
        case ImportError() if "failed to map segment" in str(error) or "cannot allocate memory" in str(error):
            return f"out of memory while a package was loaded: {error}", 1
        case ConfigError():
            return str(error), 2
        case DataError() | TrainingError():
            return str(error), 1
        case OSError():
            return explain_os_error(error), 1
        case ModuleNotFoundError() if extra := _extra_of(error.name):
            return f"this command needs {(error.name or '').partition('.')[0]}: pip install 'ccl-m[{extra}]'", 1
        case KeyboardInterrupt() | click.Abort():
            return "interrupted", 130
    return None


def _extra_of(module: str | None) -> str | None:
    """The extra that brings a module for this command, if it is one of ours."""
    package = (module or "").partition(".")[0]
    having = [extra for extra, packages in EXTRAS.items() if package in packages]
    own = [extra for extra in having if extra in sys.argv[1:2]]
    return next(iter(own + having), None)


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


class _Stderr(io.FileIO):
    """Standard error that discards what it cannot write: a full disk or a gone reader must not end a training, nor
    change the exit code of an error whose message is lost."""

    def write(self, data: Any) -> int:  # bytes, or what can be read as such
        """Writes, or discards."""
        try:
            written = super().write(data)
        except OSError:
            return len(data)
        return len(data) if written is None else written  # None: it would block


def _replace_streams() -> None:
    """Replaces sys.stdout and sys.stderr by the same streams with the classes above below them, unless something else
    has replaced them."""
    if (old := sys.__stdout__) and sys.stdout is old:
        sys.stdout = _text_stream(_Stdout(old.fileno(), "w", closefd=False), old)
    if (old := sys.__stderr__) and sys.stderr is old:
        sys.stderr = _text_stream(_Stderr(old.fileno(), "w", closefd=False), old, line_buffering=True)


def _text_stream(raw: io.FileIO, old: TextIO, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """A stream of text with the encoding of an old one, which need not have all characters of languages and paths."""
    codecs.register_error("cclm", _escaped)
    errors = "cclm" if old.errors == "strict" else old.errors
    return io.TextIOWrapper(io.BufferedWriter(raw), old.encoding, errors, line_buffering=line_buffering or raw.isatty())


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """Bytes of a path that are not UTF-8 as they are, so that a shell finds the path; other characters as \\uXXXX."""
    for handler in ("surrogateescape", "backslashreplace"):
        with suppress(UnicodeError):
            return codecs.lookup_error(handler)(error)
    raise error


if __name__ == "__main__":
    main()
