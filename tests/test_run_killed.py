"""`cclm run` killed at random moments, again and again: in the end, the bytes of a run that nobody disturbed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpora import write_tsv

KILLS = 10
RECIPE = """version: 1
name: small
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur], low_resource: [aze]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.1}}
curriculum: {{gate: {{threshold: 0.3}}, every: 5, dev_sample: 8}}
benchmark: {{max_steps: 20}}
training: {{batch_tokens: 200, accumulate: 1, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 10,
            device: cpu, precision: fp32}}
"""
COMPARED = ["graph.json", "benchmark.json", "runs/bitext/*/log.jsonl", "runs/small/log.jsonl", "runs/small/scores.json"]
COMPARED += ["runs/small/translations/*", "runs/small/report.html", "runs/small/checkpoints/step-*/*.safetensors"]


def start(recipe: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "cclm", "run", str(recipe)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def result(work: Path) -> dict[str, bytes]:
    paths = sorted(path for pattern in COMPARED for path in work.glob(pattern))
    return {str(path.relative_to(work)): path.read_bytes() for path in paths}


def survivors(group: int, folder: Path) -> list[str]:
    """Processes of this group, or that have this folder on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # ended while we looked
        if state != "Z" and place.name != str(os.getpid()) and (int(its_group) == group or str(folder) in command):
            found.append(command)
    return found


@pytest.mark.slow
def test_killed_at_ten_random_moments_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    seed = int(os.environ.get("CCLM_KILL_SEED", time.time_ns() % 10**6))
    chance, told = random.Random(seed), [f"CCLM_KILL_SEED={seed}"]
    write_tsv(tmp_path / "text", train=150)
    recipe, work = tmp_path / "recipe.yaml", tmp_path / "work"
    recipe.write_text(RECIPE.format(folder=tmp_path))
    began = time.monotonic()
    with start(recipe) as whole:
        assert whole.wait() == 0
    duration = time.monotonic() - began
    expected = result(work)
    shutil.rmtree(work)
    kills, finished = 0, False
    while not finished:
        with start(recipe) as process:
            moment, only_parent = chance.uniform(0.1, duration), chance.random() < 0.5
            try:
                process.wait(moment if kills < KILLS else None)
            except subprocess.TimeoutExpired:
                (os.kill if only_parent else os.killpg)(process.pid, signal.SIGKILL)
                kills += 1
            stderr = process.communicate()[1]
        told.append(f"{moment:.2f} s, {'parent' if only_parent else 'group'}: {process.returncode}\n{stderr}")
        if process.returncode == -signal.SIGKILL:
            deadline = time.monotonic() + 20
            while (alive := survivors(process.pid, tmp_path)) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not alive, "\n".join([*told, *alive])
            continue
        assert process.returncode == 0, "\n".join(told)
        assert result(work) == expected, "\n".join(told)
        finished = kills == KILLS
        if not finished:
            shutil.rmtree(work)  # done before the kill came: once more from the start
    assert [path.name for path in work.rglob(".*")] == [], "\n".join(told)
