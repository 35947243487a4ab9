"""Data, exports or logs that no longer belong to a run: the same numbers as before come out, or a refusal."""

import json
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from command import (
    Ended,
    assert_done,
    assert_refused,
    cclm,
    descendants,
    finish,
    listing,
    read_json,
    rewrite_manifest,
    running,
    signal_all,
    wait_for,
)

RUN = "work/runs/small"


def swap_letters(path: Path) -> None:
    """Changes the text of a file and keeps the number of its lines and characters."""
    swapped = str.maketrans("aeioudrkt", "eioaurdtk")
    path.write_text(path.read_text(encoding="utf-8").translate(swapped), encoding="utf-8")


def other_text(project: Path) -> None:
    """Makes `other`, a copy of the text folder with other words in it."""
    shutil.copytree(project / "text", project / "other")
    for path in (project / "other").iterdir():
        swap_letters(path)


def assert_same_or_refused(ended: Ended, expected: object, found: object, *named: str) -> None:
    if ended.code == 0:
        assert found == expected
    else:
        assert_refused(ended, *named)


@pytest.mark.slow
def test_scores_stay_the_same_when_other_data_is_prepared_in_the_work_folder(project: Path, run: Path) -> None:
    """`score` translates with the data that the run was trained on, or names the data and refuses."""
    before = read_json(run / "scores.json")["languages"]
    other_text(project)
    assert_done(cclm("prepare", "recipe.yaml", "data.path=other", "--workers", "1", folder=project))
    shutil.rmtree(run / "translations")
    shutil.rmtree(run / "ctranslate2")
    ended = cclm("score", RUN, "--json", folder=project)
    after = json.loads(ended.stdout)["languages"] if ended.code == 0 else None
    assert_same_or_refused(ended, before, after, RUN, "prepare")


@pytest.mark.slow
def test_an_export_uses_the_data_of_its_run(project: Path, run: Path) -> None:
    """`translate --source` gives the same text after other data was prepared, or names the data and refuses."""
    text = ["translate", RUN, "--source", "aze", "--input", "lines.txt"]
    (project / "lines.txt").write_text("ev kitab su.\n")
    before = cclm(*text, folder=project)
    assert_done(before)
    other_text(project)
    assert_done(cclm("prepare", "recipe.yaml", "data.path=other", "--workers", "1", folder=project))
    shutil.rmtree(run / "ctranslate2")
    ended = cclm(*text, folder=project)
    assert_same_or_refused(ended, before.stdout, ended.stdout, RUN, "prepare")


@pytest.mark.slow
def test_an_exported_folder_uses_the_data_of_its_run(project: Path) -> None:
    """`export` writes the same files after other data was prepared."""
    export = ["export", RUN, "--to", "ctranslate2", "--output"]
    assert_done(cclm(*export, "before", folder=project))
    other_text(project)
    assert_done(cclm("prepare", "recipe.yaml", "data.path=other", "--workers", "1", folder=project))
    assert_done(cclm(*export, "after", folder=project))
    assert listing(project / "after") == listing(project / "before")


@pytest.mark.slow
def test_a_refused_run_leaves_the_prepared_data_alone(project: Path, run: Path) -> None:
    """`cclm run` over changed text refuses to continue the run, and the data of that run is still there afterwards."""
    before = read_json(run / "scores.json")["languages"]
    original = (project / "text" / "aze.train.tsv").read_bytes()
    swap_letters(project / "text" / "aze.train.tsv")
    assert_refused(cclm("run", "recipe.yaml", folder=project), RUN, codes=[1])
    (project / "text" / "aze.train.tsv").write_bytes(original)
    shutil.rmtree(run / "translations")
    shutil.rmtree(run / "ctranslate2")
    ended = cclm("score", RUN, "--json", folder=project)
    assert_done(ended)
    assert json.loads(ended.stdout)["languages"] == before


