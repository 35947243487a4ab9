"""Workers are started undisturbed: a signal that comes meanwhile waits, and is then as good as ever."""

import signal
import threading

import pytest

from cclm.data.workers import _signals_delayed


def test_a_signal_waits() -> None:
    reached = []

    def work() -> None:
        with _signals_delayed():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["the end"]
    with pytest.raises(KeyboardInterrupt):  # as before
        signal.raise_signal(signal.SIGINT)


def test_other_threads_have_no_signals_to_wait_for() -> None:
    done = []

    def work() -> None:
        with _signals_delayed():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
