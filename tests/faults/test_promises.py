"""Promises about damaged checkpoints, forced settings, losses that are not finite, memory, and trials of a study."""

import json
import os
import resource
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
    limited,
    listing,
    read_json,
    running,
    wait_for,
)

RUN = "work/runs/small"
MORE = ["train", "recipe.yaml", "training.max_steps=25"]
pytestmark = pytest.mark.slow


def damage(run: Path) -> None:
    """Changes a byte of the newest checkpoint."""
    path = run / "checkpoints" / "step-00000020" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_strict_training_refuses_a_damaged_checkpoint(project: Path, run: Path) -> None:
    """With --strict, `train` names the damaged checkpoint and its file, and changes nothing."""
    damage(run)
    before = listing(run / "checkpoints")
    assert_refused(cclm(*MORE, "--strict", folder=project), "step-00000020", "model.safetensors", codes=[1])
    assert listing(run / "checkpoints") == before


def test_a_forced_setting_is_recorded_in_the_checkpoint(project: Path, run: Path) -> None:
    """With --force, `train` continues with the other value, and the manifest of the next checkpoint says so."""
    assert_done(cclm(*MORE, "training.learning_rate=0.02", "--force", folder=project))
    manifest = read_json(run / "checkpoints" / "step-00000025" / "manifest.json")
    assert "training.learning_rate" in json.dumps(manifest["forced"])


def test_a_run_continues_on_other_threads_and_another_version_which_is_recorded(project: Path, run: Path) -> None:
    """environment.json names the software and the threads of the last process that trained the run."""
    before = read_json(run / "environment.json")
    (run / "environment.json").write_text(json.dumps({**before, "cclm": "0.0.1", "torch": "1.0"}))
    assert_done(cclm(*MORE, folder=project, environment={"OMP_NUM_THREADS": "2"}))
    assert read_json(run / "environment.json") == {**before, "threads": 2}


def test_losses_that_are_not_finite_end_with_the_batches_that_gave_them(fresh: Path) -> None:
    """After too many steps in a row the message names a file that lists language and number of each batch."""
    command = ["train", "recipe.yaml", "training.learning_rate=1e30", "training.warmup=0", "training.max_steps=300"]
    ended = cclm(*command, "training.validate_every=300", folder=fresh)
    assert_refused(ended, "not finite", codes=[1])
    named = [path for path in (fresh / RUN).iterdir() if path.is_file() and path.name in ended.stderr]
    assert named, ended
    text = named[0].read_text(encoding="utf-8")
    assert '"batches"' in text
    assert '"tur"' in text


def test_a_batch_that_does_not_fit_into_memory_is_told_in_a_line(fresh: Path) -> None:
    """Out of memory in a step ends with 1 and names the keys that make batches smaller."""
    memory = limited(resource.RLIMIT_AS, 2_560_000_000)
    big = ["model.feed_forward=150000", "training.batch_tokens=2000", "training.max_steps=3"]
    ended = cclm("train", "recipe.yaml", *big, folder=fresh, prepare=memory)
    assert_refused(ended, "memory", "training.batch_tokens", codes=[1])


STUDY = """version: 1
name: two
recipe: recipe.yaml
seeds: [1]
changes: {training.max_steps: MOST, training.validate_every: MOST}
arms:
  uniform: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: .inf}}
  ccl-m: {}
"""


def write_study(folder: Path, steps: int) -> None:
    (folder / "two.yaml").write_text(STUDY.replace("MOST", str(steps)))


def trainings(pid: int) -> dict[int, str]:
    """The processes below one that own a run directory, with its name."""
    owners = {}
    for child in descendants(pid):
        for run in ("uniform.1", "ccl-m.1"):
            for number in Path(f"/proc/{child}/fd").glob("*"):
                try:
                    if f"runs/{run}/log.jsonl" in os.readlink(number):
                        owners[child] = run
                except OSError:
                    continue
    return owners


def test_a_trial_that_is_killed_is_marked_and_the_others_finish(fresh: Path) -> None:
    """`study` ends with 1, names the killed trial, and has the results of the other."""
    write_study(fresh, 60)
    with running("study", "two.yaml", "--at-once", "1", folder=fresh) as process:
        wait_for(lambda: "uniform.1" in trainings(process.pid).values(), process)
        os.kill(next(iter(trainings(process.pid))), signal.SIGKILL)
        ended = finish(process)
    assert_refused(ended, "uniform.1", codes=[1])
    states = {trial["arm"]: trial["state"] for trial in read_json(fresh / "work/studies/two/results.json")["trials"]}
    assert states == {"uniform": "failed", "ccl-m": "finished"}


def test_a_study_that_is_started_twice_runs_once(fresh: Path) -> None:
    """The second start says which process it waits for, and then finds everything done."""
    write_study(fresh, 100)
    with running("study", "two.yaml", folder=fresh) as process:
        wait_for(lambda: trainings(process.pid), process)
        with running("study", "two.yaml", folder=fresh) as again:
            first, second = finish(process), finish(again)
    assert_done(first)
    assert_done(second)
    assert f"waiting for {process.pid}@" in second.stderr, second
    assert "0 trainings to do" in second.stderr, second


def test_the_reason_of_a_failed_trial_is_told_in_full(project: Path, run: Path) -> None:
    """Where a message has several lines, `study` prints all of them."""
    write_study(project, 3)
    shutil.copytree(run, project / "work/runs/ccl-m.1")  # a run with other settings has the name of the trial
    ended = cclm("study", "two.yaml", folder=project)
    assert_refused(ended, "ccl-m.1", "other settings", "training.validate_every", "  name:", codes=[1])


def test_a_file_that_a_trial_cannot_write_is_told_in_a_line(fresh: Path) -> None:
    """The reason of a failed trial is the file and what is wrong with it, as if it had been trained alone."""
    write_study(fresh, 2)
    (fresh / "work/runs/ccl-m.1/scores.json/mine").mkdir(parents=True)
    ended = cclm("study", "two.yaml", folder=fresh)
    assert_refused(ended, "ccl-m.1", "scores.json: Is a directory", codes=[1])
    assert "Errno" not in ended.stderr, ended
