"""Checkpoints that a kill cannot break: all files go into a temporary folder, the manifest last, then one rename.

What is on disk is described in `cclm.formats.checkpoint`.
"""

import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy
from safetensors.torch import load_file, save_file

from cclm.atomic import atomic_folder, holds_only, restore_all
from cclm.errors import TrainingError
from cclm.formats.checkpoint import (
    AVERAGE,
    BEST,
    CURRICULUM,
    FILES,
    FORKS,
    LATEST,
    MODEL,
    OPTIMIZER,
    PROBE,
    PROGRESS,
    CurriculumState,
    ForkState,
    Progress,
    checkpoint_folders,
    damage,
    folder_name,
    read_curriculum,
    read_forks,
    step_of,
    sync,
    weights_file,
    write_curriculum,
    write_forks,
    write_manifest,
    write_pointer,
)
from cclm.messages import announce
from cclm.signals import fault

KEPT = 2
"""Newest checkpoints that are kept, beside the best."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a training resumes from."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    curriculum: CurriculumState
    progress: Progress
    forks: dict[str, ForkState] = field(default_factory=dict)
    average: dict[str, torch.Tensor] = field(default_factory=dict)
    """Empty without `training.average`."""
    probe: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """The memory of the bounded probe; empty with `curriculum.dev_sample`."""
    forced: tuple[str, ...] = ()
    """Settings that were changed with `--force` before this checkpoint."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes a checkpoint; until the rename it does not exist, and older ones are removed only afterwards."""
    step, best = checkpoint.progress.step, checkpoint.progress.selected_step
    final = folder / folder_name(step)
    try:
        with atomic_folder(final, is_ours=holds_only(*FILES)) as staging:
            fault("save:begun")
            save_file(checkpoint.model, staging / MODEL)
            fault("save:after_model")
            save_file(checkpoint.optimizer, staging / OPTIMIZER)
            if checkpoint.average:
                save_file(checkpoint.average, staging / AVERAGE)
            if checkpoint.probe:
                safetensors_numpy.save_file(checkpoint.probe, staging / PROBE)
            write_state(staging, checkpoint.curriculum, checkpoint.progress, checkpoint.forks)
            fault("save:before_manifest")
            write_manifest(staging, checkpoint.forced)
            fault("save:before_rename")
        sync(folder)
        fault("save:after_rename")
        _write_pointers(folder, step, best)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or _io_reason(error)
        raise TrainingError(f"{final}: could not be saved: {reason}; older checkpoints are intact") from None
    fault("save:before_prune")
    branch = checkpoint.progress.branch
    needed = (step, best, *((branch.step, branch.selected) if branch else ()))
    _prune(folder, step, keep={folder_name(number) for number in needed if number is not None})
    return final


def write_state(folder: Path, curriculum: CurriculumState, progress: Progress, forks: dict[str, ForkState]) -> None:
    """Writes all of a checkpoint that is not tensors."""
    write_curriculum(folder / CURRICULUM, curriculum)
    (folder / PROGRESS).write_text(progress.text(), encoding="utf-8")
    if forks:
        write_forks(folder / FORKS, forks)


def _write_pointers(folder: Path, latest: int, best: int | None) -> None:
    write_pointer(folder, LATEST, latest)
    fault("save:after_latest")
    if best is not None and (folder / folder_name(best)).exists():
        write_pointer(folder, BEST, best)


def announce_damaged(error: TrainingError) -> None:
    """Says what is wrong with a checkpoint that is passed over."""
    announce(f"{error}; falling back to the one before")


def load_newest(folder: Path, pass_over: Callable[[TrainingError], object] = announce_damaged) -> Checkpoint | None:
    """The newest checkpoint that verifies, or None; `pass_over` is called with what is wrong with each damaged one.

    It also repairs `latest` and `best`: the process that saved may have been killed before it wrote them.
    """
    if folder.is_dir():
        _remove_leftovers(folder)
    for path in reversed(checkpoint_folders(folder)):
        try:
            found = load(path)
        except TrainingError as error:
            pass_over(error)
            continue
        _write_pointers(folder, found.progress.step, found.progress.selected_step)
        return found
    return None


def rewind_to(folder: Path, step: int) -> Checkpoint:
    """Removes all later checkpoints than that of the step, and returns that one. The newest goes first: a kill leaves
    a run that can be resumed."""
    found = load(folder / folder_name(step))
    later = [path for path in reversed(checkpoint_folders(folder)) if step_of(path) > step]
    for path in later:
        if not _is_ours(path):
            raise TrainingError(f"{path}: does not hold a checkpoint alone, and would be removed; move it first")
    for path in later:
        shutil.rmtree(path)
    _write_pointers(folder, step, found.progress.selected_step)
    return found


def load(path: Path) -> Checkpoint:
    """A checkpoint, verified."""
    problem = damage(path)
    if problem is not None:
        raise TrainingError(f"{path}: {problem}")
    return Checkpoint(
        model=load_tensors(path / MODEL),
        optimizer=load_tensors(path / OPTIMIZER),
        average=load_tensors(path / AVERAGE) if (path / AVERAGE).exists() else {},
        probe=_load_arrays(path / PROBE) if (path / PROBE).exists() else {},
        curriculum=read_curriculum(path / CURRICULUM),
        progress=Progress.read(path / PROGRESS),
        forks=read_forks(path / FORKS),
    )


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights to translate with: the average, if the checkpoint has one, otherwise those of the model."""
    return {name: tensor for name, tensor in load_tensors(path / weights_file(path)).items() if "@" not in name}


def load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a safetensors file. The format is data only: nothing in such a file is executed."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"{path.parent}: {path.name} cannot be read: {error}") from None


def _load_arrays(path: Path) -> dict[str, NDArray[np.float64]]:
    return {name: tensor.numpy() for name, tensor in load_tensors(path).items()}


def _io_reason(error: Exception) -> str:
    """The reason in a message of safetensors: `I/O error: No space left on device (os error 28)`."""
    found = re.search(r"(?:I/O error: )?([^:]*) \(os error \d+\)", str(error))
    return found[1].strip() if found else str(error).splitlines()[0]


def _remove_leftovers(folder: Path) -> None:
    """Removes what a killed save has left; called by the process that owns the run directory."""
    restore_all(folder)
    for path in folder.iterdir():
        if re.fullmatch(r"\.tmp-\d+-\d+", path.name):  # as version 0.1.0 named them
            shutil.rmtree(path, ignore_errors=True)


def _prune(folder: Path, step: int, keep: Iterable[str]) -> None:
    # A later checkpoint is damaged, or training would not be at this step: it does not count as one of the newest.
    for path in [path for path in checkpoint_folders(folder) if step_of(path) <= step][:-KEPT]:
        if path.name not in keep and _is_ours(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    """Whether a checkpoint has only files that training writes, so that it may be removed."""
    return path.is_dir() and not path.is_symlink() and holds_only(*FILES)(path)
