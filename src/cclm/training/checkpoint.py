"""Checkpoints that never break: everything into a temporary folder, synced, a manifest last, then one rename.

checkpoints/step-00001000/{model.safetensors, optimizer.safetensors, curriculum.json, progress.json, manifest.json}
checkpoints/{latest,best}         the name of a folder
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from cclm.atomic import atomic_folder, atomic_text, holds_only, restore_all
from cclm.errors import TrainingError
from cclm.training.faults import fault
from cclm.training.manifest import damage, name_of, sync, write_json, write_manifest

FOLLOWERS = "followers.json"
"""What a checkpoint knows of the trainings that follow this one, if there are any."""
FILES = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json", "manifest.json", FOLLOWERS)
KEPT = 2
"""Newest checkpoints that stay, beside the best."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a training goes on from."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    curriculum: dict[str, Any]
    progress: dict[str, Any]
    followers: dict[str, Any] = field(default_factory=dict)


def save(folder: Path, checkpoint: Checkpoint, *, step: int, best: int | None) -> Path:
    """Writes a checkpoint; until the rename it does not exist, and older ones are removed only afterwards."""
    final = folder / name_of(step)
    try:
        with atomic_folder(final, is_ours=holds_only(*FILES)) as staging:
            fault("save:begun")
            save_file(checkpoint.model, staging / "model.safetensors")
            fault("save:after_model")
            save_file(checkpoint.optimizer, staging / "optimizer.safetensors")
            write_json(staging / "curriculum.json", checkpoint.curriculum)
            write_json(staging / "progress.json", checkpoint.progress)
            if checkpoint.followers:
                write_json(staging / FOLLOWERS, checkpoint.followers)
            fault("save:before_manifest")
            write_manifest(staging)
            fault("save:before_rename")
        sync(folder)
        fault("save:after_rename")
        _point(folder, final.name, best)
    except OSError as error:
        raise TrainingError(f"{final}: could not be saved: {error.strerror or error}") from None
    fault("save:before_prune")
    _prune(folder, keep={final.name} | ({name_of(best)} if best is not None else set()))
    return final


def _point(folder: Path, latest: str, best: int | None) -> None:
    """Lets `latest` and `best` name their checkpoints."""
    atomic_text(folder / "latest", latest + "\n")
    fault("save:after_latest")
    if best is not None and (folder / name_of(best)).exists():
        atomic_text(folder / "best", name_of(best) + "\n")


def load_newest(folder: Path, warn: Callable[[str], object]) -> Checkpoint | None:
    """The newest checkpoint that verifies; damaged ones are passed over, and that is said. None where there is none.

    It sets `latest` and `best` right, too: whoever saved may have been killed before that.
    """
    if folder.is_dir():
        _remove_leftovers(folder)
    for path in sorted(folder.glob("step-*"), reverse=True):
        problem = damage(path)
        if problem is None:
            found = load(path)
            _point(folder, path.name, found.progress.get("selected_step"))
            return found
        warn(f"{path}: {problem}; falling back to the one before")
    return None


def load(path: Path) -> Checkpoint:
    """A checkpoint, verified."""
    problem = damage(path)
    if problem is not None:
        raise TrainingError(f"{path}: {problem}")
    return Checkpoint(
        model=load_file(path / "model.safetensors"),
        optimizer=load_file(path / "optimizer.safetensors"),
        curriculum=_json(path / "curriculum.json"),
        progress=_json(path / "progress.json"),
        followers=_json(path / FOLLOWERS) if (path / FOLLOWERS).exists() else {},
    )


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _remove_leftovers(folder: Path) -> None:
    """Removes what a killed save has left; called by the process that owns the run directory."""
    restore_all(folder)
    for path in folder.iterdir():
        if re.fullmatch(r"\.tmp-\d+-\d+", path.name):  # as version 0.1.0 named them
            shutil.rmtree(path, ignore_errors=True)


def _prune(folder: Path, keep: Iterable[str]) -> None:
    for path in sorted(folder.glob("step-*"))[:-KEPT]:
        if path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)
