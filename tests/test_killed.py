"""`cclm run`, `study` and `sweep` killed at random moments, again and again: in the end, the bytes that come out where
nobody disturbs them. `tests/soak/kills.py` does the same a thousand times."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_study import write_study
from warm_commands import WarmCommand

pytestmark = pytest.mark.slow
LIMIT = 600.0
GRID = ["--threshold", "0.2", "--threshold", "0.3", "--threshold", "9"]
BY_SIZE = ["curriculum.sampler={name: size-and-competence}"]
LOGS = ["graph.json", "benchmark.json", "runs/**/log.jsonl", "runs/*/scores.json", "runs/*/translations/*"]
LOGS += ["cache/benchmark/*/multilingual/log.jsonl", "cache/benchmark/*/multilingual/checkpoints/step-*/*.safetensors"]
COMPARED = {
    "run": ["runs/small/report.html", "runs/small/checkpoints/step-*/*.safetensors"],
    "study": ["studies/mini/results.json", "runs/*/checkpoints/step-00000060/*.safetensors"],
    "sweep": ["sweeps/small/sweep.json", "sweeps/small/report.*", "runs/*/checkpoints/step-00000060/*.safetensors"],
}


def start(arguments: Sequence[str], folder: Path, is_cold: bool) -> "subprocess.Popen[str] | WarmCommand":
    """Starts a command: in a new Python, or forked off a process that has loaded everything.

    In both cases it leads a process group, and starts a fork server of its own for its trainings.
    """
    if not is_cold:
        return WarmCommand(arguments, folder, own_fork_server=True)
    return subprocess.Popen(
        [sys.executable, "-m", "cclm", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=folder,
        start_new_session=True,
    )


def result(work: Path, patterns: Sequence[str]) -> dict[str, bytes]:
    paths = sorted(
        path for pattern in (*LOGS, *patterns) for path in work.glob(pattern) if "followers" not in path.parts
    )
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


@pytest.mark.parametrize(
    ("arguments", "kills", "is_cold"),
    [
        (["run", "recipe.yaml"], 4, False),
        (["study", "mini.yaml", "changes.benchmark.file=table.json"], 4, False),
        (["sweep", "recipe.yaml", "benchmark.method=multilingual", *GRID], 2, False),
        (["run", "recipe.yaml", "benchmark.method=multilingual", *BY_SIZE], 2, True),
    ],
    ids=["run", "study", "sweep-multilingual", "run-multilingual"],
)
def test_killed_at_random_moments_it_ends_with_the_same_bytes(
    tmp_path: Path, arguments: list[str], kills: int, is_cold: bool
) -> None:
    seed = int(os.environ.get("CCLM_KILL_SEED", time.time_ns() % 10**6))
    chance, told = random.Random(seed), [f"CCLM_KILL_SEED={seed}"]
    write_study(tmp_path)
    (tmp_path / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 4.0, "aze": 4.0}}))
    command, patterns = [arguments[0], str(tmp_path / arguments[1]), *arguments[2:]], COMPARED[arguments[0]]
    work = tmp_path / "work"
    began = time.monotonic()
    whole = start(command, tmp_path, is_cold)
    stderr = whole.communicate(timeout=LIMIT)[1]
    assert whole.returncode == 0, stderr
    duration = time.monotonic() - began
    expected = result(work, patterns)
    assert len(expected) >= 8
    shutil.rmtree(work)
    killed, finished = 0, False
    while not finished:
        process = start(command, tmp_path, is_cold)
        # It goes on from where it was: later moments come by themselves.
        moment, only_parent = chance.uniform(0.1, 0.6 * duration), chance.random() < 0.5
        try:
            process.communicate(timeout=moment if killed < kills else LIMIT)
        except subprocess.TimeoutExpired:
            assert killed < kills, "\n".join([*told, f"still running after {LIMIT:.0f} s"])
            (os.kill if only_parent else os.killpg)(process.pid, signal.SIGKILL)
            killed += 1
        stderr = process.communicate(timeout=LIMIT)[1]
        told.append(f"{moment:.2f} s, {'parent' if only_parent else 'group'}: {process.returncode}\n{stderr}")
        if process.returncode == -signal.SIGKILL:
            deadline = time.monotonic() + 20
            while (alive := survivors(process.pid, tmp_path)) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not alive, "\n".join([*told, *alive])
            continue
        assert process.returncode == 0, "\n".join(told)
        assert result(work, patterns) == expected, "\n".join(told)
        finished = killed == kills
        if not finished:
            shutil.rmtree(work)  # done before the kill came: once more from the start
    left = [path.name for path in work.rglob(".*") if path.suffix != ".lock"]  # a kill may leave an empty lock
    assert left == [], "\n".join(told)
