"""Settings and arguments that make no sense: exit code 2, and a message that names the key and the value."""

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from command import assert_done, assert_refused, cclm, limited, listing

RUN = "work/runs/small"
HUGE = str(10**30)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        f"seed={HUGE}",
        f"training.batch_tokens={HUGE}",
        f"vocabulary.pieces={HUGE}",
        "curriculum.gate.threshold=.nan",
        "training.learning_rate=.inf",
        "training.learning_rate=.nan",
        "training.device=meta",
        "training.device=nonsense",
        'work="a\\0b"',
        'data.path="a\\0b"',
    ],
)
def test_a_value_without_meaning_is_refused_with_its_key(fresh: Path, change: str) -> None:
    """`train` ends before it has trained anything, and the message names the key."""
    ended = cclm("train", "recipe.yaml", "training.max_steps=2", change, folder=fresh, limit=30)
    assert_refused(ended, change.partition("=")[0])
    assert not (fresh / RUN).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["inf", "nan", "-inf"],
)
def test_a_sweep_refuses_a_threshold_that_is_no_number(fresh: Path, value: str) -> None:
    """`--threshold` takes finite numbers only."""
    ended = cclm("sweep", "recipe.yaml", f"--threshold={value}", "training.max_steps=2", folder=fresh)
    assert_refused(ended, "--threshold", value, codes=[2])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--threshold=0.3", "--threshold=0.30000001"], "small-max-0.3"),
        (["--threshold=1e16"], "small-max-1e+16"),
        (["--threshold=0.3", "name=" + 60 * "n"], 60 * "n"),
    ],
    ids=["the same name", "no name", "a long name"],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry run"])
def test_a_sweep_refuses_thresholds_that_cannot_name_runs(
    fresh: Path, arguments: list[str], named: str, dry: tuple[str, ...]
) -> None:
    """Two thresholds of one name would be one run, and the second line of the table that of the first."""
    before = listing(fresh)
    ended = cclm("sweep", "recipe.yaml", "--aggregate=max", *arguments, *dry, folder=fresh)
    assert_refused(ended, "threshold", named, codes=[2])
    assert listing(fresh) == before


def test_a_study_refuses_a_seed_that_makes_the_name_of_a_run_too_long(fresh: Path) -> None:
    """Before the study is declared, whichever of its seeds it is."""
    arm = 60 * "a"
    study = {"version": 1, "name": "one", "recipe": "recipe.yaml", "seeds": [1, 100_000], "arms": {arm: {}}}
    (fresh / "one.yaml").write_text(json.dumps(study))
    before = listing(fresh)
    ended = cclm("study", "one.yaml", folder=fresh)
    assert_refused(ended, f"one.yaml: arm {arm}", f"{arm}.100000", codes=[2])
    assert listing(fresh) == before


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(("command", "option"), [("score", "--scorer-timeout"), ("serve", "--timeout")])
def test_a_time_limit_that_is_no_number_is_refused(project: Path, command: str, option: str, value: str) -> None:
    """No bound excludes NaN: every comparison with it is false."""
    assert_refused(cclm(command, RUN, option, value, folder=project, limit=20), option, value, codes=[2])


@pytest.mark.slow
@pytest.mark.parametrize("value", ["", "x"])
def test_a_malformed_variable_of_torchrun_is_named_or_counts_as_not_set(fresh: Path, value: str) -> None:
    """An empty variable counts as not set; another that is no number is named with its value."""
    ended = cclm("train", "recipe.yaml", "training.max_steps=2", folder=fresh, environment={"WORLD_SIZE": value})
    if value:
        assert_refused(ended, "WORLD_SIZE", repr(value))
    else:
        assert_done(ended)


@pytest.mark.parametrize("name", ["a[/]b", "[red]"])
def test_square_brackets_in_a_path_are_printed_as_they_are(fresh: Path, name: str) -> None:
    """A work folder may have any name that the file system takes, and it is printed literally."""
    ended = cclm("prepare", "recipe.yaml", f"work='{name}'", "--workers", "1", folder=fresh)
    assert_done(ended)
    assert name in ended.stdout


@pytest.mark.slow
def test_square_brackets_in_the_folder_of_the_phrasebook_are_printed_as_they_are(tmp_path: Path) -> None:
    """`phrasebook` takes a folder of any name, too."""
    ended = cclm("phrasebook", "--out", "a[/]b", folder=tmp_path)
    assert_done(ended)
    assert "a[/]b" in ended.stdout


@pytest.mark.parametrize("name", ["models", "manifest.json"])
def test_a_language_with_the_name_of_a_file_of_ours_is_prepared_or_refused(fresh: Path, name: str) -> None:
    """The name of a language never collides with the files of the prepared data."""
    for split in ("train", "dev", "test"):
        shutil.copy(fresh / "text" / f"aze.{split}.tsv", fresh / "text" / f"{name}.{split}.tsv")
    change = f"data.low_resource=[{name}]"
    ended = cclm("prepare", "recipe.yaml", "work=other", change, "--workers", "1", folder=fresh)
    if ended.code:
        assert_refused(ended, name, "data.low_resource", codes=[2])


@pytest.mark.slow
def test_a_recipe_that_is_a_fifo_is_refused_at_once(fresh: Path) -> None:
    """A file that is not a regular file is named; nothing waits for a writer that may never come."""
    os.mkfifo(fresh / "pipe.yaml")
    assert_refused(cclm("train", "pipe.yaml", folder=fresh, limit=10), "pipe.yaml", codes=[2])


