"""A checkpoint on disk: the names of its files, its manifest, and how far the training had come.

checkpoints/step-00001000/{model.safetensors, optimizer.safetensors, curriculum.json, progress.json, manifest.json}
checkpoints/{latest,best}         the name of one of these folders, as text

A sweep trains runs that share a prefix once; its checkpoints also have followers.json, the state of the other runs.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_serializer

from cclm.atomic import atomic_text
from cclm.errors import DataError
from cclm.formats.base import FileFacts, JsonFile, Part, explain, parse_json, sha256

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
CURRICULUM, PROGRESS, MANIFEST, FORKS = "curriculum.json", "progress.json", "manifest.json", "followers.json"
FILES = (MODEL, OPTIMIZER, CURRICULUM, PROGRESS, MANIFEST, FORKS)
REQUIRED = (MODEL, OPTIMIZER, CURRICULUM, PROGRESS)
LATEST, BEST = "latest", "best"
ADVICE = "remove this checkpoint: training then resumes from the one before it"
ALL_STEPS = "all steps are done"
"""The value of `finished` when `max_steps` was reached. It is cleared when `max_steps` was raised."""

CurriculumState = dict[str, Any]
"""What `Curriculum.state_dict` returns. Its layout and version belong to the curriculum, which needs NumPy alone."""


def folder_name(step: int) -> str:
    """The name of the folder of a step's checkpoint."""
    return f"step-{step:08}"


def checkpoint_folders(folder: Path) -> list[Path]:
    """The checkpoints in a folder `checkpoints`, damaged ones included, oldest first."""
    return sorted(folder.glob("step-*"))


def read_pointer(folder: Path, name: str) -> str | None:
    """The checkpoint that `latest` or `best` names; None where there is no such file."""
    path = folder / name
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None


def write_pointer(folder: Path, name: str, step: int) -> None:
    """Lets `latest` or `best` name the checkpoint of a step."""
    atomic_text(folder / name, folder_name(step) + "\n")


class Manifest(JsonFile):
    """manifest.json: what the other files of a checkpoint must be. It is written last."""

    advice: ClassVar[str] = ADVICE
    files: dict[str, FileFacts]
    forced: list[str] = []
    """Settings that were changed with `cclm train --force` before this checkpoint, each as `key: before -> now`."""

    @classmethod
    def of(cls, folder: Path, forced: Sequence[str] = ()) -> "Manifest":
        """The manifest of the files that are in the folder now."""
        paths = sorted(folder.iterdir())
        files = {path.name: FileFacts.of(path) for path in paths}
        return cls(files=files, forced=list(forced)) if forced else cls(files=files)


def write_manifest(folder: Path, forced: Sequence[str] = ()) -> None:
    """Waits until every file of the folder is on disk, then writes the manifest."""
    manifest = Manifest.of(folder, forced)
    for name in manifest.files:
        sync(folder / name)
    (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
    sync(folder / MANIFEST)
    sync(folder)


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None if all its files are those of its manifest."""
    try:
        manifest = Manifest.read(folder / MANIFEST)
        present = {name for name in FILES if (folder / name).exists()} - {MANIFEST}
        for name in sorted(present.union(REQUIRED) - manifest.files.keys()):
            return f"manifest.json does not list {name}"
        for name in sorted(manifest.files.keys() - set(FILES)):
            return f"manifest.json lists {name!r}, which is no file of a checkpoint"
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
    """What the next train event will sum up. Written as an empty object while nothing has been counted."""

    smoothed: float = 0.0
    nll: float = 0.0
    tokens: dict[str, int] = {}
    draws: dict[str, int] = {}

    @model_serializer
    def _as_version_1(self) -> dict[str, Any]:
        if not self.draws:
            return {}
        return {"smoothed": self.smoothed, "nll": self.nll, "tokens": self.tokens, "draws": self.draws}


class Progress(JsonFile):
    """progress.json: everything that changes in a training and is neither model, optimizer nor curriculum.

    Unlike other formats this one is mutable: the training loop counts in it.
    """

    model_config = ConfigDict(frozen=False)
    advice: ClassVar[str] = ADVICE

    step: int = 0
    micro: int = 0
    """Micro-batches so far, over the whole run and all ranks: their global number."""
    counters: dict[str, int] = {}
    """Batches drawn of each task."""
    phase: int = 1
    stop_best: float | None = None
    """Best value of the stop metric since the last admission."""
    stop_waited: int = 0
    """Validations without improvement."""
    selected: float | None = None
    """Best value of the select metric so far."""
    selected_step: int | None = None
    last_admission: int = 0
    skipped: int = 0
    """Steps not taken because a loss or gradient was not finite."""
    skipped_in_a_row: int = 0
    scale: float = 1.0
    """What losses are multiplied by; other than 1 only in fp16."""
    scale_age: int = 0
    """Updates since the scale last changed."""
    train_nats: dict[str, float] = {}
    """Summed training loss of each task since the last probe."""
    train_tokens: dict[str, int] = {}
    """Target tokens of each task since the last probe."""
    shown: SinceShown = SinceShown()
    due: list[str] = []
    """What is still to be done after the last step: show, probe, validate, save."""
    log_bytes: int = 0
    """Length of log.jsonl when the checkpoint was made; resuming cuts the log back to it."""
    finished: str | None = None
    """Why the training ended, once it has."""

    def is_over(self, max_steps: int) -> bool:
        """Whether the training has ended and stays so if it may take this many steps."""
        return self.finished is not None and not (self.finished == ALL_STEPS and self.step < max_steps)

    def plain(self) -> dict[str, Any]:
        """All of it: a checkpoint states its zeros too."""
        return self.model_dump(mode="json")


def tokens_after_the_log(run: Path, step: int) -> int:
    """Target tokens of a training that ended at this step, after the last train event in its log.

    Train events sum up a fixed number of steps, and a training may end between two of them.
    """
    for folder in reversed(checkpoint_folders(run / "checkpoints")):
        progress = Progress.find(folder / PROGRESS)
        if progress and progress.step == step:
            return sum(progress.shown.tokens.values())
    return 0


class ForkState(Part):
    """A run that shares its prefix with the one that is trained: its own curriculum, and the length of its log."""

    curriculum: CurriculumState
    log_bytes: int


_FORKS: TypeAdapter[dict[str, ForkState]] = TypeAdapter(dict[str, ForkState])


def read_forks(path: Path) -> dict[str, ForkState]:
    """The content of followers.json by the names of the runs; nothing where there is no such file."""
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
    """The content of curriculum.json."""
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


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def sync(path: Path) -> None:
    """Waits until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
