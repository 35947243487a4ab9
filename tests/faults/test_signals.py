"""Signals as terminals, SLURM and torchrun send them: to the whole process group, and several times."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command import (
    Ended,
    Started,
    assert_done,
    assert_refused,
    cclm,
    descendants,
    finish,
    running,
    signal_group,
    wait_for,
)

RUN = "work/runs/small"
ENDLESS = ["train", "recipe.yaml", "training.max_steps=1000000", "training.validate_every=1000000"]
pytestmark = pytest.mark.slow


def logged(folder: Path) -> bool:
    """Whether the training has written an event."""
    with suppress(OSError):
        return (folder / RUN / "log.jsonl").stat().st_size > 0
    return False


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / RUN).glob("checkpoints/step-*"))


def assert_stopped(ended: Ended, number: int) -> None:
    """The command ended with the exit code of the signal."""
    assert "Traceback" not in ended.stderr, ended
    assert ended.code == 128 + number, ended


def loads_torch(process: Started) -> bool:
    """Whether a process that the command has started is loading torch, or has loaded it."""
    for pid in descendants(process.pid):
        with suppress(OSError):
            if "libtorch" in Path(f"/proc/{pid}/maps").read_text():
                return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["INT", "TERM", "HUP"])
def test_a_signal_while_a_process_for_trainings_starts_ends_with_its_code(fresh: Path, number: int) -> None:
    """A signal to the group ends `benchmark` with 128 + the signal, whatever its children are doing."""
    command = ["benchmark", "recipe.yaml", "benchmark={max_steps: 1000000}", "training.validate_every=1000000"]
    with running(*command, folder=fresh) as process:
        wait_for(lambda: loads_torch(process), process)
        signal_group(process, number)
        ended = finish(process)
    assert_stopped(ended, number)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1], ids=lambda number: number.name[3:]
)
def test_a_signal_while_prepare_starts_its_workers_ends_with_its_code(fresh: Path, number: int) -> None:
    """A signal to the group ends `prepare` with 128 + the signal, and nothing is left of its work."""
    with running("prepare", "recipe.yaml", "work=other", "--workers", "2", folder=fresh) as process:
        wait_for(lambda: len(descendants(process.pid)) > 1, process)
        signal_group(process, number)
        ended = finish(process)
    assert_stopped(ended, number)
    assert [path.name for path in fresh.glob("other/**/*") if path.is_file()] == ["lock"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_the_same_signal_again_within_seconds_does_not_lose_the_training(fresh: Path, number: int) -> None:
    """A signal that is repeated until the command has ended still leaves a checkpoint to continue from."""
    with running(*ENDLESS, folder=fresh) as process:
        wait_for(lambda: logged(fresh), process)
        while process.poll() is None:
            signal_group(process, number)
            time.sleep(0.003)
        ended = finish(process)
    assert_stopped(ended, number)
    assert "the same command" in ended.stderr, ended
    assert len(checkpoints(fresh)) == 1


def test_sigusr1_saves_and_ends_with_138(fresh: Path) -> None:
    """SIGUSR1, which SLURM sends before the time is up, is obeyed like SIGTERM."""
    with running(*ENDLESS, folder=fresh) as process:
        wait_for(lambda: logged(fresh), process)
        os.kill(process.pid, signal.SIGUSR1)
        ended = finish(process)
    assert_stopped(ended, signal.SIGUSR1)
    assert len(checkpoints(fresh)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["TERM", "USR1"])
def test_a_signal_to_a_sweep_ends_with_its_code(fresh: Path, number: int) -> None:
    """The training of a sweep saves its state before the command ends."""
    command = ["sweep", "recipe.yaml", "--threshold", "9", "training.max_steps=1000000"]
    with running(*command, "training.validate_every=1000000", folder=fresh) as process:
        wait_for(lambda: any(path.stat().st_size for path in fresh.glob("work/runs/*/log.jsonl")), process)
        os.kill(process.pid, number)
        ended = finish(process)
    assert_stopped(ended, number)
    assert len(list(fresh.glob("work/runs/*/checkpoints/step-*"))) == 1


def test_a_killed_fork_server_is_an_error_with_a_message(fresh: Path) -> None:
    """`benchmark` ends with 1 and says what was killed; it does not take the lost connection for an interruption."""
    command = ["benchmark", "recipe.yaml", "benchmark={max_steps: 1000000}", "training.validate_every=1000000"]
    with running(*command, folder=fresh) as process:
        wait_for(lambda: loads_torch(process), process)
        for pid in descendants(process.pid):
            if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        ended = finish(process)
    assert_refused(ended, "was killed", codes=[1])


def test_a_killed_prepare_worker_is_told_in_a_line(fresh: Path) -> None:
    """`prepare` ends with 1, says that a worker was killed, and leaves nothing of its work behind."""
    for path in (fresh / "text").glob("*.train.tsv"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{i} {line}{i}\n" for i in range(300) for line in lines), encoding="utf-8")
    with running("prepare", "recipe.yaml", "work=other", "--workers", "2", folder=fresh) as process:
        wait_for(lambda: len(workers(process)) == 2, process)
        os.kill(workers(process)[-1], signal.SIGKILL)
        ended = finish(process)
    assert_refused(ended, "killed", codes=[1])
    assert [path.name for path in fresh.glob("other/**/*") if path.is_file()] == ["lock"]
    assert_done(cclm("prepare", "recipe.yaml", "--dry-run", folder=fresh))


def workers(process: Started) -> list[int]:
    """The processes that a command's fork server has started."""
    children = descendants(process.pid)
    return [pid for child in children for pid in descendants(child)]