@pytest.mark.slow
def test_preparing_other_data_while_reference_losses_are_trained_does_not_change_them(fresh: Path) -> None:
    """Either command may refuse; if `benchmark` succeeds, it is with the losses of an undisturbed one."""
    (fresh / "other").mkdir()
    for path in (fresh / "text").iterdir():  # the same words, but no line is the translation of the other
        lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        pairs = zip(lines, lines[7:] + lines[:7], strict=True)
        (fresh / "other" / path.name).write_text("".join(f"{first[0]}\t{second[1]}\n" for first, second in pairs))
    command = ["benchmark", "recipe.yaml", "benchmark={max_steps: 10}", "--at-once", "1"]
    alone = cclm(*command, "work=alone", folder=fresh)
    assert_done(alone)
    with running(*command, folder=fresh) as process:
        wait_for(lambda: list((fresh / "work").glob("runs/bitext/*/log.jsonl")), process)
        stopped = [process.pid, *descendants(process.pid)]
        signal_all(stopped, signal.SIGSTOP)
        with running("prepare", "recipe.yaml", "data.path=other", "--workers", "1", folder=fresh) as other:
            with suppress(subprocess.TimeoutExpired):  # it may wait for the other one
                other.wait(10)
            signal_all(stopped, signal.SIGCONT)
            ended = finish(process)
    assert_same_or_refused(ended, alone.stdout, ended.stdout, "prepare")


def test_a_test_set_edited_at_equal_length_is_not_scored_as_the_old_one(project: Path, run: Path) -> None:
    """`score` uses the references that were prepared, or names the changed test set and refuses."""
    before = read_json(run / "scores.json")
    path = project / "text" / "aze.test.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line[::-1].partition(chr(9))[2]}\t{line.partition(chr(9))[2]}\n" for line in lines))
    shutil.rmtree(run / "translations")
    ended = cclm("score", RUN, "--json", folder=project)
    after = json.loads(ended.stdout) if ended.code == 0 else None
    assert_same_or_refused(ended, before, after, "aze", "test")


STUDY = """version: 1
name: arms
recipe: recipe.yaml
seeds: [1]
changes: {training.max_steps: 4, training.validate_every: 4}
arms:
  base: {}
  vocabulary.pieces: {vocabulary.pieces: 60}
  data.max_tokens: {data.max_tokens: 20}
  data.duplicates: {data.duplicates: drop}
"""


@pytest.fixture(scope="module")
def study_of_data_settings(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """A study whose arms differ from `base` in a setting of the data, each named after the setting."""
    folder = Path(shutil.copytree(untrained, tmp_path_factory.mktemp("study") / "project"))
    for path in (folder / "text").glob("*.train.tsv"):
        path.write_bytes(path.read_bytes() * 2)
    (folder / "arms.yaml").write_text(STUDY)
    return folder, cclm("study", "arms.yaml", folder=folder)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["vocabulary.pieces", "data.max_tokens", "data.duplicates"])
def test_a_study_arm_that_changes_the_data_gets_its_own_data(
    study_of_data_settings: tuple[Path, Ended], key: str
) -> None:
    """Such an arm is trained on data prepared by its settings, or refused with its key before the first training."""
    folder, ended = study_of_data_settings
    if ended.code == 2:
        assert_refused(ended, key)
        return
    assert_done(ended)
    runs = [folder / "work/runs" / f"{arm}.1" for arm in ("base", key)]
    assert all((run / "scores.json").is_file() for run in runs)
    first, other = ((run / "config.yaml").read_text().splitlines()[0] for run in runs)
    assert re.fullmatch(r"# cache: prepared [0-9a-f]{16} .*", first)
    assert first.split()[3] != other.split()[3]  # the key of the prepared data


@pytest.mark.slow
def test_the_name_bitext_is_reserved(project: Path) -> None:
    """A run cannot have the name of the folder that the bilingual models are in."""
    assert_refused(cclm("train", "recipe.yaml", "name=bitext", folder=project), "name", "bitext", codes=[2])
    (project / "new.yaml").write_text("data: {low_resource: [glg]}\n")
    ended = cclm("extend", "work/runs/small", "--data", "new.yaml", "name=bitext", "--dry-run", folder=project)
    assert_refused(ended, "name", "bitext", codes=[2])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "run", "sweep"])
def test_a_run_does_not_continue_with_another_graph(project: Path, command: str) -> None:
    """Similarities of the user's own that are edited between two parts of a training are refused with both files."""
    graph = project / "mine.json"
    shutil.copy(project / "work" / "graph.json", graph)
    arguments = [
        "recipe.yaml",
        "name=other",
        "graph.file=mine.json",
        *(["--threshold=0.3"] if command == "sweep" else []),
    ]
    assert_done(cclm(command, *arguments, "training.max_steps=2", folder=project))
    content = read_json(graph)
    graph.write_text(json.dumps(content))  # other spaces, the same similarities
    assert_done(cclm(command, *arguments, "training.max_steps=3", folder=project))
    content["similarity"]["aze"]["tur"] /= 2
    graph.write_text(json.dumps(content))
    ended = cclm(command, *arguments, "training.max_steps=4", folder=project)
    assert_refused(ended, "mine.json", "other", "graph.json", codes=[1])


