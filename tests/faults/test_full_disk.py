"""No space left: the message names the file, nothing that was there before is lost, and the command can be repeated."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import assert_done, assert_refused, cclm, limited, listing

RUN = "work/runs/small"
KIB = 1024


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


TRACEBACK = pytest.mark.xfail(strict=True, reason="traceback: SafetensorError")


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
        pytest.param(60 * KIB, id="optimizer", marks=TRACEBACK),
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


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="traceback: OSError without a file name")
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
    ],
)
def test_a_full_disk_is_named_by_every_command_that_writes(full: Path, tmp_path: Path, arguments: list[str]) -> None:
    """The message names a file below the work folder and the reason."""
    for name in ("report.html", "scores.json"):  # a file that would get the same content is not written
        (full / RUN / name).unlink(missing_ok=True)
    fill(tmp_path / "disk", 0)
    assert_refused(cclm(*arguments, folder=full), "work", "o space left", codes=[1])


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="traceback: SafetensorError")
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