@pytest.mark.parametrize("key", ["benchmark.file", "graph.file"])
def test_a_table_that_is_a_fifo_is_refused_at_once(fresh: Path, key: str) -> None:
    """So is a table of losses or similarities, which would be read in the same way."""
    os.mkfifo(fresh / "pipe.json")
    ended = cclm("train", "recipe.yaml", f"{key}=pipe.json", folder=fresh, limit=10)
    assert_refused(ended, "pipe.json", "not a regular file")


def test_text_that_is_a_fifo_is_refused_at_once(fresh: Path) -> None:
    """Text is read several times, which a pipe does not allow."""
    (fresh / "text" / "aze.dev.tsv").unlink()
    os.mkfifo(fresh / "text" / "aze.dev.tsv")
    assert_refused(cclm("prepare", "recipe.yaml", "--workers", "1", folder=fresh, limit=10), "aze.dev.tsv")


def test_a_recipe_with_a_python_tag_runs_nothing(fresh: Path) -> None:
    """YAML is data: a tag that would call a function is refused."""
    (fresh / "evil.yaml").write_text(f"version: !!python/object/apply:os.mkdir ['{fresh}/trap']\n")
    assert_refused(cclm("train", "evil.yaml", folder=fresh), "evil.yaml", codes=[2])
    assert not (fresh / "trap").exists()


@pytest.mark.parametrize("option", ["--source", "--target"])
def test_an_empty_language_is_refused(project: Path, option: str) -> None:
    """`--source ''` is a mistake in a script, and not the request to translate the test sets."""
    ended = cclm("translate", RUN, option, "", folder=project)
    assert_refused(ended, option, codes=[2])


@pytest.mark.parametrize("path", ["text/{lang", "text/{lang}.{splt}.tsv"])
def test_a_path_pattern_that_cannot_be_filled_in_is_refused(fresh: Path, path: str) -> None:
    """The message names data.path, the pattern, and what a pattern may contain."""
    ended = cclm("prepare", "recipe.yaml", f"data.path='{path}'", "work=other", "--workers", "1", folder=fresh)
    assert_refused(ended, path, "{lang}", "{split}")


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["10000", HUGE])
def test_threads_are_capped(project: Path, threads: str) -> None:
    """More threads than cores are of no use: the number is lowered, or refused by the name of its option."""
    (project / "lines.txt").write_text("ev kitab su.\n")
    text = ["translate", RUN, "--source", "aze", "--input", "lines.txt"]
    few = limited(resource.RLIMIT_AS, 4 << 30)  # the stacks of 10,000 threads do not fit into it
    ended = cclm(*text, "--threads", threads, folder=project, prepare=few)
    if ended.code:
        assert_refused(ended, "--threads", codes=[2])
    else:
        assert_done(ended)
        assert ended.stdout == cclm(*text, "--threads", "1", folder=project).stdout


@pytest.mark.parametrize(
    "command",
    [
        ["prepare", "recipe.yaml", "work=other", "--workers", HUGE],
        ["compare", RUN, RUN, "--samples", HUGE],
        ["phrasebook", "--out", "book", "--size", f"aze={HUGE},1,1"],
        ["score", RUN, "--scorer", "mine=true", "--scorer-timeout", HUGE],
    ],
    ids=lambda command: f"{command[0]} {command[-2]}",
)
def test_a_huge_value_of_an_option_is_refused(project: Path, command: list[str]) -> None:
    """The message names the option, and nothing is made of the number before."""
    assert_refused(cclm(*command, folder=project, limit=20), command[-2])


@pytest.mark.slow
def test_a_warning_does_not_show_our_source(fresh: Path) -> None:
    """A low-resource language that resembles no other is a warning in words, without a line of code."""
    graph = {"version": 1, "k": None, "high_resource": ["tur"], "low_resource": ["aze"]}
    (fresh / "mine.json").write_text(json.dumps({**graph, "similarity": {"aze": {"tur": 0.0}}}))
    ended = cclm("train", "recipe.yaml", "graph.file=mine.json", "training.max_steps=1", folder=fresh)
    assert_done(ended)
    assert "aze" in ended.stderr, ended
    assert ".py" not in ended.stderr, ended


@pytest.mark.slow
def test_a_work_folder_that_cannot_be_written_is_refused_before_anything_is_done(fresh: Path, tmp_path: Path) -> None:
    """`train` names the read-only folder at once, and not after the data has been read."""
    readonly = tmp_path / "readonly"
    readonly.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", readonly], check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    (fresh / "text" / "aze.train.tsv").unlink()
    (fresh / "text" / "aze.train.tsv").symlink_to("/proc/self/mem")  # reading it is an error
    try:
        ended = cclm("train", "recipe.yaml", f"work={readonly}/work", folder=fresh)
    finally:
        subprocess.run(["umount", "--lazy", readonly], check=True)
    assert_refused(ended, "readonly", "ead-only", codes=[1])


@pytest.mark.slow
def test_a_read_only_work_folder_is_used_as_far_as_it_goes_and_then_refused(fresh: Path) -> None:
    """Prepared data on a read-only disk can be looked at; what would be made beside it is refused with the way out."""
    work = fresh / "work"
    assert_done(cclm("prepare", "recipe.yaml", folder=fresh))
    mount = ["mount", "--bind", work, work], ["mount", "-o", "remount,bind,ro", work, work]
    if subprocess.run(mount[0], check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        subprocess.run(mount[1], check=True)
        looked = cclm("prepare", "recipe.yaml", folder=fresh)
        refused = cclm("train", "recipe.yaml", folder=fresh)
    finally:
        subprocess.run(["umount", "--lazy", work], check=True)
    assert_done(looked)
    assert_refused(refused, "read-only", "work=FOLDER", codes=[1])
