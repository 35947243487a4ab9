"""`cclm runs`: a line for every run, whatever state it is in."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpora import write_tsv
from small_recipe import events
from trained_run import trained_run

from cclm.cli.listing import run as list_runs
from cclm.evaluation.evaluate import Evaluation
from cclm.formats.run import read_settings
from cclm.training.lock import Lock
from cclm.training.run_state import state_of


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with a run that is finished and scored."""
    folder = tmp_path_factory.mktemp("runs")
    write_tsv(folder / "text", train=100)
    Evaluation(trained_run(folder)).score()
    return folder / "work"


def copied(work: Path, folder: Path) -> Path:
    return Path(shutil.copytree(work / "runs" / "small", folder, ignore=shutil.ignore_patterns("ctranslate2")))


def test_a_finished_run(work: Path) -> None:
    run = work / "runs" / "small"
    facts = state_of(run)
    assert (facts.state, facts.reason) == ("finished", "all steps are done")
    assert (facts.step, facts.max_steps) == (20, 20)
    chosen = [event for event in events(run) if event["event"] == "validation" and event["step"] == facts.best]
    assert facts.dev_loss == chosen[0]["weighted"]
    assert facts.bleu is not None
    assert facts.bleu.plain() == json.loads((run / "scores.json").read_text())["means"]


def test_a_running_one_is_known_by_its_lock_and_as_far_as_its_log(work: Path, tmp_path: Path) -> None:
    run = copied(work, tmp_path / "run")
    with (run / "log.jsonl").open("a") as log:
        log.write('{"event": "train", "step": 50}\n{"event": "tra')  # being written
    with Lock(run):
        facts = state_of(run)
    assert (facts.state, facts.reason) == ("running", f"{os.getpid()}@{socket.gethostname()}")
    assert facts.step == 50
    assert state_of(run).state == "finished"


def test_an_interrupted_one(work: Path, tmp_path: Path) -> None:
    run = copied(work, tmp_path / "run")
    shutil.rmtree(run / "checkpoints" / "step-00000020")
    facts = state_of(run)
    assert (facts.state, facts.reason, facts.step, facts.best) == ("interrupted", None, 10, 10)
    shutil.rmtree(run / "checkpoints" / "step-00000010")
    facts = state_of(run)
    assert (facts.state, facts.reason) == ("interrupted", "before its first checkpoint")
    assert (facts.step, facts.best, facts.dev_loss) == (0, None, None)


def test_more_steps_asked_for_are_steps_to_go(work: Path, tmp_path: Path) -> None:
    run = copied(work, tmp_path / "run")
    config = read_settings(run / "config.yaml")
    config["training"]["max_steps"] = 30
    (run / "config.yaml").write_text(json.dumps(config))
    assert (state_of(run).state, state_of(run).step, state_of(run).max_steps) == ("interrupted", 20, 30)


@pytest.mark.parametrize("name", ["config.yaml", "log.jsonl", "scores.json", "progress.json", "lock"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"null", b"\xff", b'{"training": 5}', b"[" * 100_000])
def test_a_damaged_run_gets_a_line_too(
    work: Path, tmp_path: Path, name: str, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copied(work, tmp_path / "runs" / "ru\nn")
    path = run / name if name != "progress.json" else run / "checkpoints" / "step-00000020" / name
    path.write_bytes(content + b"\n")
    list_runs(tmp_path, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "runs/ru?n" in lines[1]
    list_runs(tmp_path, as_json=True)
    assert len(json.loads(capsys.readouterr().out)) == 1


def cclm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cclm", "runs", *arguments], capture_output=True, text=True, check=False
    )


def test_runs_are_found_from_any_folder_above(work: Path, tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    (work / "runs" / "bitext").mkdir(exist_ok=True)
    (work / "runs" / "bitext" / "recipe.json").write_text("{}")
    for folder in (work.parent, work, work / "runs"):
        listed = cclm(str(folder), "--json")
        assert listed.returncode == 0, listed.stderr
        found = json.loads(listed.stdout)
        assert [Path(facts["run"]).name for facts in found] == ["bitext", "small"]
    assert found[1]["run"] == "small"
    printed = cclm(str(work / "runs" / "small")).stdout.splitlines()
    assert printed[0].split() == ["run", "state", "step", "best", "dev", "loss", "BLEU", "HRL", "LRL"]
    assert printed[1].startswith("small  finished, all steps are done  20/20")
    (link := tmp_path / "bitext").symlink_to(work / "runs" / "small")  # as into the cache, where names are hashes
    assert cclm(str(link)).stdout.splitlines()[1].startswith("bitext  finished")
    link.unlink()
    assert cclm(str(tmp_path)).stdout == "no runs here\n"
    assert cclm(str(tmp_path), "--json").stdout == "[]\n"
    assert cclm(str(tmp_path / "none")).returncode == 2
