"""Checkpoints: saved completely or not at all, verified before they are loaded."""

import json
from pathlib import Path

import pytest
import torch

from cclm.errors import TrainingError
from cclm.formats.checkpoint import Progress, damage
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
    told: list[str] = []
    (tmp_path / "step-00000003" / "manifest.json").write_text("{")
    (tmp_path / "step-00000002" / "optimizer.safetensors").unlink()
    found = checkpoints.load_newest(tmp_path, told.append)
    assert found is not None
    assert found.progress.step == 1
    assert len(told) == 2
    assert "manifest.json is missing or damaged; falling back" in told[0]
    assert "optimizer.safetensors is missing; falling back" in told[1]
    with pytest.raises(TrainingError, match=r"manifest\.json is missing or damaged"):
        checkpoints.load(tmp_path / "step-00000003")


def test_old_checkpoints_are_removed_but_never_the_best(tmp_path: Path) -> None:
    for step in range(1, 7):
        checkpoints.save(tmp_path, checkpoint(step, best=2 if step > 1 else None))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000002", "step-00000005", "step-00000006",
    ]  # fmt: skip
    assert (tmp_path / "best").read_text() == "step-00000002\n"
    assert (tmp_path / "latest").read_text() == "step-00000006\n"


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
