"""A training on two nodes of a real SLURM, and what a cluster does to it: at any moment, until it is done."""

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from corpora import write_tsv
from slurm_box import NODES, Slurm, wait_for_nodes, wait_until

RECIPE = """version: 1
name: small
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur, por], low_resource: [aze, glg]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.2}}
curriculum: {{gate: {{threshold: 0.3}}, sampler: {{name: chi-square}}, every: 20, dev_sample: 8}}
benchmark: {{file: {folder}/losses.json}}
training: {{batch_tokens: 200, accumulate: 2, learning_rate: 0.01, warmup: 10, max_steps: {steps}, validate_every: 50,
            patience: 1000, clip: 1.0, device: cpu, precision: fp32}}
translation: {{beam: 1}}
"""
COMPARED = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json")
TRAIN = f"srun --kill-on-bad-exit=1 {sys.executable} -m cclm train {{recipe}} name={{name}} training.accumulate=1"
REQUEUED = 'code=$?; [ $code = 138 ] && scontrol requeue "$SLURM_JOB_ID"; exit $code'
"""Ends a batch script: a training that was told by SIGUSR1 that its time is nearly up continues by itself."""
SETTLED = 6.0
"""Seconds after which a job may be restarted on a node that was down. Sooner, SLURM 22.05 counts its nodes wrong."""
REVOKED = 3.0
"""Seconds after which a requeued job may be started again. Sooner, SLURM refuses it ("Job credential revoked")."""
WAIT = 120.0
"""Seconds that none of our processes may wait for anything but SLURM."""


def write_recipe(folder: Path, steps: int = 400) -> Path:
    """A small recipe, its text and its L*."""
    write_tsv(folder / "text")
    losses = dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)
    (folder / "losses.json").write_text(json.dumps({"version": 1, "losses": losses}))
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(folder=folder, steps=steps))
    return path


def result(run: Path) -> dict[str, bytes]:
    """Everything of a run that must be equal to the byte."""
    latest = run / "checkpoints" / (run / "checkpoints" / "latest").read_text().strip()
    return {file: (latest / file).read_bytes() for file in COMPARED} | {"log": (run / "log.jsonl").read_bytes()}


@dataclass
class ClusterRun:
    """A run that is trained by two tasks of srun, one per node; after each disturbance it goes on."""

    box: Slurm
    recipe: Path
    name: str
    job: str = ""
    waited: float = 0.0
    """The longest time in seconds in which the job ran and its log did not grow, or its processes outlived it."""
    lost: list[str] = field(default_factory=list)
    """Signals after which a training had not saved all that it had logged."""
    _logged_before: int = 0

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.recipe.parent / "work" / "runs" / self.name

    def submit(self) -> None:
        """Starts the training, or starts it again."""
        script = TRAIN.format(recipe=self.recipe, name=self.name) + "\n" + REQUEUED
        self.job = self.box.submit(script, "-N2", "-n2", "--requeue", "--signal=USR1@20", f"--job-name={self.name}")

    def disturb(self, how: str, chance: random.Random, longest: float = 15.0) -> bool:
        """Disturbs the training at a random moment, and starts it again; False if it was done before."""
        self.wait_for("RUNNING", "COMPLETED")
        self._logged_before = self._last_logged()
        until = time.monotonic() + chance.uniform(0, longest)
        while time.monotonic() < until and self.state() == "RUNNING":
            time.sleep(0.3)
        if self.state() != "RUNNING":
            return False
        DISTURBANCES[how](self, chance)
        self.wait_for("RUNNING", "COMPLETED")
        return True

    def finish(self) -> None:
        """Waits for the end of the training; follows how long its log does not grow."""
        log, size, since = self.folder / "log.jsonl", -1, time.monotonic()
        while (state := self.state()) in ("RUNNING", "PENDING", "COMPLETING"):
            grown = log.stat().st_size if log.exists() else 0
            if grown != size or state == "PENDING":
                size, since = grown, time.monotonic()
            self.waited = max(self.waited, time.monotonic() - since)
            assert self.waited < WAIT, f"the training waits\n{self.box.output(self.job)}"
            time.sleep(0.3)
        assert state == "COMPLETED", f"{state}\n{self.box.output(self.job)}"

    def state(self) -> str:
        """The state of the job."""
        return self.box.state(self.job)

    def wait_for(self, *states: str) -> None:
        """Waits for the job to come to a state; a job that was put back into the queue need not wait there."""

        def reached() -> bool:
            now = self.state()
            if now == "PENDING":
                time.sleep(REVOKED)
                self.box.hurry(self.job)
            return now in states

        wait_until(reached, WAIT, f"job {self.job} is {' or '.join(states)}, not {self.state()}")

    def ended(self, *, saved: bool) -> None:
        """Waits until our processes of the job are gone. After a signal, all that was logged must have been saved."""
        since = time.monotonic()
        wait_until(lambda: not self.box.trainings(), WAIT, f"the processes of job {self.job} are gone")
        self.waited = max(self.waited, time.monotonic() - since)
        is_new = self._last_logged() != self._logged_before  # else a killed training has logged it
        if saved and is_new and self._last_logged() > self._last_saved():
            self.lost.append(f"logged {self._last_logged()}, saved {self._last_saved()}\n{self.box.output(self.job)}")

    def _last_logged(self) -> int:
        log = self.folder / "log.jsonl"
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
        return max((json.loads(line)["step"] for line in lines), default=0)

    def _last_saved(self) -> int:
        return max((int(path.name[5:]) for path in self.folder.glob("checkpoints/step-*")), default=0)


