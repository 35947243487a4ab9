"""A training that was stopped, however, goes on to the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpora import write_tsv

COMPARED = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json")
RECIPE = """version: 1
name: small
work: {work}
data: {{format: tsv, path: {text}, high_resource: [tur, por], low_resource: [aze, glg]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.2}}
curriculum: {{gate: {{threshold: 0.3}}, every: 5, dev_sample: 8}}
benchmark: {{file: {benchmark}}}
training: {{batch_tokens: 200, accumulate: 2, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 12,
            device: cpu, precision: fp32}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recipe whose data is prepared; each test trains into a work folder of its own."""
    folder = tmp_path_factory.mktemp("exact")
    write_tsv(folder / "text")
    losses = {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}
    (folder / "benchmark.json").write_text(json.dumps(losses))
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(work=folder / "work", text=folder / "text", benchmark=folder / "benchmark.json"))
    finished = train(path, "whole")
    assert finished.returncode == 0, finished.stderr
    return path


def command(recipe: Path, name: str, *overrides: str) -> list[str]:
    return [sys.executable, "-m", "cclm", "train", str(recipe), f"name={name}", *overrides]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def train(recipe: Path, name: str, *overrides: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(recipe, name, *overrides), capture_output=True, text=True, check=False, env=environment(**more)
    )


def result(recipe: Path, name: str) -> dict[str, bytes]:
    """Everything that must be equal to the byte; the name of the run stands in none of it."""
    run = recipe.parent / "work" / "runs" / name
    latest = run / "checkpoints" / (run / "checkpoints" / "latest").read_text().strip()
    found = {file: (latest / file).read_bytes() for file in COMPARED}
    return found | {"log": (run / "log.jsonl").read_bytes(), "best": (run / "checkpoints" / "best").read_bytes()}


def test_two_runs_are_equal_to_the_byte(recipe: Path) -> None:
    assert train(recipe, "again").returncode == 0
    assert result(recipe, "again") == result(recipe, "whole")


def test_the_log_has_every_kind_of_event(recipe: Path) -> None:
    lines = (recipe.parent / "work" / "runs" / "whole" / "log.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["event"] for event in events} >= {"train", "probe", "validation", "admitted", "saved", "stopped"}
    admitted = [event for event in events if event["event"] == "admitted"]
    assert {event["language"] for event in admitted} == {"aze", "glg"}
    assert all(event["hrls_competence"] >= event["threshold"] == 0.3 for event in admitted)
    probe = next(event for event in events if event["event"] == "probe")
    assert set(probe) == {"event", "step", "dev_loss", "competence", "hrls_competence", "weights", "admitted"}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["save:after_model", "save:before_rename", "save:after_rename"])
def test_killed_inside_a_save_it_goes_on_to_the_same_bytes(recipe: Path, place: str) -> None:
    name = place.replace(":", "-")
    killed = train(recipe, name, CCLM_FAULT_AT=place)
    assert killed.returncode == 9
    assert train(recipe, name).returncode == 0
    assert result(recipe, name) == result(recipe, "whole")
    leftovers = list((recipe.parent / "work" / "runs" / name / "checkpoints").glob(".tmp-*"))
    assert leftovers == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", [0.2, 0.7])
def test_stopped_at_any_moment_it_goes_on_to_the_same_bytes(
    recipe: Path, number: signal.Signals, moment: float
) -> None:
    name = f"{number.name}-{moment}"
    log = recipe.parent / "work" / "runs" / name / "log.jsonl"
    whole = len(result(recipe, "whole")["log"])
    with subprocess.Popen(
        command(recipe, name), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment()
    ) as process:
        while process.poll() is None and (not log.exists() or log.stat().st_size < moment * whole):
            time.sleep(0.002)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    expected = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert process.returncode in (expected, 0)  # 0: it had finished first
    assert "Traceback" not in stderr
    assert train(recipe, name).returncode == 0
    assert result(recipe, name) == result(recipe, "whole")


def test_a_damaged_checkpoint_is_passed_over_and_that_is_said(recipe: Path) -> None:
    assert train(recipe, "damaged").returncode == 0
    checkpoints = recipe.parent / "work" / "runs" / "damaged" / "checkpoints"
    newest = sorted(checkpoints.glob("step-*"))[-1] / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    again = train(recipe, "damaged")
    assert again.returncode == 0
    assert "model.safetensors is damaged (checksum); falling back to the one before" in again.stdout + again.stderr
    assert result(recipe, "damaged") == result(recipe, "whole")


def test_a_changed_setting_is_refused_with_the_difference(recipe: Path) -> None:
    refused = train(recipe, "whole", "training.learning_rate=0.02")
    assert refused.returncode == 1
    assert "was begun with other settings" in refused.stderr
    assert "recipe.training.learning_rate: 0.01 -> 0.02" in refused.stderr


def test_more_steps_may_be_asked_for(recipe: Path) -> None:
    assert train(recipe, "longer", "training.max_steps=24").returncode == 0
    assert train(recipe, "longer").returncode == 0
    longer = result(recipe, "longer")
    assert longer["model.safetensors"] == result(recipe, "whole")["model.safetensors"]


def test_a_run_has_one_owner(recipe: Path) -> None:
    run = recipe.parent / "work" / "runs" / "owned"
    run.mkdir(parents=True)
    import socket

    (run / "lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    refused = train(recipe, "owned")
    assert refused.returncode == 1
    assert f"belongs to process {os.getpid()}" in refused.stderr
    (run / "lock").write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))
    assert train(recipe, "owned").returncode == 0
    assert not (run / "lock").exists()
