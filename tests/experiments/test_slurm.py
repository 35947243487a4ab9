"""A study and a sweep as jobs of a real SLURM come to the same bytes as on one machine, whatever happens in between."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from corpora import write_tsv
from slurm_box import Slurm, slurm, wait_until
from small_recipe import recipe as small_recipe
from warm_commands import warm

from cclm.cli.entry import cli
from cclm.errors import ConfigError
from cclm.experiments import slurm_job
from cclm.experiments.executor import Processes, executor_of, gpu_count
from cclm.experiments.slurm import minutes
from cclm.formats.job import JOB, STATE, JobFile, JobState
from cclm.recipe.execution import ExecutionSection, execution_of, sbatch_options
from cclm.recipe.loading import load_recipe
from cclm.recipe.schema import Recipe

RECIPE = """version: 1
name: small
work: work
data: {format: tsv, path: text, high_resource: [tur], low_resource: [aze]}
vocabulary: {pieces: 120}
model: {layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.1}
curriculum: {gate: {threshold: 0.3}, every: 5, dev_sample: 8}
benchmark: {max_steps: 600}
training: {batch_tokens: 200, accumulate: 1, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 30,
           patience: 100, device: cpu, precision: fp32}
translation: {beam: 1}
"""
STUDY = """version: 1
name: mini
recipe: recipe.yaml
seeds: [1, 2]
primary: [[ccl-m, uniform]]
arms:
  uniform: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: .inf}}
  ccl-m: {}
"""
ON_SLURM = ["--executor", "slurm", "--slurm", "time=5", "--at-most", "4"]
SWEEP = ["sweep", "recipe.yaml", "--threshold", "0.3", "--threshold", "9", "--aggregate", "avg"]
LIMIT = 240.0


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("box") / "slurm", cpus=4) as up:
        yield up


def project(folder: Path) -> Path:
    write_tsv(folder / "text", train=150)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "mini.yaml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study and the sweep without SLURM."""
    folder = project(tmp_path_factory.mktemp("here"))
    for command in (["study", "mini.yaml"], SWEEP):
        ended = warm(*command, folder=folder)
        assert ended.returncode == 0, ended.stderr
    return folder


