"""Damaged, foreign and malicious files: one line names the file and the reason, and nothing in them is executed."""

import hashlib
import json
import os
import pickle
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import (
    assert_done,
    assert_refused,
    cclm,
    finish,
    limited,
    read_json,
    rewrite_manifest,
    running,
    signal_group,
    wait_for,
)

RUN = "work/runs/small"
MORE = ["train", "recipe.yaml", "training.max_steps=25"]


def test_a_runs_folder_behind_a_symlink_can_be_scored(project: Path, tmp_path: Path) -> None:
    """work/runs may be a symbolic link to another disk: the work folder is where the link is."""
    shutil.move(project / "work" / "runs", tmp_path / "scratch")
    (project / "work" / "runs").symlink_to(tmp_path / "scratch")
    assert_done(cclm("score", RUN, folder=project))


def test_a_run_behind_a_symlink_can_be_started_from(project: Path, tmp_path: Path) -> None:
    """The prepared data of such a run is found where the link is."""
    shutil.move(project / "work" / "runs", tmp_path / "scratch")
    (project / "work" / "runs").symlink_to(tmp_path / "scratch")
    add_language(project)
    assert_done(cclm("extend", RUN, "--data", "new.yaml", "--dry-run", folder=project))


def add_language(project: Path) -> None:
    """Writes new.yaml, which adds the language glg to a run."""
    for path in (project / "text").glob("aze.*"):
        shutil.copy(path, path.with_name(path.name.replace("aze", "glg")))
    (project / "new.yaml").write_text("data: {low_resource: [glg]}\n")
    (project / "table.json").write_text(json.dumps({"version": 1, "losses": dict.fromkeys(["tur", "aze", "glg"], 4.0)}))


# --- text -------------------------------------------------------------------------------------------------------------


def test_text_that_a_broken_disk_does_not_give_is_named(fresh: Path) -> None:
    """An error while reading has no file name of its own."""
    text = fresh / "text" / "aze.train.tsv"
    text.unlink()
    text.symlink_to("/proc/self/mem")  # reading it is an error
    ended = cclm("prepare", "recipe.yaml", "--workers", "1", folder=fresh)
    assert_refused(ended, "aze.train.tsv", "Input/output error", codes=[1])


NO_REFERENCES = "\tev kitab.\n\tsu yol.\n"


@pytest.mark.parametrize(
    ("split", "content"),
    [
        pytest.param("test", "", id="no test lines"),
        pytest.param("test", NO_REFERENCES, id="no test references"),
        pytest.param("dev", "", id="no dev lines"),
        pytest.param("dev", NO_REFERENCES, id="no dev references"),
    ],
)
def test_an_empty_set_is_refused_before_anything_is_trained(fresh: Path, split: str, content: str) -> None:
    """`prepare` names the language and the split of a dev or test set in which there is nothing to compare with."""
    (fresh / "text" / f"aze.{split}.tsv").write_text(content)
    ended = cclm("prepare", "recipe.yaml", "--workers", "1", folder=fresh)
    assert_refused(ended, "aze", split, codes=[1])


@pytest.mark.slow
def test_a_language_without_a_test_set_is_named_where_means_are_printed(project: Path) -> None:
    """`run` scores the other languages and says which language the means leave out."""
    (project / "text" / "aze.test.tsv").unlink()
    ended = cclm("run", "recipe.yaml", "name=other", "training.max_steps=2", folder=project)
    assert_done(ended)
    scored = ended.stderr[ended.stderr.index("score") :] + ended.stdout
    assert "aze" in scored, ended


@pytest.mark.parametrize(
    "content",
    [b"bird\n", b"\xff\xfe" * 20 + b"\n"],
    ids=["truncated", "not UTF-8"],
)
def test_damaged_translations_are_not_scored(project: Path, run: Path, content: bytes) -> None:
    """`score` translates again, to the same scores, or names the damaged file."""
    before = read_json(run / "scores.json")["languages"]
    (run / "translations" / "test.aze-eng.txt").write_bytes(content)
    ended = cclm("score", RUN, "--json", folder=project)
    if ended.code == 0:
        assert json.loads(ended.stdout)["languages"] == before
    else:
        assert_refused(ended, "test.aze-eng.txt")


TMX = """<?xml version="1.0" encoding="{encoding}"?>
<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>
"""
UNIT = '<tu><tuv xml:lang="en"><seg>house {0}</seg></tuv><tuv xml:lang="ja"><seg>家 {0}</seg></tuv></tu>'


