"""Signals that ask a command to end: obeyed once, however often they are delivered.

SLURM and torchrun deliver a signal several times, and a terminal delivers it to every process of the group. The same
signal again within 10 seconds is therefore ignored. A later or another one ends the process at once.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
REPEATED = 10.0
"""Seconds in which a repeated signal is ignored."""


class Received:
    """A handler that keeps the first signal, and calls `act` for it."""

    def __init__(self, act: Callable[[int], object] = lambda number: None) -> None:
        self.number = 0
        self._act, self._at = act, 0.0

    def __call__(self, number: int, _: object) -> None:
        """Called by Python when a signal arrives."""
        if not self.number:
            self.number, self._at = number, time.monotonic()
            self._act(number)
        elif number != self.number or time.monotonic() - self._at > REPEATED:
            os._exit(128 + number)


def raise_at_once() -> Received:
    """For a command: the first signal raises KeyboardInterrupt or SystemExit, so that files are cleaned up."""

    def act(number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    received = Received(act)
    for number in _heeded():
        signal.signal(number, received)
    return received


def _heeded() -> list[signal.Signals]:
    """The signals to handle: all but a SIGHUP that `nohup` has set to be ignored."""
    return [number for number in ENDING if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


def ignore_from_now_on() -> None:
    """For a command that is about to end: a signal that is still repeated must not change its exit code."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def only_noted() -> Iterator[Received]:
    """For a training: the first signal is only kept, to be asked for at safe places.

    After a signal has been received, its repetitions stay ignored when the block ends: the process is ending.
    """
    received = Received()
    before = {number: signal.signal(number, received) for number in _heeded()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if number == received.number else handler)


@contextmanager
def held_back() -> Iterator[None]:
    """While helper processes start: they inherit that these signals are blocked, and the parent gets them afterwards.

    Python's fork server would otherwise print a traceback if a signal to the group interrupts its imports. Processes
    that it starts call `let_through`.
    """
    resource_tracker.ensure_running()  # starts once; it would unblock SIGINT and SIGTERM
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """Lets signals through again in a process that was started while they were held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def fault(place: str) -> None:
    """Sends this process a signal here, if the environment asks for it: CCLM_FAULT_AT=place,count,signal.

    `save:after_model,2,SIGKILL` kills it when it reaches that place for the second time.
    """
    wanted, _, rest = os.environ.get("CCLM_FAULT_AT", "").partition(",")
    if wanted != place:
        return
    count, _, name = rest.partition(",")
    if int(count) > 1:
        os.environ["CCLM_FAULT_AT"] = f"{place},{int(count) - 1},{name}"
        return
    del os.environ["CCLM_FAULT_AT"]
    os.kill(os.getpid(), signal.Signals[name])