@pytest.mark.parametrize("pattern", ["model.bin", "aze.model", "source_vocabulary.json"])
def test_a_changed_byte_in_an_exported_model_is_noticed(project: Path, run: Path, pattern: str) -> None:
    """A damaged export is made anew or refused by name, and never used."""
    (path,) = run.rglob(pattern)
    original = path.read_bytes()
    middle = len(original) // 2
    path.write_bytes(original[:middle] + bytes([original[middle] ^ 1]) + original[middle + 1 :])
    (project / "lines.txt").write_text("ev kitab su.\n")
    ended = cclm("translate", RUN, "--source", "aze", "--input", "lines.txt", folder=project)
    if ended.code == 0:
        assert path.read_bytes() == original
    else:
        assert_refused(ended, path.name)


@pytest.mark.slow
def test_two_trainings_in_two_pid_namespaces_do_not_share_a_run(fresh: Path) -> None:
    """The second one waits for the first and names the run directory, although neither process sees the other."""
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    log = fresh / RUN / "log.jsonl"
    command = ["train", "recipe.yaml", "training.validate_every=1000000"]
    with running(*command, "training.max_steps=1000000", folder=fresh, before=alone) as process:
        wait_for(lambda: log.exists() and log.stat().st_size, process)
        with running(*command, "training.max_steps=5", folder=fresh, before=alone) as second:
            said = b""
            while RUN.encode() not in said:
                assert second.stderr is not None
                said = second.stderr.readline()
                assert said, finish(second)
            assert b"waiting for" in said
            assert process.poll() is None, finish(process)
            assert second.poll() is None


@pytest.mark.slow
@pytest.mark.parametrize("left", [None, 300], ids=["deleted", "shortened"])
def test_a_run_does_not_continue_a_log_that_lost_its_beginning_or_end(
    run: Path, project: Path, left: int | None
) -> None:
    """`train` names log.jsonl and refuses, or repeats the lost part; it never pads the log."""
    log = run / "log.jsonl"
    original = log.read_bytes()
    if left is None:
        log.unlink()
    else:
        log.write_bytes(original[:left])
    ended = cclm("train", "recipe.yaml", "training.max_steps=25", folder=project)
    if ended.code == 0:
        assert log.read_bytes().startswith(original[: original.index(b'"stopped"') - 12])
    else:
        assert_refused(ended, "log.jsonl", codes=[1])


def test_a_report_of_a_damaged_log_says_where_it_is_damaged(run: Path, project: Path) -> None:
    """`report` names log.jsonl and the line, and does not advise to resume a run that is finished."""
    log = run / "log.jsonl"
    log.write_bytes(b"\0" * 400 + b"\n" + log.read_bytes().partition(b"\n")[2])
    ended = cclm("report", RUN, folder=project)
    assert_refused(ended, "log.jsonl", "line 1")
    assert "resume" not in ended.stderr, ended


@pytest.mark.slow
def test_checkpoints_whose_settings_are_lost_do_not_continue_with_other_settings(run: Path, project: Path) -> None:
    """Without the files that say what a run was made from, `train` refuses to continue its checkpoints."""
    for path in run.iterdir():
        if path.is_file() and path.name != "log.jsonl":
            path.unlink()
    before = listing(run / "checkpoints")
    ended = cclm("train", "recipe.yaml", "training.learning_rate=0.5", "training.max_steps=25", folder=project)
    assert_refused(ended, RUN, codes=[1])
    assert listing(run / "checkpoints") == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["progress.json", "curriculum.json"],
)
def test_a_checkpoint_of_a_newer_version_is_refused(run: Path, project: Path, name: str) -> None:
    """The message names the file, its version and the version that this program reads."""
    for checkpoint in (run / "checkpoints").glob("step-*"):
        content = read_json(checkpoint / name)
        (checkpoint / name).write_text(json.dumps({**content, "version": 99}))
        rewrite_manifest(checkpoint)
    ended = cclm("train", "recipe.yaml", "training.max_steps=25", folder=project)
    assert_refused(ended, name, "99", codes=[1])
