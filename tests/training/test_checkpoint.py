"""Checkpoints: saved completely or not at all, verified before they are loaded."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cclm.errors import TrainingError
from cclm.formats.checkpoint import Progress, checkpoint_folders, damage, step_of
from cclm.training import checkpoint as checkpoints


def checkpoint(step: int, best: int | None = None) -> checkpoints.Checkpoint:
    tensor = {"weight": torch.full((3,), float(step))}
    return checkpoints.Checkpoint(tensor, dict(tensor), {"round": 1}, Progress(step=step, selected_step=best))


def test_the_newest_undamaged_checkpoint_is_loaded(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, checkpoint(step, best=1))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000001", "step-00000002", "step-00000003",
    ]  # fmt: skip
    told: list[TrainingError] = []
    (tmp_path / "step-00000003" / "manifest.json").write_text("{")
    (tmp_path / "step-00000002" / "optimizer.safetensors").unlink()
    found = checkpoints.load_newest(tmp_path, told.append)
    assert found is not None
    assert found.progress.step == 1
    assert len(told) == 2
    assert str(told[0]).endswith("manifest.json is missing or damaged")
    assert str(told[1]).endswith("optimizer.safetensors is missing")
    with pytest.raises(TrainingError, match=r"manifest\.json is missing or damaged"):
        checkpoints.load(tmp_path / "step-00000003")


def halve(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def empty(folder: Path) -> None:
    (folder / "progress.json").write_bytes(b"")


def replace_by_a_foreign_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


@pytest.mark.parametrize("damage", [halve, empty, replace_by_a_foreign_folder])
def test_a_checkpoint_that_is_none_is_passed_over(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    for step in (1, 2):
        checkpoints.save(tmp_path, checkpoint(step))
    damage(tmp_path / "step-00000002")
    before = sorted((tmp_path / "step-00000002").iterdir())
    told: list[TrainingError] = []
    found = checkpoints.load_newest(tmp_path, told.append)
    assert found is not None
    assert found.progress.step == 1
    assert len(told) == 1
    assert "step-00000002" in str(told[0])
    assert sorted((tmp_path / "step-00000002").iterdir()) == before


def test_old_checkpoints_are_removed_but_never_the_best(tmp_path: Path) -> None:
    for step in range(1, 7):
        checkpoints.save(tmp_path, checkpoint(step, best=2 if step > 1 else None))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000002", "step-00000005", "step-00000006",
    ]  # fmt: skip
    assert (tmp_path / "best").read_text() == "step-00000002\n"
    assert (tmp_path / "latest").read_text() == "step-00000006\n"


def test_a_later_checkpoint_that_is_damaged_is_none_of_the_newest(tmp_path: Path) -> None:
    """Training goes on from an earlier one, and has two to fall back to again."""
    (tmp_path / "step-00000009").mkdir()
    for step in range(1, 5):
        checkpoints.save(tmp_path, checkpoint(step))
    assert [step_of(path) for path in checkpoint_folders(tmp_path)] == [3, 4, 9]


def test_a_checkpoint_of_another_version_is_not_loaded(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, checkpoint(1))
    manifest = json.loads((path / "manifest.json").read_text()) | {"version": 9}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TrainingError, match="version 9; this program reads 1"):
        checkpoints.load(path)


def test_a_place_that_cannot_be_written_to_leaves_the_old_checkpoint_alone(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, checkpoint(1))
    (tmp_path / "step-00000002").write_text("a file where the folder should be")
    with pytest.raises(TrainingError, match="step-00000002: could not be saved"):
        checkpoints.save(tmp_path, checkpoint(2))
    assert damage(tmp_path / "step-00000001") is None
    assert list(tmp_path.glob(".*")) == []


def test_checkpoints_are_ordered_by_step(tmp_path: Path) -> None:
    """Names have eight digits, and more where they are needed."""
    for step in (99_999_999, 100_000_000):
        checkpoints.save(tmp_path, checkpoint(step))
    found = checkpoints.load_newest(tmp_path)
    assert found is not None
    assert found.progress.step == 100_000_000
    assert [step_of(path) for path in checkpoint_folders(tmp_path)] == [99_999_999, 100_000_000]


def test_a_later_checkpoint_with_files_of_a_user_is_not_removed(tmp_path: Path) -> None:
    """Neither are others, so that the longer training begins completely or not at all."""
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, checkpoint(step, best=1))
    (tmp_path / "step-00000002" / "notes.txt").write_text("mine")
    with pytest.raises(TrainingError, match="step-00000002: does not hold a checkpoint alone"):
        checkpoints.rewind_to(tmp_path, 1)
    assert len(checkpoint_folders(tmp_path)) == 3
    (tmp_path / "step-00000002").rename(tmp_path / "mine")
    assert checkpoints.rewind_to(tmp_path, 1).progress.step == 1
    assert [path.name for path in checkpoint_folders(tmp_path)] == ["step-00000001"]


def test_what_a_killed_save_of_0_1_0_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, checkpoint(1))
    for name in (".tmp-00000002-77", ".tmp-notes", "tmp-2-77"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("")
    checkpoints.load_newest(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000001", "latest", ".tmp-notes", "tmp-2-77"}