def start(box: Slurm, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "cclm", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=box.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, said = process.communicate(timeout=LIMIT)
    return process.returncode, said


def job(folder: Path, name: str) -> JobState | None:
    found = list((folder / "work" / "jobs").glob(f"{name}-*/state.json"))
    return JobState.find(found[0]) if found else None


def has_come_to(folder: Path, name: str, *states: str) -> bool:
    found = job(folder, name)
    return found is not None and found.state in states


@pytest.mark.slow
def test_a_study_with_a_killed_driver_and_cancelled_requeued_and_failed_jobs_has_the_same_results(
    box: Slurm, here: Path, tmp_path: Path
) -> None:
    there = project(tmp_path / "there")
    driver = start(box, there, "study", "mini.yaml", *ON_SLURM)
    wait_until(lambda: has_come_to(there, "tur", "running"), LIMIT, "the first bitext model is trained")
    driver.kill()
    driver.communicate()
    number = job(there, "tur")
    assert number is not None
    assert number.job is not None
    box.ask("scancel", "--signal=USR2", number.job)  # as SLURM does when the time is nearly up
    driver = start(box, there, "study", "mini.yaml", *ON_SLURM)
    wait_until(lambda: box.state(number.job or "") == "PENDING" or has_come_to(there, "tur", "done"), LIMIT, "requeued")
    time.sleep(3)
    box.hurry(number.job)
    broken = there / "work" / "runs" / "ccl-m.2"
    (broken / "lock").mkdir(parents=True)  # this trial will fail
    wait_until(lambda: has_come_to(there, "uniform.1", "running"), LIMIT, "the first trial is trained")
    listed = CliRunner().invoke(cli, ["runs", str(there / "work")]).stdout
    assert any(state in listed for state in ("queued", "running")), listed
    doomed = job(there, "uniform.1")
    assert doomed is not None
    box.ask("scancel", doomed.job or "")
    code, said = finish(driver)
    assert code == 1
    assert "in SLURM's queue as cclm-" in said
    assert "2 of 4 trials failed; run the same command to try them again" in said
    assert "uniform.1: the SLURM job" in said
    assert "ccl-m.2: " in said
    assert "lock: Is a directory" in said
    shutil.rmtree(broken)
    code, said = finish(start(box, there, "study", "mini.yaml", *ON_SLURM))
    assert code == 0, said
    assert "2 trainings to do, of 4 trials in all" in said
    for name in ("results.json", "report.md", "losses.json"):
        assert _without_cost(there, name) == _without_cost(here, name), name
    for run in ("ccl-m.1", "uniform.2"):
        assert (there / "work/runs" / run / "log.jsonl").read_bytes() == (
            here / "work/runs" / run / "log.jsonl"
        ).read_bytes()


def _without_cost(folder: Path, name: str) -> bytes:
    text = (folder / "work" / "studies" / "mini" / name).read_bytes()
    before, found, after = text.partition(b"## Cost\n")
    return before + (after.partition(b"\n## ")[2] if found else b"")


@pytest.mark.slow
def test_the_waves_of_a_sweep_are_submitted_as_they_become_known(box: Slurm, here: Path, tmp_path: Path) -> None:
    there = project(tmp_path / "there")
    driver = start(box, there, *SWEEP, *ON_SLURM)
    wait_until(lambda: has_come_to(there, "tur", "running"), LIMIT, "the first bitext model is trained")
    driver.send_signal(signal.SIGINT)
    code, said = finish(driver)
    assert code == 130
    assert "jobs stay in SLURM's queue; the same command follows them again" in said
    code, said = finish(start(box, there, *SWEEP, *ON_SLURM))
    assert code == 0, said
    found, expected = ((folder / "work/sweeps/small/sweep.json").read_bytes() for folder in (there, here))
    assert found == expected
    assert said.index("small-avg-0.3: queued as SLURM job") < said.index("small-avg-9: queued as SLURM job")


def settings(*changes: str) -> Recipe:
    return load_recipe("phrasebook", changes)


def test_where_trainings_run_is_in_no_file_of_a_run(tmp_path: Path) -> None:
    plain, other = small_recipe(tmp_path), small_recipe(tmp_path, "execution={executor: slurm, slurm: 'time=5'}")
    assert other.execution.executor == "slurm"
    assert other.model_dump() == plain.model_dump()
    assert other.model_dump_json() == plain.model_dump_json()


def test_the_command_line_counts_more_than_the_recipe_and_that_more_than_the_users_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert execution_of(ExecutionSection(), {}) == ExecutionSection()
    (tmp_path / "cclm.yaml").write_text("executor: slurm\nat_once: 8\nslurm: partition=cpu,time=60,mem=4G\n")
    recipe = settings("execution={slurm: 'partition=gpu,gres=gpu:1'}").execution
    found = execution_of(recipe, {"at_once": 2, "slurm": "time=240"})
    assert (found.executor, found.at_once) == ("slurm", 2)
    assert found.slurm == "partition=gpu,time=240,mem=4G,gres=gpu:1"
    (tmp_path / "cclm.yaml").write_text("executer: slurm\n")
    with pytest.raises(ConfigError, match=r"cclm\.yaml: unknown key 'executer'|cclm\.yaml: .*executer"):
        execution_of(recipe, {})


def test_options_of_sbatch() -> None:
    assert sbatch_options("nodelist=a,b,time=5,requeue=") == {"nodelist": "a,b", "time": "5", "requeue": ""}
    for text in ("gpu", "=5", "time=5,=6"):
        with pytest.raises(ConfigError, match="give options of sbatch"):
            sbatch_options(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("240", 240), ("90:30", 90), ("4:00:00", 240), ("1-12", 2160), ("1-0:30", 1470), ("0:30", 1), ("2-1:2:3", 2942)],
)
def test_time_limits(text: str, expected: int) -> None:
    assert minutes(text) == expected


def test_jobs_without_a_time_limit_or_with_an_open_precision_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for given in ({"executor": "slurm"}, {"executor": "slurm", "slurm": "time=soon"}):
        with pytest.raises(ConfigError, match="every job needs a time limit, as in --slurm time=240"):
            executor_of(settings(), given)
    with pytest.raises(ConfigError, match="--slurm goes with --executor slurm"):
        executor_of(settings(), {"slurm": "time=5"})
    with pytest.raises(ConfigError, match=r"training\.precision is auto"):
        executor_of(settings("training.precision=auto"), {"executor": "slurm", "slurm": "time=5"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="no `sbatch` and `squeue` here"):
        executor_of(settings(), {"executor": "slurm", "slurm": "time=5"})


def test_there_are_as_many_processes_as_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,3")
    assert gpu_count() == 3
    assert executor_of(settings("training.device=cuda"), {}) == Processes(3, gpus=3)
    assert executor_of(settings("training.device=cuda"), {"at_once": 6}) == Processes(6, gpus=3)
    assert executor_of(settings(), {"at_once": 5}) == Processes(5)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert executor_of(settings("training.device=auto"), {}) == Processes(len(os.sched_getaffinity(0)))


@pytest.mark.slow
def test_a_job_that_sbatch_refuses_is_told(box: Slurm, tmp_path: Path) -> None:
    folder = project(tmp_path / "refused")
    code, said = finish(
        start(box, folder, "benchmark", "recipe.yaml", "--executor", "slurm", "--slurm", "time=5,partition=x")
    )
    assert code == 1
    assert "cclm: sbatch refused the job:" in said
    assert "Traceback" not in said


def test_a_job_that_cannot_read_a_file_records_its_name(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.json"
    JobFile(name="job", recipe=missing, folder=tmp_path / "run", data=tmp_path).write(tmp_path / JOB)
    JobState(name="job", run=tmp_path / "run", slurm_name="job").write(tmp_path / STATE)
    with pytest.raises(SystemExit, match="No such file"):
        slurm_job.main(tmp_path)
    assert JobState.read(tmp_path / STATE).why == f"{missing}: No such file or directory"