def cancel(run: ClusterRun, chance: random.Random) -> None:
    """scancel, and the same command again."""
    run.box.ask("scancel", run.job)
    run.wait_for("CANCELLED", "COMPLETED")
    run.ended(saved=True)
    run.submit()


def preempt(run: ClusterRun, chance: random.Random) -> None:
    """A job of a partition with a higher priority takes both nodes; SLURM puts ours back into the queue."""
    other = run.box.submit("srun true", "-N2", "-n2", "--exclusive", "--partition=high")
    wait_until(lambda: run.state() in ("PENDING", "COMPLETED"), WAIT, "the job is requeued")
    wait_until(lambda: run.box.state(other) == "COMPLETED", WAIT, "the other job has ended")
    run.ended(saved=True)


def reach_limit(run: ClusterRun, chance: random.Random) -> None:
    """The time limit is reached, without a warning or after one."""
    if chance.random() < 0.5:
        come_near_limit(run)
        return
    run.box.ask("scontrol", "update", f"JobId={run.job}", "EndTime=now")
    run.wait_for("TIMEOUT", "COMPLETED")
    run.ended(saved=True)
    run.submit()


def come_near_limit(run: ClusterRun) -> None:
    """SLURM says by SIGUSR1 that the time is nearly up: the job saves, and puts itself back into the queue."""
    run.box.ask("scontrol", "update", f"JobId={run.job}", "EndTime=now+40")
    wait_until(lambda: run.state() in ("PENDING", "COMPLETED"), WAIT, "the job has requeued itself")
    run.ended(saved=True)


def fail_node(run: ClusterRun, chance: random.Random) -> None:
    """A node is gone at once, with all that ran on it; SLURM notices, and puts the job back into the queue."""
    node = chance.choice(NODES)
    run.box.fail_node(node)
    _restore(run, node)


def lose_daemon(run: ClusterRun, chance: random.Random) -> None:
    """slurmd alone is gone: SLURM gives the node up and restarts the job, while the old training is still alive."""
    node = chance.choice(NODES)
    run.box.kill_daemon(node)
    _restore(run, node)


def _restore(run: ClusterRun, node: str) -> None:
    run.box.give_up(node)
    wait_until(lambda: run.state() in ("PENDING", "COMPLETED"), WAIT, "SLURM requeues the job")
    run.ended(saved=False)
    run.box.start_node(node)
    wait_for_nodes(run.box)
    time.sleep(SETTLED)


Disturbance = Callable[[ClusterRun, random.Random], None]
DISTURBANCES: dict[str, Disturbance] = {
    "scancel": cancel,
    "preemption": preempt,
    "time limit": reach_limit,
    "node failure": fail_node,
    "slurmd failure": lose_daemon,
}
