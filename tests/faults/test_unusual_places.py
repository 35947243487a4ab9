"""Streams that are closed, a current folder that is gone, a work folder that cannot be written to or was moved."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from command import assert_done, assert_refused, cclm, finish, limited, listing, read_json, running, start, wait_for

pytestmark = pytest.mark.slow


def closing(*numbers: int) -> Callable[[], None]:
    """For `prepare`: closes streams of the new process, as `2>&-` does in a shell."""

    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)], ids=["stdin", "stdout", "stderr", "all"])
def test_closed_streams_do_not_matter(fresh: Path, numbers: tuple[int, ...]) -> None:
    """No file gets the number of a closed stream, into which messages would be written."""
    assert finish(start("run", "recipe.yaml", folder=fresh, prepare=closing(*numbers))).code == 0
    assert (fresh / "work/runs/small/report.html").is_file()


def test_a_current_folder_that_was_deleted_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    ended = cclm("train", "phrasebook", "--dry-run", folder=folder, prepare=folder.rmdir)
    assert_refused(ended, "the current folder was deleted", codes=[2])


def test_a_terminal_of_unknown_width_gets_tables(project: Path) -> None:
    """Some programs say so by COLUMNS=0."""
    ended = cclm("score", "work/runs/small", folder=project, environment={"COLUMNS": "0"})
    assert_done(ended)
    assert "aze" in ended.stdout, ended


def test_a_model_in_a_folder_whose_name_is_no_utf8_is_named(project: Path) -> None:
    """CTranslate2 cannot open it; all else can be done there."""
    work = Path(os.fsdecode(b"w\xff"))
    (project / "work").rename(project / work)
    (project / "lines.txt").write_text("ev\n")
    assert_done(cclm("report", work / "runs" / "small", folder=project))
    ended = cclm("translate", work / "runs" / "small", "--source", "aze", "--input", "lines.txt", folder=project)
    assert_refused(ended, "w\\udcff/runs/small/ctranslate2", "UTF-8", "rename it", codes=[1])


@pytest.mark.parametrize(
    ("encoding", "work", "printed"),
    [("latin-1", "ə", "\\u0259"), ("utf-8:strict", os.fsdecode(b"w\xff"), "w\N{REPLACEMENT CHARACTER}")],
)
def test_a_path_that_standard_output_cannot_encode_is_printed(
    project: Path, encoding: str, work: str, printed: str
) -> None:
    """Escaped, or as the bytes that it has on disk, which a shell can use."""
    (project / "work").rename(project / work)
    run = Path(work) / "runs" / "small"
    ended = cclm("report", run, folder=project, environment={"PYTHONIOENCODING": encoding})
    assert_done(ended)
    assert f"{printed}/runs/small/report.html" in ended.stdout, ended


def test_a_folder_for_temporary_files_with_a_long_path_is_named(fresh: Path) -> None:
    """Python's processes find each other by sockets in it."""
    long = fresh / ("d" * 120)
    long.mkdir()
    command = ["benchmark", "recipe.yaml", "benchmark={max_steps: 2}", "training.max_steps=2"]
    assert_refused(cclm(*command, folder=fresh, environment={"TMPDIR": str(long)}), "TMPDIR", "shorter", codes=[1])


def test_too_little_memory_to_load_a_package_is_told_in_a_line(fresh: Path) -> None:
    few = limited(resource.RLIMIT_AS, 200 << 20)
    ended = cclm("prepare", "recipe.yaml", "work=other", "--workers", "1", folder=fresh, prepare=few)
    assert_refused(ended, "out of memory", codes=[1])


@pytest.mark.parametrize("name", ["work", "work/cache", "work/runs", "work/runs/small", "work/runs/small/checkpoints"])
def test_a_link_to_a_disk_that_is_not_mounted_is_named(project: Path, name: str) -> None:
    """No run begins anew because its checkpoints are not there."""
    (project / name).rename(project / "disk")
    (project / name).symlink_to(project / "scratch" / "disk")
    before = listing(project)
    ended = cclm("train", "recipe.yaml", folder=project)
    assert_refused(
        ended, f"{name}: a link to {project}/scratch/disk, which is not there; is its disk mounted?", codes=[1]
    )
    assert listing(project) == before


def test_a_run_that_is_deleted_while_it_is_trained_is_not_made_again(fresh: Path) -> None:
    """Checkpoints would appear without the log and the settings, with the advice to go on from there."""
    run = fresh / "work" / "runs" / "small"
    command = ["train", "recipe.yaml", "training.max_steps=1000000", "training.validate_every=1000000"]
    with running(*command, folder=fresh) as process:
        wait_for(lambda: (run / "log.jsonl").exists() and (run / "log.jsonl").stat().st_size, process)
        run.rename(fresh / "moved")
        ended = finish(process)
    assert_refused(ended, "work/runs/small was deleted, moved or replaced", codes=[1])
    assert not run.exists()


def test_a_run_is_extended_from_its_own_folder(project: Path) -> None:
    """`.` has no name of its own: the new run has that of the folder, and what is printed does, too."""
    for path in (project / "text").glob("aze.*"):
        (project / "text" / path.name.replace("aze", "glg")).write_bytes(path.read_bytes())
    losses = dict.fromkeys(["tur", "aze", "glg"], 4.0)
    (project / "table.json").write_text(json.dumps({"version": 1, "losses": losses}))
    new = {"data": {"low_resource": ["glg"], "path": str(project / "text")}, "training": {"max_steps": 2}}
    (project / "new.yaml").write_text(json.dumps(new | {"benchmark": {"file": str(project / "table.json")}}))
    run = project / "work" / "runs" / "small"
    assert_done(cclm("extend", ".", "--data", "../../../new.yaml", folder=run))
    assert read_json(run.with_name("small-extended") / "before.json")["run"] == "small"


def test_a_work_folder_that_was_moved_is_used_as_before(project: Path) -> None:
    before = listing(project / "work")
    (project / "work").rename(project / "elsewhere")
    assert_done(cclm("run", "recipe.yaml", "work=elsewhere", folder=project))
    after = listing(project / "elsewhere")
    assert {path for path in before if before[path] != after[path]} <= {
        "runs/small/config.yaml",
        "runs/small/report.html",
    }


def test_a_picture_does_not_replace_a_read_only_file(tmp_path: Path) -> None:
    """`simulate --svg` treats the file as `translate --output` does, also for root."""
    picture = tmp_path / "mine.svg"
    picture.write_text("mine")
    picture.chmod(0o444)
    command = ["simulate", "--no-thresholds", "max_steps=1000", "--svg", "mine.svg"]
    assert_refused(cclm(*command, folder=tmp_path), "mine.svg", "ermission", codes=[1])
    assert picture.read_text() == "mine"
    picture.unlink()
    assert_done(cclm(*command, folder=tmp_path))
    assert picture.read_text().startswith("<svg")
