"""The entry point: every command, and what becomes of errors. Exit codes: 0 done, 1 failed, 2 wrong usage or settings,
128 + its number after a signal: 130 after SIGINT, 143 after SIGTERM."""

import io
import sys
import warnings
from typing import Any

import click

from cclm.atomic import name_write_errors
from cclm.cli import (  # noqa: F401 (they add themselves to the group)
    board_commands,
    recipe_commands,
    run_commands,
    standalone_commands,
)
from cclm.cli.group import cli
from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.signals import ignore_from_now_on, raise_at_once

EXTRAS = {
    "train": {"torch", "sentencepiece", "safetensors", "sacrebleu", "ctranslate2", "jinja2"},
    "board": {"starlette", "uvicorn"},
}
"""What each extra brings."""


def main() -> None:
    """The `cclm` command: errors that a user can mend are told in a line or two, without a traceback."""
    received = raise_at_once()
    _name_stdout()
    warnings.formatwarning = lambda message, *_, **__: f"cclm: warning: {message}\n"  # without our source line
    try:
        cli.main(prog_name="cclm", standalone_mode=False)
        if sys.stdout:  # None where it was closed
            sys.stdout.flush()  # here and not at exit, where an error could not be told
    except ConfigError as error:
        _end(str(error), 2)
    except (DataError, TrainingError) as error:
        _end(str(error), 1)
    except Interrupted as error:
        _end("interrupted; the same command goes on from here", 128 + error.number)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except OSError as error:
        _end(f"{error.filename}: {error.strerror or error}" if error.filename else str(error), 1)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
        if extra is None:
            raise
        _end(f"this command needs {package}: pip install 'ccl-m[{extra}]'", 1)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", 130)
    except Exception:
        if not received.number:
            raise
        _end("interrupted", 128 + received.number)  # a library has turned the interruption into an error of its own
    finally:
        if received.number:
            ignore_from_now_on()


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
