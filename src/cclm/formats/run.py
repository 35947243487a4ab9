"""The small files of a run directory: its settings, what it was begun with, its surroundings, its clock, its owner."""

import json
import math
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cclm.errors import DataError
from cclm.formats.base import VERSION, JsonFile, Part, parse_json

CONFIG, MADE_FROM, ENVIRONMENT, ORIGIN = "config.yaml", "made_from.json", "environment.json", "origin.json"
LOG, TIMING, LOCK = "log.jsonl", "timing.jsonl", "lock"

Settings = dict[str, Any]
"""A resolved recipe as plain values: `cclm.recipe.schema.Recipe` is its type, which this layer does not know."""


def settings_text(settings: Mapping[str, Any]) -> str:
    """The content of config.yaml."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 10_000  # a value stays on its line
    stream = StringIO()
    yaml.dump(dict(settings), stream)
    return stream.getvalue()


def cache_comment(path: Path) -> str:
    """What the first line of config.yaml says of the keys in the cache; nothing where there is no such line."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return ""
    return line.removeprefix("# cache:") if line.startswith("# cache:") else ""


def read_settings(path: Path) -> Settings:
    """The settings in config.yaml: YAML, or JSON as version 0.1.0 wrote it."""
    try:
        text = path.read_text(encoding="utf-8")
        # JSON is nearly YAML, but `Infinity` is a string there.
        content: object = json.loads(text) if text.startswith("{") else YAML(typ="safe", pure=True).load(text)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: damaged: expected settings, got {type(content).__name__}")
    return content


class MadeFrom(JsonFile):
    """made_from.json: all that decides the result of a training, written when it begins."""

    advice: ClassVar[str] = "give the run another name, or delete its folder to begin anew"
    recipe: Settings
    """The recipe without what may change when a run is resumed."""
    data: str | None = None
    """The fingerprint of the prepared data; None in a comparison that leaves the data out."""
    benchmark: dict[str, float] | None = None
    """The reference losses L*."""

    def text(self) -> str:
        """The content of the file. A temperature may be infinite, which JSON only has as an extension."""
        return json.dumps({"version": VERSION, **self.plain()}, indent=1, ensure_ascii=False) + "\n"


class Environment(JsonFile):
    """environment.json: versions and machine of the process that trained last."""

    advice: ClassVar[str] = "resume the run: it is written again"
    cclm: str = ""
    python: str = ""
    torch: str = ""
    numpy: str = ""
    threads: int = 1
    world_size: int = 1
    data: str = ""


class Origin(JsonFile):
    """origin.json: the run of a sweep that this one shared its first steps with."""

    advice: ClassVar[str] = "run `cclm sweep` again"
    run: str = Field(alias="from")
    step: int | None = None
    """The last step that they share; None if they are the same to the end."""
    same: bool = False

    def plain(self) -> dict[str, Any]:
        """The content, with the key `from`, which is no name in Python."""
        return self.model_dump(mode="json", by_alias=True)


class Timing(Part):
    """A line of timing.jsonl. Seconds count from the start of the process, so each process starts at zero."""

    event: str
    step: int
    seconds: float
    probe_seconds: float = 0.0
    reward_seconds: float = 0.0
    validation_seconds: float = 0.0
    tokens_per_second: float | None = None

    def line(self) -> bytes:
        """The line as it stands in the file."""
        return json.dumps(self.plain()).encode() + b"\n"


def read_timing(path: Path) -> Iterator[Timing]:
    """The lines of timing.jsonl; a last line that was torn while it was written is left out."""
    advice = "remove the file: it only tells how long the training took"
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        place = f"{path} line {number}"
        try:
            yield Timing.model_validate(parse_json(line, place, advice))
        except ValidationError:
            raise DataError(f"{place}: not a line with event, step and seconds; {advice}") from None


def trained_seconds(path: Path) -> float:
    """How long a run was trained for, over all processes that worked on it: the last line of each counts."""
    total, last = 0.0, 0.0
    for timing in read_timing(path):
        total += last if timing.seconds < last else 0.0
        last = timing.seconds
    return math.fsum((total, last))


class Owner(JsonFile):
    """The lock file of a run directory: the process that owns it."""

    advice: ClassVar[str] = "the lock does not count then"
    pid: int
    host: str
    machine: str = ""
    """What all containers of a machine share, and no other machine has: the boot id of its kernel, or its name."""
    namespace: str = ""
    """The pid namespace, in which the pid counts."""
    started: str = ""
    """When the process started, as its kernel counts: pids are used again."""
    job: str | None = None
    """The SLURM job: when it is requeued, its next attempt takes the run over from the last."""
