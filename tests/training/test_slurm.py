"""A training on two nodes of a real SLURM loses nothing, whatever the cluster does to it."""

import json
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_training import DISTURBANCES, WAIT, ClusterRun, result, write_recipe
from command import signal_all
from slurm_box import NODES, Slurm, slurm, wait_for_nodes, wait_until
from warm_commands import warm

pytestmark = pytest.mark.slow
PYTHON = [sys.executable, "-m"]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("box") / "slurm") as up:
        yield up


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe, trained by one process as the run `whole`: what all others must come to."""
    path = write_recipe(tmp_path_factory.mktemp("training"))
    ended = warm("train", str(path), "name=whole")
    assert ended.returncode == 0, ended.stderr
    return path


def whole(recipe: Path) -> dict[str, bytes]:
    return result(recipe.parent / "work" / "runs" / "whole")


def test_a_training_goes_through_all_that_a_cluster_does_to_the_same_bytes(box: Slurm, recipe: Path) -> None:
    """Two tasks of srun, one per node, without torchrun."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance, run = random.Random(seed), ClusterRun(box, recipe, "disturbed")
    run.submit()
    kinds = list(DISTURBANCES)
    chance.shuffle(kinds)
    for kind in kinds:
        print(kind, run.disturb(kind, chance, longest=10))
    run.finish()
    assert run.lost == []
    assert result(run.folder) == whole(recipe)


def test_a_training_that_outlives_its_slurmd_keeps_its_run(box: Slurm, recipe: Path) -> None:
    """A new job, on the other node, is refused while the old training works on."""
    train = f"srun {' '.join(PYTHON)} cclm train {recipe} name=survivor training.accumulate=1 training.max_steps=100000"
    first, second = NODES
    job = box.submit(train, "-N1", "-n2", f"--nodelist={first}")
    log = ClusterRun(box, recipe, "survivor", job).folder / "log.jsonl"
    wait_until(log.exists, WAIT, box.output(job))
    old = box.trainings()
    box.kill_daemon(first)
    box.give_up(first)
    other = box.submit(train, "-N1", "-n2", f"--nodelist={second}")
    wait_until(lambda: box.state(other) in ("FAILED", "COMPLETED"), WAIT, box.output(other))
    refused = re.search(r"belongs to process (\d+) on 127.0.0.2: only one process may train it", box.output(other))
    assert refused, box.output(other)
    assert int(refused[1]) in old
    signal_all(box.trainings(), signal.SIGTERM)
    wait_until(lambda: not box.trainings(), WAIT, "the old training ends")
    found, expected = (_lines_below(text, 400) for text in (log.read_bytes(), whole(recipe)["log"]))
    assert found == expected[: len(found)] != []
    box.start_node(first)
    wait_for_nodes(box)


def _lines_below(log: bytes, step: int) -> list[bytes]:
    return [line for line in log.split(b"\n")[:-1] if json.loads(line)["step"] < step]


def test_torchrun_restarts_ranks_and_another_number_of_ranks_continues(box: Slurm, recipe: Path) -> None:
    """A rank is killed: torchrun starts all again. Then a single process continues with the same command."""
    torchrun = "torch.distributed.run --nproc-per-node 2 --standalone --max-restarts 1 -m"
    train = f"cclm train {recipe} name=restarted training.accumulate=1"
    job = box.submit(f"{' '.join(PYTHON)} {torchrun} {train}", "-N1", "-n1", "-c2")
    run = ClusterRun(box, recipe, "restarted", job)
    wait_until((run.folder / "checkpoints" / "latest").exists, WAIT, box.output(job))
    os.kill(max(box.trainings()), signal.SIGKILL)
    wait_until(lambda: "resuming from step" in box.output(job), WAIT, box.output(job))
    box.ask("scancel", job)
    wait_until(lambda: not box.trainings(), WAIT, box.output(job))
    run.job = box.submit(f"srun {' '.join(PYTHON)} {train}", "-N1", "-n1")
    run.finish()
    assert result(run.folder) == whole(recipe)
