"""Windows: systems that run in turn, each in a process of its own that is stopped while the others are measured.

A system starts once and warms up. SIGSTOP and SIGCONT then give it the machine for a window at a time; an update that a
window's end cuts in two counts whole in the next window of that system. Only updates and time in which the system ran
are counted: tokens/s are of real target tokens, from the last update of one window to the last update of the next.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

THREADS = 2
LOOK = 0.02
"""Seconds between two looks at what a system tells."""
PATIENCE = 300.0
"""Seconds without an update before a system counts as failed."""


class Failed(RuntimeError):
    """A system that does not do its work; the message is its own last word."""


@dataclass(frozen=True)
class Window:
    """What one window found."""

    tokens: float
    seconds: float
    updates: int
    others: float
    """The share of all cores that other processes used meanwhile: what a quiet machine has near 0."""

    @property
    def rate(self) -> float:
        """Target tokens/s."""
        return self.tokens / self.seconds


class Pauses:
    """A clock that stands still while a system is stopped."""

    def __init__(self, start: float) -> None:
        self._resumed, self._stopped = [start], [float("inf")]

    def stop(self, now: float) -> None:
        self._stopped[-1] = now

    def resume(self, now: float) -> None:
        self._resumed.append(now)
        self._stopped.append(float("inf"))

    def ran(self, until: float) -> float:
        """Seconds that the system has run up to a moment."""
        spans = zip(self._resumed, self._stopped, strict=True)
        return sum(max(0.0, min(stopped, until) - resumed) for resumed, stopped in spans)


class System:
    """A system under measurement. `align` updates belong together: windows hold a multiple of them."""

    def __init__(
        self, name: str, command: Sequence[str], told: Path, *, align: int = 1, threads: int = THREADS
    ) -> None:
        self.name, self._command, self._told, self._align = name, list(command), told, align
        self._threads = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self._process: subprocess.Popen[bytes] | None = None
        self._times: list[float] = []
        self._tokens: list[float] = []
        self._counted = self._place = 0

    def start(self, updates: int) -> None:
        """Starts, lets it do so many updates, and stops it."""
        self._told.unlink(missing_ok=True)
        self._told.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._threads},
                start_new_session=True,
            )
        self._clock = Pauses(time.monotonic())
        self._let_run(seconds=0.0, updates=updates)
        self._counted = len(self._times)

    def window(self, seconds: float) -> Window:
        """Lets it run for about so long, until an update is done."""
        self._clock.resume(time.monotonic())
        busy, own, begun = busy_seconds(), self._cpu_seconds(), time.monotonic()
        self._signal(signal.SIGCONT)
        self._let_run(seconds=seconds, updates=1)
        elsewhere = (busy_seconds() - busy) - (self._cpu_seconds() - own)
        others = max(0.0, elsewhere / (time.monotonic() - begun) / (os.cpu_count() or 1))
        first, last = self._counted - 1, len(self._times) - 1
        last -= (last - first) % self._align
        self._counted = last + 1
        spent = self._clock.ran(self._times[last]) - self._clock.ran(self._times[first])
        return Window(self._tokens[last] - self._tokens[first], spent, last - first, others)

    def peak_memory(self) -> int:
        """Bytes: the most that was ever resident of the process, and of its children."""
        assert self._process
        return sum(_status(pid, "VmHWM") for pid in processes(self._process.pid))

    def own_memory(self) -> int:
        """Bytes that are resident now and belong to no file."""
        assert self._process
        return sum(_status(pid, "RssAnon") for pid in processes(self._process.pid))

    @property
    def first_update(self) -> float:
        """When the first update was done."""
        return self._times[0]

    def end(self) -> None:
        """Ends the process and its children."""
        if self._process and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _cpu_seconds(self) -> float:
        assert self._process
        return sum(cpu_seconds(pid) for pid in processes(self._process.pid))

    @property
    def _output(self) -> Path:
        return self._told.with_suffix(".out")

    def _let_run(self, *, seconds: float, updates: int) -> None:
        """Until both are over and a group of `align` updates is done; then stops it."""
        begun = time.monotonic()
        while True:
            self._read()
            done = (len(self._times) - self._counted) // self._align * self._align
            if done >= updates and self._times[self._counted + done - 1] >= begun + seconds:
                break
            now = time.monotonic()
            self._check_alive(now - (self._times[-1] if len(self._times) > self._counted else begun))
            time.sleep(LOOK)
        self._signal(signal.SIGSTOP)
        self._clock.stop(time.monotonic())
        self._read()

    def _check_alive(self, silent: float) -> None:
        assert self._process
        if self._process.poll() is not None:
            raise Failed(f"ended with {self._process.returncode}: {self._last_word()}")
        if silent > PATIENCE:
            raise Failed(f"no update in {silent:.0f} s: {self._last_word()}")

    def _last_word(self) -> str:
        lines = self._output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][-200:] if lines else "it said nothing"

    def _read(self) -> None:
        if not self._told.exists():
            return
        with self._told.open(encoding="utf-8") as file:
            file.seek(self._place)
            lines = file.read().split("\n")[:-1]  # the last may be half written
        self._place += sum(len(line) + 1 for line in lines)
        for line in lines:
            when, tokens = line.split()
            self._times.append(float(when))
            self._tokens.append(float(tokens))

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        os.killpg(self._process.pid, number)


@contextmanager
def running(updates: int, *systems: System) -> Iterator[None]:
    """Starts the systems one after the other and lets each warm up; ends them all."""
    try:
        for each in systems:
            each.start(updates)
        yield
    finally:
        for each in systems:
            each.end()


def processes(root: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield root
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from processes(int(child))


def _status(pid: int, what: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{what}:")), 0)


def cpu_seconds(pid: int) -> float:
    """Of a process, user and system."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> float:
    """Of all cores and processes since the machine started; waiting for a disk is not being busy."""
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def say(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)
