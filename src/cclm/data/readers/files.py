"""Reads lines from plain, gzip and zstd files. The compression is detected from the first bytes, not the name."""

import gzip
import importlib
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np

from cclm.errors import DataError

CHUNK = 3_000
"""Lines, or pairs of sentences, that a worker process gets at a time."""
MAX_LINE = 10_000_000
BLOCK = 1 << 18
# A few bytes of zstd may decompress to 128 KiB. Reading little at a time keeps memory use under 20 MB.
_ZSTD_READ = 512

OnBadUtf8 = Literal["error", "drop"]
INVALID = "invalid UTF-8"
"""Why a line is dropped."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UNREADABLE = {b"BZh91AY&SY": "bzip2", b"\xfd7zXZ\x00": "xz", b"PK\x03\x04": "zip"}
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file, not decoded yet: that takes time, and is left to worker processes."""

    path: Path
    data: bytes
    count: int
    first: int
    """The number of the first line, from 1."""
    offset: int
    """Where they start in the decompressed text, in bytes."""
    on_bad_utf8: OnBadUtf8

    def decoded(self) -> Sequence[str | None]:
        """Each line, without line feed and a carriage return before it.

        With `on_bad_utf8` "drop", lines that are not UTF-8 are None, so that parallel files stay aligned.
        """
        try:
            return _split(self.data.decode())
        except UnicodeDecodeError:
            return self._decoded_one_by_one()

    def numbered(self, drops: Counter[str]) -> Iterator[tuple[int, str]]:
        """(line number, line) for every line. Those that are not UTF-8 are counted in `drops`, if not refused."""
        for number, line in enumerate(self.decoded(), start=self.first):
            if line is None:
                drops[INVALID] += 1
            else:
                yield number, line

    def _decoded_one_by_one(self) -> list[str | None]:
        lines: list[str | None] = []
        offset = self.offset
        for line in self.data.removesuffix(b"\n").split(b"\n"):
            try:
                lines.append(line.removesuffix(b"\r").decode())
            except UnicodeDecodeError as error:
                if self.on_bad_utf8 == "error":
                    raise DataError(
                        f"{self.path}, line {self.first + len(lines)}: not UTF-8: byte 0x{line[error.start]:02x} "
                        f"at offset {error.start} of the line, {offset + error.start} of the text; "
                        "convert the file with iconv, or set on_bad_utf8 to drop"
                    ) from None
                lines.append(None)
            offset += len(line) + 1
        return lines


def open_text(
    path: Path, on_bad_utf8: OnBadUtf8 = "error", drops: Counter[str] | None = None
) -> Iterator[tuple[int, str]]:
    """(line number from 1, line) for every line of a file, as `Lines.numbered` gives them."""
    for lines in chunks_of_lines(path, on_bad_utf8):
        yield from lines.numbered(Counter() if drops is None else drops)


def decoded_lines(path: Path, on_bad_utf8: OnBadUtf8) -> Iterator[str | None]:
    """Every line of a file, as `Lines.decoded` gives them."""
    for lines in chunks_of_lines(path, on_bad_utf8):
        yield from lines.decoded()


def chunks_of_lines(path: Path, on_bad_utf8: OnBadUtf8) -> Iterator[Lines]:
    """The lines of a file, `CHUNK` at a time; fewer in the end."""
    waiting: list[bytes] = []
    count, first, start = 0, 1, 0
    for offset, block in _blocks_of_lines(path):
        if not waiting:
            start = offset
        lines = block.count(b"\n") or 1  # the last line may have no line feed
        while count + lines >= CHUNK:
            end = _end_of_line(block, CHUNK - count) if count + lines > CHUNK else len(block)
            data = b"".join([*waiting, block[:end]])
            yield Lines(path, data, CHUNK, first, start, on_bad_utf8)
            waiting, block, lines = [], block[end:], lines - (CHUNK - count)
            count, first, start = 0, first + CHUNK, start + len(data)
        if block:
            waiting.append(block)
            count += lines
    if waiting:
        yield Lines(path, b"".join(waiting), count, first, start, on_bad_utf8)


def _end_of_line(block: bytes, number: int) -> int:
    """Where the line of this number, from 1, ends in a block."""
    return int(np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))[number - 1]) + 1


def _split(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    if "\r" in text:
        return [line.removesuffix("\r") for line in lines]
    return lines


def _blocks_of_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Blocks of complete lines, each with its offset in the decompressed file."""
    offset, number, rest = 0, 1, b""
    for position, block in enumerate(blocks(path)):
        if position == 0:
            _refuse_utf16(path, block)
            offset = len(_BOM) if block.startswith(_BOM) else 0
            block = block[offset:]
        end = block.rfind(b"\n") + 1
        first = block.find(b"\n") if end else len(block)
        if len(rest) + first > MAX_LINE:
            raise DataError(
                f"{path}, line {number}: longer than {MAX_LINE:,} bytes; is this text with one sentence per line?"
            )
        if not end:
            rest += block
            continue
        lines, rest = rest + block[:end], block[end:]
        yield offset, lines
        offset += len(lines)
        number += lines.count(b"\n")
    if rest:
        yield offset, rest


def _refuse_utf16(path: Path, start: bytes) -> None:
    if start.startswith(_UTF16):
        mark = start[:2].hex(" ")
        raise DataError(f"{path}: UTF-16 (it starts with {mark}), not UTF-8; convert it: iconv -f UTF-16 -t UTF-8")


def blocks(path: Path) -> Iterator[bytes]:
    """The decompressed bytes, block by block. DataError if the file is corrupt or truncated."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
            file.seek(0)
            yield from _decompressed(path, file, start)
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise DataError(f"{path}: invalid gzip data, or other data after it: {error}") from None
        raise DataError(f"{path}: {error.strerror or error}") from None
    except EOFError:
        raise DataError(f"{path}: the gzip file is truncated; download or write it again") from None
    except zlib.error as error:
        raise DataError(f"{path}: invalid gzip data: {error}") from None


def _decompressed(path: Path, file: BinaryIO, start: bytes) -> Iterator[bytes]:
    for magic, name in _UNREADABLE.items():
        if start.startswith(magic):
            raise DataError(f"{path}: {name}-compressed; only plain text, gzip and zstd are supported")
    if start.startswith(_ZSTD):
        return _regrouped(_zstd(path, file))
    if start.startswith(_GZIP):
        file = cast(BinaryIO, gzip.GzipFile(fileobj=file))
    return iter(lambda: file.read(BLOCK), b"")


def _regrouped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of BLOCK bytes; the last one may be shorter."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= BLOCK:
            joined = b"".join(waiting)
            complete = size - size % BLOCK
            yield from (joined[start : start + BLOCK] for start in range(0, complete, BLOCK))
            waiting, size = [joined[complete:]], size - complete
    if size:
        yield b"".join(waiting)


def _zstd(path: Path, file: BinaryIO) -> Generator[bytes, None, None]:
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        raise DataError(f"{path}: zstd-compressed, which needs zstandard: pip install 'ccl-m[zstd]'") from None
    # zstandard's own stream reader would not detect a truncated file.
    decompressor, frame, data = zstandard.ZstdDecompressor(), None, b""
    while data := data or file.read(_ZSTD_READ):
        frame = frame or decompressor.decompressobj()
        try:
            yield frame.decompress(data)
        except zstandard.ZstdError as error:
            raise DataError(f"{path}: invalid zstd data, or other data after it: {error}") from None
        data = frame.unused_data if frame.eof else b""
        frame = None if frame.eof else frame
    if frame is not None:
        raise DataError(f"{path}: the zstd file is truncated; download or write it again")
