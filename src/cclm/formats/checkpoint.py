"""Checkpoints on disk: file names, the manifest, and the training progress.

checkpoints/step-00001000/{model.safetensors, optimizer.safetensors, curriculum.json, progress.json, manifest.json}
                          average.safetensors, with `training.average`
                          probe.safetensors, with the bounded probe
checkpoints/{latest,best}         the name of one of these folders, as text

A sweep trains the common prefix of several runs once. Its checkpoints also have followers.json with the state of the
other runs.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_serializer

from cclm.atomic import write_if_changed
from cclm.errors import DataError
from cclm.formats.base import FileFacts, JsonFile, Part, explain, parse_json, sha256

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
AVERAGE = "average.safetensors"
"""Only with `training.average`."""
PROBE = "probe.safetensors"
"""Only with the bounded probe: what it remembers of the dev sets."""
CURRICULUM, PROGRESS, MANIFEST, FORKS = "curriculum.json", "progress.json", "manifest.json", "followers.json"
FILES = (MODEL, OPTIMIZER, AVERAGE, PROBE, CURRICULUM, PROGRESS, MANIFEST, FORKS)
REQUIRED = (MODEL, OPTIMIZER, CURRICULUM, PROGRESS)
NAME = re.compile("step-[0-9]{8,}")
LATEST, BEST = "latest", "best"
ADVICE = "remove this checkpoint: training then resumes from the one before it"
ALL_STEPS = "all steps are done"
"""The value of `finished` when `max_steps` was reached. It is cleared if `max_steps` is raised later."""

NEW = ("early_decay", "branch")
"""Fields of progress.json that version 0.1.0 did not have."""

CurriculumState = dict[str, Any]
"""The result of `Curriculum.state_dict`. The curriculum defines its layout, because it must work without pydantic."""


def folder_name(step: int) -> str:
    """The folder name of the checkpoint of a step."""
    return f"step-{step:08}"


def checkpoint_folders(folder: Path) -> list[Path]:
    """All checkpoints in a `checkpoints` folder, including damaged ones, oldest first.

    Other names, as of copies that a user has made, are not those of checkpoints.
    """
    return sorted((path for path in folder.glob("step-*") if NAME.fullmatch(path.name)), key=step_of)


def step_of(folder: Path) -> int:
    """The step of a checkpoint, by the name of its folder."""
    return int(folder.name.removeprefix("step-"))


def weights_file(folder: Path) -> str:
    """The file with the weights to translate with: the average where there is one."""
    return AVERAGE if (folder / AVERAGE).exists() else MODEL


def read_pointer(folder: Path, name: str) -> str | None:
    """The checkpoint that `latest` or `best` points at; None if there is no such file."""
    path = folder / name
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None


def write_pointer(folder: Path, name: str, step: int) -> None:
    """Makes `latest` or `best` point at the checkpoint of a step."""
    write_if_changed(folder / name, folder_name(step) + "\n")


class Manifest(JsonFile):
    """manifest.json: sizes and checksums of the other files of a checkpoint. It is written last."""

    advice: ClassVar[str] = ADVICE
    files: dict[str, FileFacts]
    forced: list[str] = []
    """Settings changed with `cclm train --force` before this checkpoint, as `key: before -> now`."""

    @classmethod
    def of(cls, folder: Path, forced: Sequence[str] = ()) -> "Manifest":
        """The manifest of the files in a folder."""
        paths = sorted(folder.iterdir())
        files = {path.name: FileFacts.of(path) for path in paths}
        return cls(files=files, forced=list(forced)) if forced else cls(files=files)


def write_manifest(folder: Path, forced: Sequence[str] = ()) -> None:
    """Syncs all files of the folder to disk, then writes the manifest."""
    manifest = Manifest.of(folder, forced)
    for name in manifest.files:
        sync(folder / name)
    (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
    sync(folder / MANIFEST)
    sync(folder)


def damage(folder: Path) -> str | None:
    """Describes what is wrong with a checkpoint; None if all files match its manifest."""
    try:
        manifest = Manifest.read(folder / MANIFEST)
        present = {name for name in FILES if (folder / name).exists()} - {MANIFEST}
        for name in sorted(present.union(REQUIRED) - manifest.files.keys()):
            return f"manifest.json does not list {name}"
        for name in sorted(manifest.files.keys() - set(FILES)):
            return f"manifest.json lists {name!r}, which does not belong to a checkpoint"
        for name, facts in manifest.files.items():
            path = folder / name
            if not path.exists():
                return f"{name} is missing"
            if path.stat().st_size != facts.bytes or sha256(path) != facts.sha256:
                return f"{name} is damaged (checksum)"
    except DataError as error:
        return _version_problem(str(error)) or "manifest.json is missing or damaged"
    except OSError:
        return "manifest.json is missing or damaged"
    return None


def _version_problem(message: str) -> str | None:
    start = message.find(": version ")
    return message[start + 2 :].removesuffix(f"; {ADVICE}") if start >= 0 else None


class SinceShown(BaseModel):
    """Sums since the last train event, for the next one. Written as an empty object while nothing has been counted."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: dict[str, int] = {}
    draws: dict[str, int] = {}

    @model_serializer
    def _as_version_1(self) -> dict[str, object]:
        if not self.draws:
            return {}
        return {"smoothed": self.smoothed, "nll": self.nll, "tokens": self.tokens, "draws": self.draws}


