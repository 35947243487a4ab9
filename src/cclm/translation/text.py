"""`cclm translate RUN --source LANGUAGE`: lines of text in, lines of text out."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from cclm.atomic import user_output
from cclm.data.readers.files import MAX_LINE
from cclm.errors import DataError
from cclm.progress_bar import Progress, shown
from cclm.translation.load import Quantization, load


def translate_text(
    run: Path,
    source: str | None,
    target: str | None,
    *,
    given: Path | None = None,
    out: Path | None = None,
    quantization: Quantization = "float32",
    threads: int | None = None,
) -> None:
    """Translates line by line, from standard input to standard output where no file is given; empty lines stay."""
    model = load(run, quantization=quantization, threads=threads)
    pair = model.pair(source, target)
    name = str(given or "standard input")
    try:
        with _reading(given) as lines, _writing(out) as file, _bar(given, out) as progress:
            found = model.stream(
                _decoded(lines, name), pair, what=f"{name}, line", progress=lambda n: progress("translating", n)
            )
            for text in found:
                file.write(text.encode() + b"\n")
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # whoever read our output has left
            raise
        raise DataError(f"{error.filename or out or name}: {error.strerror or error}") from None


def _reading(path: Path | None) -> AbstractContextManager[BinaryIO]:
    return path.open("rb") if path else nullcontext(sys.stdin.buffer)


@contextmanager
def _writing(path: Path | None) -> Iterator[BinaryIO]:
    if path:
        with user_output(path) as file:
            yield file
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def _bar(given: Path | None, out: Path | None) -> AbstractContextManager[Progress]:
    """A bar on a terminal, unless the translations go there; its end is known where a file is read."""
    if not sys.stderr.isatty() or (out is None and sys.stdout.isatty()):
        return nullcontext(lambda stage, lines: None)
    if given is None or not given.is_file():
        return shown()
    with given.open("rb") as file:
        return shown({"translating": sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))})


def _decoded(lines: BinaryIO, name: str) -> Iterator[str]:
    """The lines as text; only a line feed ends one."""
    number = 0
    while line := lines.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise DataError(f"{name}, line {number}: longer than {MAX_LINE:,} bytes; is this text, a sentence a line?")
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise DataError(f"{name}, line {number}: not UTF-8: {byte}; convert it with iconv") from None
