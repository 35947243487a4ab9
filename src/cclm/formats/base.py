"""What all formats share: JSON with a version, refused with the place, the value and the way out where it is wrong."""

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from cclm.atomic import write_if_changed
from cclm.errors import DataError

VERSION = 1


class Part(BaseModel):
    """A part of a file. Unknown keys are ignored: a later version may add some."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")

    def plain(self) -> dict[str, Any]:  # JSON, on its way into a file or out of a program
        """The part as plain JSON; what was not set is left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class JsonFile(Part):
    """A whole file. Subclasses say what to do about a damaged one in `advice`, as in "run `cclm study` again"."""

    advice: ClassVar[str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The content of a file; DataError where there is none, or it is damaged or of another version."""
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}; {cls.advice}") from None
        return cls.parse(text, str(path))

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """The content of a file, or None where it cannot be read, whatever the reason."""
        try:
            return cls.read(path)
        except DataError:
            return None

    @classmethod
    def parse(cls, text: bytes | str, source: str) -> Self:
        """The content of a text that came from `source`."""
        content = parse_json(text, source, cls.advice)
        if not isinstance(content, dict):
            raise DataError(f"{source}: expected an object, got {type(content).__name__}; {cls.advice}")
        version = content.get("version", VERSION)
        if version != VERSION or isinstance(version, bool):
            raise DataError(f"{source}: version {version!r}; this program reads {VERSION}; {cls.advice}")
        return cls.check(content, source)

    @classmethod
    def check(cls, content: object, source: str) -> Self:
        """The same for a value that has been parsed already."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{source}: {explain(error.errors()[0])}; {cls.advice}") from None

    def text(self) -> str:
        """The content of the file."""
        content = {"version": VERSION, **self.plain()}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, path: Path) -> bool:
        """Writes the file atomically, unless it has that content already; returns whether it wrote."""
        return write_if_changed(path, self.text())


def sha256(path: Path) -> str:
    """The checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(text: bytes | str, source: str, advice: str) -> object:
    """The value of a JSON text; DataError where it is none."""
    try:
        value: object = json.loads(text)
        return value
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source}: not JSON: {str(error)[:100]}; {advice}") from None


def explain(details: ErrorDetails) -> str:
    """One mistake in the words of our messages: the place, what is expected, what is there."""
    place = ""
    for part in details["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    place = place.removeprefix(".") or "content"
    if details["type"] == "missing":
        return f"{place}: nothing there"
    message = details["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return f"{place}: expected {message}, got {details['input']!r:.60}"
