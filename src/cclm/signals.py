"""Handlers for signals that ask a command to end. A signal that is delivered repeatedly is handled once.

SLURM and torchrun deliver a signal several times, and a terminal delivers it to every process of the group. The same
signal again within 10 seconds is therefore ignored. A later or another one ends the process at once.

In a job of SLURM every later signal is ignored: SLURM may send SIGUSR1 before the time is up, SIGTERM at the end of a
grace period and again before SIGKILL, and a large checkpoint takes longer than 10 seconds to write.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
REPEATED = 10.0
"""Seconds in which a repeated signal is ignored."""


def is_slurm_job() -> bool:
    """Whether SLURM has started this process, and ends it by SIGKILL if need be."""
    return "SLURM_JOB_ID" in os.environ


class Ended(KeyboardInterrupt):
    """Raised when a signal arrives. A plain KeyboardInterrupt would not do: if it is raised inside `exec` (as used by
    dataclasses), Python ends by SIGINT and ignores the exit code."""


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
        elif not is_slurm_job() and (number != self.number or time.monotonic() - self._at > REPEATED):
            os._exit(128 + number)


def end_at_once() -> None:
    """For a command that has nothing to clean up: a signal ends it with a line and its exit code.

    Signals that are ignored by now stay so: the command is ending because of them.
    """
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: end_now(number))


@contextmanager
def signals_end_at_once() -> Iterator[None]:
    """For a wait during which there is nothing to clean up: a signal ends the process with a line and its exit code."""
    import threading  # here: a command handles signals before it imports much

    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    before = {number: signal.signal(number, lambda number, _: end_now(number)) for number in _handled_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_now(number: int) -> None:
    """Ends the process with a line and the exit code of a signal."""
    with suppress(OSError):  # standard error may be closed
        os.write(2, b"cclm: interrupted\n")
    os._exit(128 + number)


def raise_at_once() -> Received:
    """For a command: the first signal raises KeyboardInterrupt, so that files are cleaned up.

    Where Python ignores what a handler raises, as in a finalizer, the command ends at once.
    """

    def act(number: int) -> None:
        raise Ended

    received = Received(act)
    for number in _handled_signals():
        signal.signal(number, received)
    report = sys.unraisablehook

    def unraisable(ignored: "sys.UnraisableHookArgs") -> None:
        if received.number and isinstance(ignored.exc_value, KeyboardInterrupt):
            end_now(received.number)
        report(ignored)

    sys.unraisablehook = unraisable
    return received


def _handled_signals() -> list[signal.Signals]:
    """The signals to handle: all but a SIGHUP that `nohup` has set to be ignored."""
    return [number for number in ENDING if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]


def ignore_from_now_on() -> None:
    """For a command that is about to end: a signal that is still repeated must not change its exit code."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def signals_recorded() -> Iterator[Received]:
    """For training: the first signal is only recorded. The training loop checks for it at safe points.

    After a signal has been received, its repetitions stay ignored when the block ends: the process is ending.
    """
    received = Received()
    before = {number: signal.signal(number, received) for number in _handled_signals()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if number == received.number else handler)


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks signals while helper processes start. The helpers inherit the mask; the parent gets the signals later.

    Python's fork server would otherwise print a traceback if a signal to the group interrupts its imports. Processes
    that it starts call `unblock_signals`, or leave signals to the parent.
    """
    from multiprocessing import resource_tracker  # here: a command handles signals before it imports much

    with _signals_delayed():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            resource_tracker.ensure_running()  # starts once; it unblocks SIGINT and SIGTERM, and ignores them
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _signals_delayed() -> Iterator[None]:
    """Delays the handlers: another thread of this process, which does not block signals, may receive one."""
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _handled_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def unblock_signals() -> None:
    """Unblocks signals in a process that was started while they were blocked. One that has arrived meanwhile ends the
    process without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
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
