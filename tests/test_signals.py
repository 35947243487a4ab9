"""A signal is obeyed once: repetitions are ignored for ten seconds, another or a later one ends the process at once."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from cclm.signals import ENDING, signals_blocked, signals_recorded

REPEATS = """
import os, signal, sys
from cclm import signals
signals.REPEATED = float(sys.argv[1])
with signals.signals_recorded() as received:
    for name in sys.argv[2:]:
        os.kill(os.getpid(), getattr(signal, name))
print("ended by itself, after", signal.Signals(received.number).name)
"""


def repeated(seconds: float, *names: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", REPEATS, str(seconds), *names]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_the_same_signal_again_is_ignored(name: str) -> None:
    ended = repeated(10, name, name, name)
    assert (ended.returncode, ended.stdout) == (0, f"ended by itself, after {name}\n")


def test_another_signal_ends_at_once() -> None:
    assert repeated(10, "SIGTERM", "SIGINT").returncode == 130


def test_the_same_signal_later_ends_at_once() -> None:
    assert repeated(-1, "SIGTERM", "SIGTERM").returncode == 143


def test_in_a_job_of_slurm_every_later_signal_is_ignored() -> None:
    ended = repeated(-1, "SIGUSR1", "SIGTERM", "SIGTERM", SLURM_JOB_ID="7")
    assert (ended.returncode, ended.stdout) == (0, "ended by itself, after SIGUSR1\n")


def test_repetitions_stay_ignored_after_a_training_was_interrupted_and_other_signals_do_not() -> None:
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        with signals_recorded():
            os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_command_under_nohup_does_not_end_with_its_terminal() -> None:
    ended = subprocess.run(
        ["nohup", sys.executable, "-c", REPEATS, "10", "SIGHUP", "SIGUSR1"], capture_output=True, text=True, check=False
    )
    assert ended.stdout.endswith("ended by itself, after SIGUSR1\n")


@pytest.mark.parametrize("received_by", ["main thread", "another thread"])
def test_a_signal_waits_until_helper_processes_have_started(received_by: str) -> None:
    reached = []

    def deliver() -> None:
        if received_by == "main thread":
            signal.raise_signal(signal.SIGINT)
            return
        thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)  # a thread that was started before blocks nothing
        thread.start()
        thread.join()

    def work() -> None:
        with signals_blocked():
            deliver()
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the end"]
    with pytest.raises(KeyboardInterrupt):  # as before
        signal.raise_signal(signal.SIGINT)


def test_helper_processes_can_be_started_in_another_thread() -> None:
    done = []

    def work() -> None:
        with signals_blocked():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
