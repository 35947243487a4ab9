"""Files of a user's where cclm writes: in the folder of a run, a study or a sweep, and in the entries of the cache."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from command import (
    assert_done,
    assert_refused,
    cclm,
    descendants,
    finish,
    listing,
    running,
    signal_all,
    wait_for,
)

pytestmark = pytest.mark.slow
STUDY = "version: 1\nname: one\nrecipe: recipe.yaml\nseeds: [1]\narms: {ccl-m: {}}\n"
TINY = ("training.max_steps=2", "training.validate_every=2")
OTHER = ("vocabulary.pieces=60",)
OF_NO_RUN = "exists in a folder that is no run of cclm (it has no made_from.json); nothing was changed: move it"


def mine(place: Path, content: str = "mine: 1\n") -> Path:
    """A file that the user has written."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return place


@pytest.mark.parametrize(
    ("command", "name"),
    [("train", "log.jsonl"), ("sweep", "log.jsonl"), ("run", "config.yaml"), ("train", "environment.json"),
     ("run", "report.html")],
)  # fmt: skip
def test_a_folder_that_is_no_run_is_not_made_one(fresh: Path, command: str, name: str) -> None:
    """Other programs write their runs to `runs`, too: their logs and settings are neither emptied nor replaced."""
    folder = "small-max-0.3" if command == "sweep" else "small"
    mine(fresh / "work" / "runs" / folder / name)
    before = listing(fresh)
    arguments = [command, "recipe.yaml", *(("--threshold=0.3", "--aggregate=max") if command == "sweep" else ())]
    assert_refused(cclm(*arguments, folder=fresh), f"work/runs/{folder}/{name}: {OF_NO_RUN}", codes=[1])
    assert listing(fresh) == before


def test_a_trial_whose_folder_is_no_run_fails(fresh: Path) -> None:
    mine(fresh / "one.yaml", STUDY)
    log = mine(fresh / "work" / "runs" / "ccl-m.1" / "log.jsonl")
    ended = cclm("study", "one.yaml", *(f"changes.{change}" for change in TINY), folder=fresh)
    assert_refused(ended, f"work/runs/ccl-m.1/log.jsonl: {OF_NO_RUN}", codes=[1])
    assert listing(log.parent).keys() <= {"log.jsonl", "lock"}
    assert log.read_text() == "mine: 1\n"


