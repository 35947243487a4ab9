"""The small files of a run directory: settings, provenance, environment, timing, lock."""

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
from cclm.formats.base import VERSION, JsonFile, Part, parse_json, read_regular

CONFIG, MADE_FROM, ENVIRONMENT, ORIGIN = "config.yaml", "made_from.json", "environment.json", "origin.json"
LOG, TIMING, LOCK, NOT_FINITE = "log.jsonl", "timing.jsonl", "lock", "not-finite.json"

Settings = dict[str, Any]
"""A resolved recipe as JSON values. Its type is `cclm.recipe.schema.Recipe`, which `formats` cannot import."""


def settings_text(settings: Mapping[str, object]) -> str:
    """The content of config.yaml."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 10_000  # no line breaks inside values
    stream = StringIO()
    yaml.dump(dict(settings), stream)
    return stream.getvalue()


def cache_comment(path: Path) -> str:
    """The cache keys in the first line of config.yaml; empty if there is no such line."""
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return ""
    return line.removeprefix("# cache:") if line.startswith("# cache:") else ""


def read_settings(path: Path) -> Settings:
    """Reads config.yaml, which version 0.1.0 wrote as JSON."""
    try:
        text = read_regular(path).decode()
        # JSON cannot be parsed as YAML here: `Infinity` would become a string.
        content: object = json.loads(text) if text.startswith("{") else YAML(typ="safe", pure=True).load(text)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: damaged: expected settings, got {type(content).__name__}")
    return content


class MadeFrom(JsonFile):
    """made_from.json: everything that determines the result of a run, written when it starts."""

    advice: ClassVar[str] = "give the run another name, or delete its folder to start again"
    recipe: Settings
    """The recipe, without settings that may change when a run is resumed."""
    data: str | None = None
    """The fingerprint of the prepared data; None in a comparison that leaves the data out."""
    benchmark: dict[str, float] | None = None
    """The reference losses L*."""
    forced: list[str] = []
    """Settings changed with `cclm train --force`, as `key: before -> now`."""

    def text(self) -> str:
        """The content of the file. A temperature may be infinite, so `Infinity` is allowed here."""
        return json.dumps({"version": VERSION, **self.plain()}, indent=1, ensure_ascii=False) + "\n"


class DrawnBatch(Part):
    """A micro-batch: its number in the run, and the number of the batch of its language."""

    step: int
    number: int
    language: str
    batch: int
    loss: float | None
    """Sum of the loss in nats; None if it was not finite."""


class NotFinite(JsonFile):
    """not-finite.json: the micro-batches of consecutive steps whose loss or gradient was not finite."""

    advice: ClassVar[str] = "train again: the file is written again"
    batches: list[DrawnBatch]


class Environment(JsonFile):
    """environment.json: software versions and machine of the last process that trained the run."""

    advice: ClassVar[str] = "resume the run: the file is written again"
    cclm: str = ""
    python: str = ""
    torch: str = ""
    numpy: str = ""
    threads: int = 1
    world_size: int = 1
    data: str = ""


class Origin(JsonFile):
    """origin.json: the run of a sweep that this run shares its first steps with."""

    advice: ClassVar[str] = "run `cclm sweep` again"
    run: str = Field(alias="from")
    step: int | None = None
    """The last shared step; None if the runs are identical."""
    same: bool = False

    def plain(self) -> dict[str, Any]:
        """The content with the key `from`, which cannot be an attribute name in Python."""
        return self.model_dump(mode="json", by_alias=True)


class Timing(Part):
    """A line of timing.jsonl. `seconds` count from the start of the process, so they restart when a run is resumed."""

    event: str
    step: int
    seconds: float
    probe_seconds: float = 0.0
    reward_seconds: float = 0.0
    validation_seconds: float = 0.0
    tokens_per_second: float | None = None

    def line(self) -> bytes:
        """The line as bytes."""
        return json.dumps(self.plain()).encode() + b"\n"


def read_timing(path: Path) -> Iterator[Timing]:
    """Reads timing.jsonl. An incomplete last line is ignored."""
    advice = "remove the file: it only records how long training took"
    for number, line in enumerate(read_regular(path).split(b"\n")[:-1], 1):
        source = f"{path} line {number}"
        try:
            yield Timing.model_validate(parse_json(line, source, advice))
        except ValidationError:
            raise DataError(f"{source}: not an object with event, step and seconds; {advice}") from None


def trained_seconds(path: Path) -> float:
    """The total training time of a run: the sum of the last `seconds` of each process."""
    total, last = 0.0, 0.0
    for timing in read_timing(path):
        total += last if timing.seconds < last else 0.0
        last = timing.seconds
    return math.fsum((total, last))


class Owner(JsonFile):
    """The lock file of a run directory: describes the process that owns the run."""

    advice: ClassVar[str] = "the lock is ignored"
    pid: int
    host: str
    machine: str = ""
    """Identifies the machine, also from inside a container: the boot id of the kernel, or the host name. CCLM_HOST in
    the environment replaces it."""
    namespace: str = ""
    """The pid namespace that `pid` belongs to."""
    started: str = ""
    """When the process started, in units of the kernel. It distinguishes processes with a reused pid."""
    job: str | None = None
    """The SLURM job id, for people."""
