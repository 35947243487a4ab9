"""Checkpoints that never break: everything into a temporary folder, synced, a manifest last, then one rename.

checkpoints/step-00001000/{model.safetensors, optimizer.safetensors, curriculum.json, progress.json, manifest.json}
checkpoints/{latest,best}         the name of a folder
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from cclm.training.errors import TrainingError
from cclm.training.manifest import damage, name_of, sync, write_json, write_manifest
from cclm.whole import write_whole

KEPT = 2
"""Newest checkpoints that stay, beside the best."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a training goes on from."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    curriculum: dict[str, Any]
    progress: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, *, step: int, best: int | None) -> Path:
    """Writes a checkpoint; until the rename it does not exist, and older ones are removed only afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    staging, final = folder / f".tmp-{step}-{os.getpid()}", folder / name_of(step)
    staging.mkdir()
    try:
        save_file(checkpoint.model, staging / "model.safetensors")
        fault("save:after_model")
        save_file(checkpoint.optimizer, staging / "optimizer.safetensors")
        write_json(staging / "curriculum.json", checkpoint.curriculum)
        write_json(staging / "progress.json", checkpoint.progress)
        write_manifest(staging)
        fault("save:before_rename")
        if final.exists():
            shutil.rmtree(final)
        staging.rename(final)
        sync(folder)
        fault("save:after_rename")
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise TrainingError(f"{final}: could not be saved: {error.strerror or error}") from None
    point(folder, "latest", final.name)
    if best is not None:
        point(folder, "best", name_of(best))
    _prune(folder, keep={final.name} | ({name_of(best)} if best is not None else set()))
    return final


def fault(place: str) -> None:
    """Ends the process at this place if the environment asks for it: so the tests kill a save anywhere."""
    if os.environ.get("CCLM_FAULT_AT") == place:
        os._exit(9)


def point(folder: Path, label: str, name: str) -> None:
    """Lets `latest` or `best` name a checkpoint, in one step."""
    write_whole(folder / label, name + "\n")


def load_newest(folder: Path, warn: Callable[[str], object]) -> Checkpoint | None:
    """The newest checkpoint that verifies; damaged ones are passed over, and that is said. None where there is none."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        problem = damage(path)
        if problem is None:
            found = load(path)
            _point_again(folder, path.name, found.progress.get("selected_step"))
            return found
        warn(f"{path}: {problem}; falling back to the one before")
    return None


def _point_again(folder: Path, latest: str, best: int | None) -> None:
    """Mends what a kill between the rename of a checkpoint and its naming has left undone."""
    for label, name in (("latest", latest), ("best", name_of(best) if best is not None else None)):
        if name is not None and (folder / name).exists():
            point(folder, label, name)


def load(path: Path) -> Checkpoint:
    """A checkpoint, verified."""
    problem = damage(path)
    if problem is not None:
        raise TrainingError(f"{path}: {problem}")
    return Checkpoint(
        model=load_file(path / "model.safetensors"),
        optimizer=load_file(path / "optimizer.safetensors"),
        curriculum=json.loads((path / "curriculum.json").read_text(encoding="utf-8")),
        progress=json.loads((path / "progress.json").read_text(encoding="utf-8")),
    )


def remove_leftovers(folder: Path) -> None:
    """Removes what saves of dead processes have left."""
    for path in folder.glob(".tmp-*"):
        pid = path.name.rpartition("-")[2]
        if pid == str(os.getpid()) or not Path(f"/proc/{pid}").exists():
            shutil.rmtree(path, ignore_errors=True)


def _prune(folder: Path, keep: Iterable[str]) -> None:
    for path in sorted(folder.glob("step-*"))[:-KEPT]:
        if path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)