@pytest.mark.parametrize("declared", ["Shift_JIS", "no-such-encoding"])
def test_a_tmx_file_in_an_encoding_that_is_not_read_is_named(tmp_path: Path, declared: str) -> None:
    """`prepare` names the file and the encoding that it declares, and says to convert it to UTF-8."""
    for split in ("train", "dev"):
        text = TMX.format(encoding=declared, units="".join(UNIT.format(i) for i in range(30)))
        (tmp_path / f"jpn.{split}.tmx").write_bytes(text.encode("shift_jis"))
    recipe = "version: 1\nname: x\nwork: work\ndata: {format: tmx, path: ., high_resource: [jpn], low_resource: []}\n"
    (tmp_path / "recipe.yaml").write_text(recipe)
    ended = cclm("prepare", "recipe.yaml", "--workers", "1", folder=tmp_path)
    assert_refused(ended, "jpn.", declared, "UTF-8", codes=[1])


@pytest.mark.slow
@pytest.mark.parametrize(("command", "key"), [("graph", "graph.file"), ("train", "benchmark.file")])
def test_a_table_that_is_no_table_is_named(fresh: Path, command: str, key: str) -> None:
    """A graph or a table of reference losses that is nested without end is refused by its name."""
    (fresh / "mine.json").write_text("[" * 100_000)
    assert_refused(cclm(command, "recipe.yaml", f"{key}=mine.json", folder=fresh), "mine.json")


@pytest.mark.parametrize(
    "change",
    [{"high_resource": None}, {"low_resource": 5}, {"similarity": [1]}, {"similarity": {"aze": ["tur"]}}],
    ids=lambda change: json.dumps(change),
)
def test_a_graph_of_other_types_is_named_with_the_field(fresh: Path, change: dict[str, object]) -> None:
    """The message names the file, the field and what it should be."""
    graph = {"version": 1, "high_resource": ["tur"], "low_resource": ["aze"], "similarity": {"aze": {"tur": 0.5}}}
    (fresh / "mine.json").write_text(json.dumps({**graph, **change}))
    ended = cclm("graph", "recipe.yaml", "graph.file=mine.json", folder=fresh)
    assert_refused(ended, "mine.json", *change, codes=[2])


# --- run directories --------------------------------------------------------------------------------------------------


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def edit_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(checkpoint: Path) -> None:
        manifest = read_json(checkpoint / "manifest.json")
        change(manifest)
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))

    return edit


FILES_A_LIST = edit_manifest(lambda manifest: manifest.update(files=["model.safetensors"]))
EMPTY = edit_manifest(lambda manifest: manifest.update(files={}))
ONE_LESS = edit_manifest(lambda manifest: manifest["files"].pop("optimizer.safetensors"))


def brackets(checkpoint: Path) -> None:
    (checkpoint / "manifest.json").write_text("[" * 100_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(FILES_A_LIST, id="files a list"),
        pytest.param(EMPTY, id="no files"),
        pytest.param(ONE_LESS, id="one less"),
        pytest.param(brackets, id="brackets"),
    ],
)
def test_an_edited_manifest_is_not_believed_when_text_is_translated(
    project: Path, run: Path, edit: Callable[[Path], None]
) -> None:
    """A checkpoint whose manifest does not list exactly its files is named and not exported."""
    edit(newest(run))
    shutil.rmtree(run / "ctranslate2")
    ended = cclm("translate", RUN, "--source", "aze", folder=project)
    assert_refused(ended, "step-00000020", "manifest.json", codes=[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(EMPTY, id="no files"),
        pytest.param(brackets, id="brackets"),
    ],
)
def test_training_falls_back_from_a_checkpoint_with_an_edited_manifest(
    project: Path, run: Path, edit: Callable[[Path], None]
) -> None:
    """`train` continues from the checkpoint before and names the one that it does not believe."""
    edit(newest(run))
    ended = cclm(*MORE, folder=project)
    assert_done(ended)
    assert "step-00000020" in ended.stderr + ended.stdout, ended
    assert "step 10" in ended.stderr, ended


class Evil:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.mkdir, (str(self.path),)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["junk", "pickle"])
def test_weights_that_are_no_safetensors_are_refused_and_not_executed(
    project: Path, run: Path, tmp_path: Path, kind: str
) -> None:
    """A consistent manifest does not make a file a model: the file is named, and nothing in it runs."""
    trap = tmp_path / "trap"
    contents = {"junk": b"junk" * 100, "pickle": pickle.dumps(Evil(trap))}
    checkpoint = newest(run)
    (checkpoint / "model.safetensors").write_bytes(contents[kind])
    rewrite_manifest(checkpoint)
    shutil.rmtree(run / "ctranslate2")
    ended = cclm("translate", RUN, "--source", "aze", folder=project)
    assert not trap.exists()
    assert_refused(ended, "step-00000020", "model.safetensors", codes=[1])