class EarlyDecay(Part):
    """The decay of the learning rate that ends a training which is stopped early."""

    start: int
    until: int
    reason: str
    """Why it is stopped."""


class Branch(Part):
    """The checkpoint before the decay of `schedule: wsd`, from which a longer training goes on."""

    step: int
    selected: int | None
    """The best checkpoint at that time."""


class Progress(JsonFile):
    """progress.json: the state of the training loop beside model, optimizer and curriculum.

    Unlike other formats it is mutable, because the training loop updates it.
    """

    model_config = ConfigDict(frozen=False)
    advice: ClassVar[str] = ADVICE

    step: int = 0
    micro: int = 0
    """Number of micro-batches so far, over the entire run and all ranks."""
    counters: dict[str, int] = {}
    """Number of batches drawn per task."""
    phase: int = 1
    stop_best: float | None = None
    """Best value of `stop_on` since the last admission."""
    stop_waited: int = 0
    """Number of validations without improvement of `stop_on`."""
    selected: float | None = None
    """Best value of `select_on` so far."""
    selected_step: int | None = None
    last_admission: int = 0
    skipped: int = 0
    """Number of steps skipped because a loss or gradient was not finite."""
    skipped_in_a_row: int = 0
    scale: float = 1.0
    """The factor that losses are multiplied by; other than 1 only with fp16."""
    scale_age: int = 0
    """Number of updates since the last change of the scale."""
    train_nats: dict[str, float] = {}
    """Sum of the training loss per task since the last probe, in nats."""
    train_tokens: dict[str, int] = {}
    """Number of target tokens per task since the last probe."""
    shown: SinceShown = SinceShown()
    due: list[str] = []
    """What remains to be done after the last step: show, probe, validate, save, decay."""
    log_bytes: int = 0
    """Length of log.jsonl when the checkpoint was written. Resuming truncates the log to it."""
    finished: str | None = None
    """Why training ended; None before."""
    early_decay: EarlyDecay | None = None
    branch: Branch | None = None

    def is_over(self, max_steps: int) -> bool:
        """Whether training has ended and would not resume with this `max_steps`."""
        return self.finished is not None and not (self.finished == ALL_STEPS and self.step < max_steps)

    def plain(self) -> dict[str, Any]:
        """All fields, including those with default values; of what version 0.1.0 did not have, only what is set."""
        content = self.model_dump(mode="json")
        return {name: value for name, value in content.items() if name not in NEW or value is not None}


def tokens_after_the_log(run: Path, step: int) -> int:
    """The number of target tokens of a run, ended at this step, after the last train event in its log.

    A train event covers a fixed number of steps, and training may end between two of them.
    """
    for folder in reversed(checkpoint_folders(run / "checkpoints")):
        progress = Progress.find(folder / PROGRESS)
        if progress and progress.step == step:
            return sum(progress.shown.tokens.values())
    return 0


class ForkState(Part):
    """The state of a run that shares its prefix with the trained one: its curriculum, and the length of its log."""

    curriculum: CurriculumState
    log_bytes: int


_FORKS: TypeAdapter[dict[str, ForkState]] = TypeAdapter(dict[str, ForkState])


def read_forks(path: Path) -> dict[str, ForkState]:
    """Reads followers.json: the state of each run by name. Empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        return _FORKS.validate_python(_read(path))
    except ValidationError as error:
        raise DataError(f"{path}: {explain(error.errors()[0])}; {ADVICE}") from None


def write_forks(path: Path, forks: Mapping[str, ForkState]) -> None:
    """Writes followers.json."""
    _write(path, {name: fork.plain() for name, fork in forks.items()})


def read_curriculum(path: Path) -> CurriculumState:
    """Reads curriculum.json."""
    content = _read(path)
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object, got {type(content).__name__}; {ADVICE}")
    return content


def write_curriculum(path: Path, state: CurriculumState) -> None:
    """Writes curriculum.json."""
    _write(path, state)


def _read(path: Path) -> object:
    try:
        return parse_json(path.read_bytes(), str(path), ADVICE)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; {ADVICE}") from None


def _write(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def sync(path: Path) -> None:
    """Waits until a file or folder is written to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
