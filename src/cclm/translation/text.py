"""`cclm translate RUN --source LANGUAGE`: translates a file or standard input, one sentence per line."""

import os
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, TextIO

from cclm.atomic import is_replaced, name_write_errors, user_output
from cclm.data.readers.files import MAX_LINE
from cclm.errors import ConfigError, DataError
from cclm.progress_bar import Progress, shown
from cclm.translation.model import Quantization, load

STDOUT = "standard output"


def translate_text(
    run: Path,
    source: str | None,
    target: str | None,
    *,
    given: Path | None = None,
    out: Path | None = None,
    quantization: Quantization | None = None,
    threads: int | None = None,
) -> None:
    """Translates line by line, by default from standard input to standard output. Empty lines stay empty."""
    _refuse_same_file(given, out)
    model = load(run, quantization=quantization, threads=threads)
    pair = model.pair(source, target)
    if pair.zero_shot:
        warnings.warn(
            f"{pair.source}-{pair.target} is zero-shot: the model was trained on both languages, but not on this pair",
            stacklevel=2,
        )
    name = str(given or "standard input")
    try:
        with _input(given) as lines, _output(out) as file, _progress_bar(given, out) as progress:
            translations = model.stream(
                _decoded(lines, name), pair, what=f"{name}, line", progress=lambda n: progress("translating", n)
            )
            for text in translations:
                file.write(text.encode() + b"\n")
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone
            raise
        raise DataError(f"{error.filename or out or STDOUT}: {error.strerror or error}") from None


def _refuse_same_file(given: Path | None, out: Path | None) -> None:
    """Raises ConfigError if the text would be overwritten while it is read."""
    if out and is_replaced(out):
        return
    files = [_file_of(given, sys.stdin), _file_of(out, sys.stdout)]
    if None not in files and files[0] == files[1]:
        raise ConfigError(f"{out or STDOUT}: is the file that is read, and cannot be replaced; choose another --output")


def _file_of(path: Path | None, stream: TextIO | None) -> tuple[int, int] | None:
    """What identifies a regular file; None if it is none, or does not exist yet."""
    try:
        found = path.stat() if path else os.fstat(stream.fileno()) if stream else None
    except (OSError, ValueError):  # a stream may be closed, or no file
        return None
    return (found.st_dev, found.st_ino) if found and stat.S_ISREG(found.st_mode) else None


def _input(path: Path | None) -> AbstractContextManager[BinaryIO]:
    if path:
        return path.open("rb")
    if sys.stdin is None:
        raise DataError("standard input is closed; give the text with --input")
    return nullcontext(sys.stdin.buffer)


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    if path:
        with user_output(path) as file:
            yield file
    elif sys.stdout is None:
        raise DataError(f"{STDOUT} is closed; give a file with --output")
    else:
        with name_write_errors(STDOUT):
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()


def _progress_bar(given: Path | None, out: Path | None) -> AbstractContextManager[Progress]:
    """Progress, unless the translations go to the terminal; its total is known if a file is read."""
    if out is None and (not sys.stdout or sys.stdout.isatty()):
        return nullcontext(lambda stage, lines: None)
    if given is None or not given.is_file():
        return shown()
    with given.open("rb") as file:
        return shown({"translating": sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))})


def _decoded(lines: BinaryIO, name: str) -> Iterator[str]:
    """The lines as text. Only \\n ends a line."""
    number = 0
    while line := _read_line(lines, name):
        number += 1
        if len(line) > MAX_LINE:
            raise DataError(
                f"{name}, line {number}: longer than {MAX_LINE:,} bytes; is this text, one sentence per line?"
            )
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise DataError(f"{name}, line {number}: not UTF-8: {byte}; convert it with iconv") from None


def _read_line(lines: BinaryIO, name: str) -> bytes:
    try:
        return lines.readline(MAX_LINE + 1)
    except OSError as error:  # a directory, a disk that cannot be read
        raise DataError(f"{name}: {error.strerror or error}") from None
