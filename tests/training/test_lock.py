"""A run directory has one owner, whatever container or machine it lives in."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cclm.errors import ConfigError, TrainingError
from cclm.training.lock import Lock, owner_of

HOLD = """
import sys, time
from pathlib import Path
from cclm.training.lock import Lock
with Lock(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(60)
"""


def holder(folder: Path, *before: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen([*before, sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "mine\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def elsewhere(folder: Path, **facts: object) -> None:
    """As a process on another machine leaves it, whose lock is not seen here."""
    owner = {"pid": 7, "host": "node7", "machine": "another kernel", "namespace": "", "started": "1", "job": None}
    (folder / "lock").write_text(json.dumps(owner | facts))


def test_a_run_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with Lock(tmp_path):
        owner = owner_of(tmp_path)
        assert owner is not None
        assert owner.pid == os.getpid()
        with pytest.raises(TrainingError, match=f"belongs to process {os.getpid()} on .*: only one process"):
            Lock(tmp_path).__enter__()
    assert owner_of(tmp_path) is None
    with Lock(tmp_path):
        assert owner_of(tmp_path) is not None


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(TrainingError, match=f"belongs to process {process.pid}"):
        Lock(tmp_path).__enter__()
    end(process)
    assert owner_of(tmp_path) is None
    with Lock(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a pid namespace")
def test_processes_in_two_pid_namespaces_exclude_each_other(tmp_path: Path) -> None:
    process = holder(tmp_path, "unshare", "--pid", "--fork", "--kill-child")
    try:
        assert owner_of(tmp_path) is not None
        with pytest.raises(TrainingError, match="belongs to process"):
            Lock(tmp_path).__enter__()
    finally:
        end(process)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="/proc is hidden by root and unshare")
def test_owners_are_known_without_proc(tmp_path: Path) -> None:
    """As on macOS: a living owner is seen and respected, a killed one is not."""
    (tmp_path / "empty").mkdir()
    hidden = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc && exec "$@"', str(tmp_path / "empty")]
    process = holder(tmp_path, *hidden)
    ask = "import sys; from cclm.training.lock import Lock, owner_of; from pathlib import Path\n"
    ask += "print(owner_of(Path(sys.argv[1])) is not None)\nwith Lock(Path(sys.argv[1])): pass"
    asked = [*hidden, sys.executable, "-c", ask, str(tmp_path)]
    try:
        living = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert living.stdout == "True\n"
        assert f"belongs to process {process.pid} on" in living.stderr
    finally:
        end(process)
    dead = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (dead.returncode, dead.stdout) == (0, "False\n"), dead.stderr


def test_an_owner_on_another_machine_keeps_its_run_while_it_gives_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCLM_LOCK_TIMEOUT", "60")
    elsewhere(tmp_path)
    assert owner_of(tmp_path) is not None
    sign = threading.Timer(0.3, lambda: os.utime(tmp_path / "lock"))
    sign.start()
    with pytest.raises(TrainingError, match=r"belongs to process 7 on node7: only one process may train it"):
        Lock(tmp_path).__enter__()
    sign.join()
    old = time.time() - 61
    os.utime(tmp_path / "lock", (old, old))
    assert owner_of(tmp_path) is None
    with Lock(tmp_path):
        pass


@pytest.mark.parametrize("skew", [0, 3600])
def test_an_owner_on_another_machine_that_falls_silent_counts_as_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: int
) -> None:
    """Of the same job, too, which SLURM has requeued: the old training may be alive. Its clock may be wrong."""
    monkeypatch.setenv("CCLM_LOCK_TIMEOUT", "1")
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    elsewhere(tmp_path, job="42")
    os.utime(tmp_path / "lock", (time.time() + skew, time.time() + skew))
    began = time.monotonic()
    with Lock(tmp_path):
        assert 0.5 < time.monotonic() - began < 5


def test_an_owner_that_was_taken_for_dead_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLM_LOCK_TIMEOUT", "0.4")
    with Lock(tmp_path) as lock:
        lock.check()
        elsewhere(tmp_path)  # has taken over
        time.sleep(0.5)
        with pytest.raises(TrainingError, match=r"was taken over by 7@node7, because .* no sign of life for 0 seconds"):
            lock.check()
    assert '"node7"' in (tmp_path / "lock").read_text()  # and stays the owner


def test_a_host_has_the_name_that_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCLM_HOST", "node1")
    with Lock(tmp_path):
        owner = owner_of(tmp_path)
        assert owner is not None
        assert (owner.host, owner.machine) == ("node1", "node1")


@pytest.mark.parametrize("value", ["x", "0", "-1", "inf", "nan"])
def test_a_timeout_that_is_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CCLM_LOCK_TIMEOUT", value)
    with pytest.raises(ConfigError, match=f"CCLM_LOCK_TIMEOUT is '{value}'"):
        Lock(tmp_path).__enter__()


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    with Lock(tmp_path):
        facts = json.loads((tmp_path / "lock").read_text())
    (tmp_path / "lock").write_text(json.dumps(facts | {"started": "1"}))
    assert owner_of(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', "[" * 100_000])
def test_a_lock_file_that_says_nothing_counts_for_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    assert owner_of(tmp_path) is None
    with Lock(tmp_path):
        pass


def test_a_place_that_cannot_be_locked_is_told(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(TrainingError, match="lock: Is a directory"):
        Lock(tmp_path).__enter__()


def test_a_lock_file_that_its_owner_removes_meanwhile_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "entry.lock"
    owner = Lock(tmp_path, file=file).__enter__()
    with Lock(tmp_path, file=file, wait=lambda line: owner.__exit__()):
        assert file.exists()