def test_a_run_that_was_killed_while_it_began_is_begun_again(project: Path, run: Path) -> None:
    """Its settings are there, and nothing says yet what it is made from."""
    for path in sorted(run.iterdir()):
        if path.name not in ("config.yaml", "environment.json", "graph.json", "benchmark.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert_done(cclm("train", "recipe.yaml", *TINY, folder=project))


@pytest.mark.parametrize("name", ["report.md", "results.json"])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry run"])
def test_a_folder_that_is_no_study_is_not_made_one(fresh: Path, name: str, dry: tuple[str, ...]) -> None:
    """With `work: .`, the folder of a study is beside its recipe, where its user may have written a report."""
    mine(fresh / "studies" / "one" / "one.yaml", STUDY)
    mine(fresh / "studies" / "one" / name)
    before = listing(fresh)
    ended = cclm("study", "studies/one/one.yaml", "changes.work=.", *dry, folder=fresh)
    assert_refused(
        ended, f"studies/one/{name}: exists in a folder that was not made by cclm", "declared.json", codes=[1]
    )
    assert listing(fresh) == before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry run"])
def test_a_folder_that_is_no_sweep_is_not_made_one(fresh: Path, dry: tuple[str, ...]) -> None:
    mine(fresh / "work" / "sweeps" / "small" / "report.md")
    before = listing(fresh)
    ended = cclm("sweep", "recipe.yaml", *dry, folder=fresh)
    assert_refused(ended, "work/sweeps/small/report.md: exists in a folder that was not made by cclm", codes=[1])
    assert listing(fresh) == before


def test_damaged_data_is_not_replaced_while_it_has_files_of_a_user(fresh: Path) -> None:
    """work/prepared is a link: what a user puts there is in the cache."""
    notes = mine(fresh / "work" / "prepared" / "aze" / "notes.txt")
    (fresh / "work" / "prepared" / "counts.json").write_text("{}")
    before = listing(fresh / "work" / "cache")
    assert_refused(cclm("prepare", "recipe.yaml", folder=fresh), "aze/notes.txt: was not made by cclm", codes=[1])
    assert listing(fresh / "work" / "cache") == before
    notes.rename(fresh / "notes.txt")
    assert_done(cclm("prepare", "recipe.yaml", folder=fresh))


def test_clean_leaves_entries_with_files_of_a_user(fresh: Path) -> None:
    """They are named, and all others are removed."""
    entry = (fresh / "work" / "prepared").resolve()
    mine(fresh / "work" / "prepared" / "text" / "notes.txt")
    for pieces in (60, 70, 80):
        assert_done(cclm("prepare", "recipe.yaml", f"vocabulary.pieces={pieces}", "--workers", "1", folder=fresh))
    ended = cclm("clean", "work", folder=fresh)
    assert_refused(ended, f"{entry.relative_to(fresh)}/text/notes.txt: was not made by cclm; it stays", codes=[1])
    assert {path.name for path in entry.parent.iterdir()} == {entry.name, (fresh / "work/prepared").resolve().name}
    assert (entry / "text" / "notes.txt").is_file()
    assert (entry / "manifest.json").is_file()
    shutil.move(entry / "text", fresh / "moved")
    assert_done(cclm("clean", "work", folder=fresh))
    assert not entry.exists()


@pytest.mark.parametrize("name", ["notes.txt", "aze/notes.txt"])
def test_clean_leaves_bitext_models_with_files_of_a_user(fresh: Path, name: str) -> None:
    """In the folder of the models, or in that of one of them; without such a file, all of it is cclm's."""
    command = ["benchmark", "recipe.yaml", *TINY]
    assert_done(cclm(*command, "benchmark={max_steps: 2}", folder=fresh))
    assert_done(cclm("score", "work/runs/bitext", folder=fresh))
    entry = (fresh / "work" / "runs" / "bitext").resolve()
    notes = mine(entry / name)
    assert_done(cclm(*command, "benchmark={max_steps: 1}", folder=fresh))
    assert_refused(cclm("clean", "work", folder=fresh), f"{name}: was not made by cclm; it stays", codes=[1])
    assert notes.is_file()
    notes.unlink()
    assert_done(cclm("clean", "work", folder=fresh))
    assert not entry.exists()


def test_clean_leaves_an_entry_that_is_a_link(fresh: Path) -> None:
    """As where a user has moved data to another disk."""
    entry = (fresh / "work" / "prepared").resolve()
    shutil.move(entry, fresh / "disk")
    entry.symlink_to(fresh / "disk")
    assert_done(cclm("prepare", "recipe.yaml", *OTHER, folder=fresh))
    before = listing(fresh / "disk")
    assert_refused(cclm("clean", "work", folder=fresh), str(entry.relative_to(fresh)), "it stays", codes=[1])
    assert listing(fresh / "disk") == before


def test_clean_leaves_the_data_of_a_run_that_lost_its_settings(project: Path, run: Path) -> None:
    """made_from.json says which data it was trained on, too."""
    entry = (project / "work" / "prepared").resolve()
    (run / "config.yaml").unlink()
    assert_done(cclm("prepare", "recipe.yaml", *OTHER, folder=project))
    assert_done(cclm("clean", "work", folder=project))
    assert (entry / "manifest.json").is_file()


def test_text_that_is_changed_while_it_is_read_is_not_taken_for_what_it_was(fresh: Path) -> None:
    """The data is stored under the checksums of the text, which are computed before it is read."""
    for path in (fresh / "text").glob("*.train.tsv"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{i} {line}{i}\n" for i in range(100) for line in lines), encoding="utf-8")
    cache = fresh / "work" / "cache" / "prepared"
    before = listing(cache)
    with running("prepare", "recipe.yaml", "--workers", "1", folder=fresh) as process:
        wait_for(lambda: list(cache.glob(".*.cclm-*.tmp")), process)
        stopped = [process.pid, *descendants(process.pid)]
        signal_all(stopped, signal.SIGSTOP)
        with (fresh / "text" / "aze.train.tsv").open("a", encoding="utf-8") as text:
            text.write("one more\tbir daha\n")
        signal_all(stopped, signal.SIGCONT)
        ended = finish(process)
    assert_refused(ended, "aze.train.tsv: was changed while it was read", codes=[1])
    assert listing(cache) == before
    assert [name for name in os.listdir(cache) if name.endswith(".tmp")] == []
    assert_done(cclm("prepare", "recipe.yaml", "--workers", "1", folder=fresh))
