"""No space left: the message names the file, nothing that was there before is lost, and the command can be repeated."""

import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from command import assert_done, assert_refused, cclm, finish, limited, listing, running, wait_for

from cclm.errors import TrainingError
from cclm.formats.checkpoint import Progress
from cclm.training.checkpoint import Checkpoint, load_newest, save

RUN = "work/runs/small"
KIB = 1024
STUDY = "version: 1\nname: one\nrecipe: recipe.yaml\nseeds: [1]\narms: {ccl-m: {}}\n"


@contextmanager
def small_disk(folder: Path, size: str = "4m") -> Iterator[Path]:
    """A file system of its own for a folder, which is empty at first."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a file system: {mounted.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path, left: int) -> Path:
    """Fills the disk of a folder until `left` bytes are free; gives the file that does it."""
    filler = folder / "filler"
    space = os.statvfs(folder)
    with filler.open("wb") as file:
        file.write(bytes(max(space.f_bavail * space.f_frsize - left, 0)))
    return filler


@pytest.fixture
def full(project: Path, tmp_path: Path) -> Iterator[Path]:
    """The project folder with its work folder on a small disk."""
    with small_disk(tmp_path / "disk") as disk:
        shutil.move(project / "work", disk / "work")
        (project / "work").symlink_to(disk / "work")
        yield project


@pytest.mark.slow
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(0, id="lock"),
        pytest.param(4 * KIB, id="environment"),
        pytest.param(60 * KIB, id="optimizer"),
    ],
)
def test_training_on_a_full_disk_names_the_file_and_loses_nothing(full: Path, tmp_path: Path, left: int) -> None:
    """`train` ends with 1, the checkpoints stay as they were, and with space again the same command continues."""
    checkpoints = full / RUN / "checkpoints"
    before = listing(checkpoints)
    filler = fill(tmp_path / "disk", left)
    command = ["train", "recipe.yaml", "training.max_steps=30"]
    ended = cclm(*command, folder=full)
    assert_refused(ended, "small", "o space left", codes=[1])
    assert {name: sha for name, sha in listing(checkpoints).items() if name in before} == before
    assert [path.name for path in checkpoints.iterdir() if path.name.startswith(".")] == []
    filler.unlink()
    again = cclm(*command, folder=full)
    assert_done(again)
    assert (checkpoints / "step-00000030").is_dir()


def test_whatever_file_of_a_checkpoint_does_not_fit_the_one_before_stays(tmp_path: Path) -> None:
    """Each of its five small files takes a block, and `latest` another one: one block more lets the next one fit."""
    tensors = {"weight": torch.ones(3)}
    with small_disk(tmp_path / "disk") as disk:
        folder = disk / "checkpoints"
        for step in (1, 2, 3):  # the next one replaces one that is as large
            save(folder, Checkpoint(tensors, tensors, {"round": 1}, Progress(step=step, selected_step=step)))
        before = listing(folder)
        for blocks in range(6):
            filler = fill(disk, blocks * 4 * KIB)
            with pytest.raises(TrainingError, match=r"step-00000004: could not be saved: .*o space left"):
                save(folder, Checkpoint(tensors, tensors, {"round": 1}, Progress(step=4, selected_step=4)))
            filler.unlink()
            after = listing(folder)
            assert {name: after[name] for name in before if name.startswith("step-")} == {
                name: sha for name, sha in before.items() if name.startswith("step-")
            }
            assert [path.name for path in folder.rglob(".*")] == []
            found = load_newest(folder)
            assert found is not None
            assert found.progress.step == (3 if blocks < 5 else 4)  # it is complete before `latest` is written
            shutil.rmtree(folder / "step-00000004", ignore_errors=True)


@pytest.mark.slow
def test_a_log_that_cannot_grow_stops_the_training_cleanly(fresh: Path, tmp_path: Path) -> None:
    """`train` ends with 1 and names log.jsonl; with space again the same command begins or continues the run."""
    with small_disk(tmp_path / "disk") as disk:
        shutil.move(fresh / "work", disk / "work")
        (fresh / "work").symlink_to(disk / "work")
        filler = fill(disk, 40 * KIB)
        command = ["train", "recipe.yaml", "curriculum.every=1", "training.validate_every=1000"]
        assert_refused(cclm(*command, "training.max_steps=1000", folder=fresh), "log.jsonl", "o space left", codes=[1])
        filler.unlink()
        assert_done(cclm(*command, "training.max_steps=2", folder=fresh))


def test_translations_on_a_full_disk_name_the_file(full: Path, tmp_path: Path) -> None:
    """`translate` ends with 1 and names the file, and removes what it had written of it."""
    translations = full / RUN / "translations"
    shutil.rmtree(translations)
    fill(tmp_path / "disk", 0)
    ended = cclm("translate", RUN, folder=full)
    assert_refused(ended, "translations", "o space left", codes=[1])
    assert [path.name for path in (full / RUN).rglob(".*")] == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["prepare", "recipe.yaml", "work=work/other", "--workers", "1"], id="prepare"),
        pytest.param(["score", RUN], id="score"),
        pytest.param(["report", RUN], id="report"),
        pytest.param(["export", RUN, "--to", "ctranslate2"], id="export"),
        pytest.param(["benchmark", "recipe.yaml", "benchmark={max_steps: 2}"], id="benchmark"),
        pytest.param(["sweep", "recipe.yaml", "name=other", "--threshold", "0.3"], id="sweep"),
        pytest.param(["study", "one.yaml"], id="study"),
        pytest.param(["extend", RUN, "--data", "new.yaml"], id="extend"),
    ],
)
def test_a_full_disk_is_named_by_every_command_that_writes(full: Path, tmp_path: Path, arguments: list[str]) -> None:
    """The message names a file below the work folder and the reason."""
    (full / "one.yaml").write_text(STUDY)
    (full / "new.yaml").write_text("data: {low_resource: [glg]}\n")
    losses = dict.fromkeys(["tur", "aze", "glg"], 4.0)
    (full / "table.json").write_text(json.dumps({"version": 1, "losses": losses}))
    for path in (full / "text").glob("aze.*"):
        shutil.copy(path, path.with_name(path.name.replace("aze", "glg")))
    for name in ("report.html", "scores.json"):  # a file that would get the same content is not written
        (full / RUN / name).unlink(missing_ok=True)
    fill(tmp_path / "disk", 0)
    assert_refused(cclm(*arguments, folder=full), "work", "o space left", codes=[1])


@pytest.mark.slow
def test_a_file_size_limit_during_a_checkpoint_is_told_in_a_line(project: Path, run: Path) -> None:
    """Under `ulimit -f`, `train` ends with 1, names the checkpoint and keeps the ones before."""
    before = listing(run / "checkpoints")
    few = limited(resource.RLIMIT_FSIZE, 40 * KIB)
    ended = cclm("train", "recipe.yaml", "training.max_steps=30", folder=project, prepare=few)
    assert_refused(ended, "step-000000", "too large", codes=[1])
    assert listing(run / "checkpoints") == before


@pytest.mark.parametrize(
    "arguments",
    [["recipes"], ["--help"], ["simulate", "--no-thresholds"], ["runs", "work"], ["score", RUN], ["report", RUN],
     ["prepare", "recipe.yaml"],
     ["translate", RUN, "--source", "aze", "--input", "lines.txt"]],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_full_standard_output_is_told_in_a_line(project: Path, arguments: list[str]) -> None:
    """The command ends with 1 and says that standard output takes no more."""
    (project / "lines.txt").write_text("ev kitab su.\n")
    with open("/dev/full", "wb") as full:
        ended = cclm(*arguments, folder=project, stdout=full)
    assert_refused(ended, "standard output", "o space left", codes=[1])
    assert "Exception ignored" not in ended.stderr, ended


def gone() -> int:
    """A pipe that nobody reads from any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.slow