@pytest.mark.slow
def test_a_subword_model_that_is_none_is_refused(project: Path) -> None:
    """A consistent manifest does not make a file a SentencePiece model: the file is named."""
    assert_done(cclm("export", RUN, "--to", "ctranslate2", "--output", "mine", folder=project))
    (model,) = (project / "mine").rglob("aze.model")
    model.write_bytes(b"\x0a\xff" * 1000)
    manifest = read_json(project / "mine" / "cclm.json")
    facts = {"bytes": 2000, "sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    manifest["files"][str(model.relative_to(project / "mine"))] = facts
    (project / "mine" / "cclm.json").write_text(json.dumps(manifest))
    ended = cclm("translate", "mine", "--source", "aze", folder=project)
    assert_refused(ended, "aze.model", codes=[1])


@pytest.mark.slow
def test_training_does_not_continue_junk_weights_with_a_consistent_manifest(project: Path, run: Path) -> None:
    """`train` names the file and refuses, or falls back to the checkpoint before and says so."""
    checkpoint = newest(run)
    (checkpoint / "optimizer.safetensors").write_bytes(b"junk" * 100)
    rewrite_manifest(checkpoint)
    ended = cclm(*MORE, folder=project)
    if ended.code == 0:
        assert "optimizer.safetensors" in ended.stderr + ended.stdout, ended
    else:
        assert_refused(ended, "optimizer.safetensors", codes=[1])


@pytest.mark.parametrize(
    "name",
    ["", "../..", "step-00000099", "a\0b"],
    ids=["empty", "elsewhere", "missing", "NUL"],
)
def test_a_pointer_to_no_checkpoint_is_named(project: Path, run: Path, name: str) -> None:
    """`best` must name a checkpoint beside it; anything else is refused with the name of the file."""
    (run / "checkpoints" / "best").write_text(name + "\n")
    ended = cclm("translate", RUN, "--source", "aze", folder=project)
    assert_refused(ended, os.path.join("checkpoints", "best"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["config.yaml", "scores.json", "environment.json"])
def test_a_damaged_file_of_a_run_directory_is_named_by_report(project: Path, run: Path, name: str) -> None:
    """`report` names the file, or leaves out what it says."""
    (run / name).write_text("[" * 100_000)
    ended = cclm("report", RUN, folder=project)
    if ended.code:
        assert_refused(ended, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("config.yaml", [["runs", "work"], ["score", RUN]]),
        ("log.jsonl", [["runs", "work"], MORE]),
        ("timing.jsonl", [MORE]),
        ("translations/test.aze-eng.txt", [["report", RUN], ["score", RUN]]),
    ],
)
def test_a_pipe_in_a_run_directory_is_not_waited_for(
    project: Path, run: Path, name: str, commands: list[list[str]]
) -> None:
    """No writer may ever come: the file is named, or made anew."""
    for arguments in commands:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
        ended = cclm(*arguments, folder=project, limit=30)
        told = ended.stdout + ended.stderr
        assert "Traceback" not in told
        assert f"{name}: not a regular file" in told or not (run / name).is_fifo(), ended


# --- scorers ----------------------------------------------------------------------------------------------------------


def scorer(folder: Path, program: str) -> str:
    """The option for a scorer that runs this Python program."""
    (folder / "scorer.py").write_text(program)
    return f"mine={shlex.quote(sys.executable)} -S {shlex.quote(str(folder / 'scorer.py'))}"


@pytest.mark.slow
def test_a_scorer_that_prints_without_end_is_ended(project: Path) -> None:
    """A line that is longer than an answer can be ends the scorer; its name is told, and memory stays bounded."""
    endless = scorer(project, "import sys\nwhile True: sys.stdout.write('x' * 1000000)")
    memory = limited(resource.RLIMIT_AS, 1 << 30)
    ended = cclm("score", RUN, "--scorer", endless, folder=project, limit=30, prepare=memory)
    assert_refused(ended, "scorer mine", codes=[1])


def test_huge_scores_are_averaged_or_refused(project: Path, run: Path) -> None:
    """The mean of finite scores is finite, or the scorer is named."""
    program = (
        "import json, sys\nfor line in sys.stdin: print(json.dumps({'id': json.loads(line)['id'], 'score': 1e308}))"
    )
    ended = cclm("score", RUN, "--json", "--scorer", scorer(project, program), folder=project)
    if ended.code == 0:
        assert json.loads(ended.stdout)["languages"]["aze"]["mine"] == pytest.approx(1e308)
    else:
        assert_refused(ended, "scorer mine", codes=[1])


@pytest.mark.slow
def test_a_scorer_that_hangs_is_ended_with_its_children(project: Path) -> None:
    """`--scorer-timeout SECONDS` ends a scorer that does not answer, and all that it has started."""
    program = "import os, subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n"
    program += "open('child', 'w').write(str(child.pid))\ntime.sleep(1000)"
    ended = cclm("score", RUN, "--scorer", scorer(project, program), "--scorer-timeout", "2", folder=project, limit=30)
    assert_refused(ended, "scorer mine", "2 s", codes=[1])
    assert_ended(int((project / "child").read_text()))


def assert_ended(pid: int) -> None:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    assert state.stdout.strip() in ("", "Z"), state.stdout


@pytest.mark.slow
def test_a_scorer_that_hangs_is_ended_by_a_signal_to_the_command(project: Path) -> None:
    """Without a limit, a scorer may take hours: Ctrl-C ends it with the command."""
    program = "import os, time\nopen('new', 'w').write(str(os.getpid()))\nos.rename('new', 'child')\ntime.sleep(1000)"
    with running("score", RUN, "--scorer", scorer(project, program), folder=project) as process:
        wait_for((project / "child").exists, process)
        signal_group(process, signal.SIGINT)
        ended = finish(process)
    assert_refused(ended, "interrupted", codes=[130])
    assert_ended(int((project / "child").read_text()))


# --- a run that another one starts from -------------------------------------------------------------------------------


def name_nothing(run: Path) -> None:
    (run / "checkpoints" / "best").write_bytes(b"a\0b\n")


def unlist_weights(run: Path) -> None:
    edit_manifest(lambda manifest: manifest["files"].pop("model.safetensors"))(newest(run))


@pytest.mark.parametrize("damage", [name_nothing, unlist_weights])
@pytest.mark.parametrize("command", ["extend", "train"])
def test_a_damaged_run_is_named_by_the_run_that_starts_from_it(
    project: Path, run: Path, damage: Callable[[Path], None], command: str
) -> None:
    """`extend` and `model.pretrained` name the checkpoint, or the file that names it."""
    add_language(project)
    (run / "checkpoints" / "best").write_text("step-00000020\n")
    damage(run)
    arguments = {
        "extend": ["extend", RUN, "--data", "new.yaml"],
        "train": ["train", "recipe.yaml", "name=other", f"model.pretrained={RUN}"],
    }
    assert_refused(cclm(*arguments[command], folder=project), "checkpoints", codes=[1])


def test_a_checkpoint_with_another_name_is_extended_or_refused(project: Path, run: Path) -> None:
    """The number of its step is not taken from the name that someone has given it."""
    add_language(project)
    (run / "checkpoints" / "step-00000020").rename(run / "checkpoints" / "step-mine")
    (run / "checkpoints" / "best").write_text("step-mine\n")
    ended = cclm("extend", RUN, "--data", "new.yaml", "--dry-run", folder=project)
    if ended.code:
        assert_refused(ended, "checkpoints", "step-mine", codes=[1])


def test_damaged_scores_of_another_run_are_left_out_of_a_report(project: Path, run: Path) -> None:
    """`report` says which file it cannot compare with, and writes the page."""
    other = run.with_name("other") / "scores.json"
    other.parent.mkdir()
    other.write_text("{")
    ended = cclm("report", RUN, folder=project)
    assert_done(ended)
    assert str(other.relative_to(project)) in ended.stderr, ended


@pytest.mark.slow
def test_a_damaged_recipe_of_bitext_models_is_named(fresh: Path) -> None:
    """The message says what to do, and that helps."""
    command = ["benchmark", "recipe.yaml", "benchmark={max_steps: 2}"]
    assert_done(cclm(*command, folder=fresh))
    (damaged,) = fresh.glob("work/cache/benchmark/*/recipe.json")
    before = damaged.read_bytes()
    damaged.write_text("{")
    ended = cclm("run", "recipe.yaml", "benchmark={max_steps: 2}", "training.max_steps=2", folder=fresh)
    assert_refused(ended, damaged.relative_to(fresh), "delete", codes=[1])
    damaged.unlink()
    assert_done(cclm("run", "recipe.yaml", "benchmark={max_steps: 2}", "training.max_steps=2", folder=fresh))
    assert damaged.read_bytes() == before
