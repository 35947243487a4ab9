"""The base classes of all formats: versioned JSON, with errors that name file, field, value and a remedy."""

import errno
import hashlib
import json
import stat
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from cclm.atomic import write_if_changed
from cclm.errors import DataError

VERSION = 1


class Part(BaseModel):
    """A part of a file. Unknown keys are ignored, because a later version may add some."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")

    def plain(self) -> dict[str, Any]:  # any JSON object
        """The part as JSON values, without fields that were not set."""
        return self.model_dump(mode="json", exclude_unset=True)


class JsonFile(Part):
    """A JSON file. `advice` tells the user what to do if it is damaged, such as "run `cclm study` again"."""

    advice: ClassVar[str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a file. DataError if it is missing, damaged or of another version."""
        try:
            text = read_regular(path)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}; {cls.advice}") from None
        return cls.parse(text, str(path))

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Like `read`, but returns None if the file cannot be read for any reason."""
        try:
            return cls.read(path)
        except DataError:
            return None

    @classmethod
    def parse(cls, text: bytes | str, source: str) -> Self:
        """Parses the content of a file. `source` is its name in error messages."""
        content = parse_json(text, source, cls.advice)
        if not isinstance(content, dict):
            raise DataError(f"{source}: expected an object, got {type(content).__name__}; {cls.advice}")
        version = content.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            raise DataError(f"{source}: version {version!r}; this program reads {VERSION}; {cls.advice}")
        return cls.check(content, source)

    @classmethod
    def check(cls, content: object, source: str) -> Self:
        """Validates content that has already been parsed."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{source}: {explain(error.errors()[0])}; {cls.advice}") from None

    def text(self) -> str:
        """The content of the file."""
        content = {"version": VERSION, **self.plain()}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, path: Path) -> bool:
        """Writes the file atomically unless it already has this content; returns whether it was written."""
        return write_if_changed(path, self.text())


def read_regular(path: Path) -> bytes:
    """The content of a file; OSError if it is not a regular one."""
    refuse_irregular(path)
    return path.read_bytes()


def refuse_irregular(path: Path) -> None:
    """Raises OSError if the file is missing or not a regular one.

    Opening a pipe without a writer would block forever. The shell's `<(...)` is /dev/fd/N and has a writer.
    """
    mode = path.stat().st_mode
    is_open = stat.S_ISFIFO(mode) and path.parts[:2] == ("/", "dev")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or is_open):
        raise OSError(errno.EINVAL, "not a regular file; copy its content into one", str(path))


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:  # that of a read, as on a broken disk, comes without the name
        raise OSError(error.errno, error.strerror, str(path)) from None


class FileFacts(Part):
    """The size and the checksum of a file."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "FileFacts":
        """Computes size and checksum of a file."""
        return cls(bytes=path.stat().st_size, sha256=sha256(path))


def parse_json(text: bytes | str, source: str, advice: str) -> object:
    """Parses JSON. DataError if it is invalid."""
    try:
        value: object = json.loads(text)
        return value
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source}: not JSON: {str(error)[:100]}; {advice}") from None


def explain(details: ErrorDetails) -> str:
    """The message for a validation error: the field, the expected value, and the given one."""
    field = ""
    for part in details["loc"]:
        field += f"[{part}]" if isinstance(part, int) else f".{part}"
    field = field.removeprefix(".") or "content"
    if details["type"] == "missing":
        return f"{field} is missing"
    message = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{field}: expected {message}, got {details['input']!r:.60}"