@pytest.mark.parametrize("open_stderr", [lambda: os.open("/dev/full", os.O_WRONLY), gone], ids=["full", "gone"])
def test_a_full_standard_error_does_not_change_the_exit_code(project: Path, open_stderr: Callable[[], int]) -> None:
    """A message that cannot be printed is lost, and nothing else: wrong settings end with 2, a training goes on."""
    stderr = open_stderr()
    commands = ("train nothing.yaml", "train --nonsense", "run recipe.yaml training.max_steps=21")
    ended = {command: cclm(*command.split(), folder=project, stderr=stderr).code for command in commands}
    os.close(stderr)
    assert list(ended.values()) == [2, 2, 0], ended
    assert (project / RUN / "checkpoints" / "step-00000021").is_dir()


@pytest.mark.slow
def test_a_full_standard_error_does_not_end_a_study(fresh: Path) -> None:
    """The trainings of a study go on where its progress cannot be printed."""
    (fresh / "one.yaml").write_text(STUDY)
    with open("/dev/full", "wb") as full:
        ended = cclm("study", "one.yaml", folder=fresh, stderr=full)
    assert ended.code == 0, ended
    assert (fresh / "work/studies/one/results.json").is_file()


@pytest.mark.slow
def test_a_signal_where_standard_error_is_full_ends_with_its_code(fresh: Path) -> None:
    """A training that is interrupted saves its state and ends with 143, also if it cannot say so."""
    command = ["train", "recipe.yaml", "training.max_steps=1000000", "training.validate_every=1000000"]
    log = fresh / RUN / "log.jsonl"
    with open("/dev/full", "wb") as full, running(*command, folder=fresh, stderr=full) as process:
        wait_for(lambda: log.exists() and log.stat().st_size, process)
        process.terminate()
        assert finish(process).code == 128 + signal.SIGTERM
