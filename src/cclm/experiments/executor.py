"""Runs many trainings at once, each in a process of its own with one thread: on two cores two of them do more than one
training with two threads. What they do is read from their logs."""

import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.formats.log import Event, LogTail
from cclm.recipe.schema import Recipe
from cclm.signals import held_back, let_through
from cclm.training.lock import announce, name_of, owner_of

PROCESSES = multiprocessing.get_context("forkserver")
"""Processes are forked off one that has loaded torch, which takes seconds, and has done nothing else."""
PROCESSES.set_forkserver_preload(["cclm.training.session"])


@dataclass(frozen=True)
class Job:
    """A run to be trained, and perhaps scored, in a process of its own."""

    name: str
    recipe: Path
    """A recipe as JSON."""
    folder: Path
    """The run directory."""
    data: Path
    """The folder of the prepared data: another process may change which is the current one."""
    only: str | None = None
    """The one task of a bitext model."""
    forks: tuple[Path, ...] = ()
    """Recipes with other gates, which share this training until their curricula decide otherwise."""
    scored: bool = False
    """Whether its test sets are translated and scored when it is trained."""

    def settings(self) -> Recipe:
        """The recipe."""
        return read_recipe(self.recipe)

    def run(self) -> None:
        """Does the job in this process."""
        from cclm.experiments.pipeline import train_job

        train_job(self)


def read_recipe(path: Path) -> Recipe:
    """A recipe that was written for a job."""
    return Recipe.model_validate_json(path.read_text(encoding="utf-8"))


class Watcher(Protocol):
    """Follows jobs while they run."""

    def __call__(self, job: Job, event: Event) -> object:
        """An event of a job's log."""


def nobody(job: Job, event: Event) -> None:
    """The watcher that looks away."""


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    watcher: Watcher,
    more: Callable[[], Sequence[Job]] = lambda: (),
    say: Callable[[str], object] = announce,
) -> dict[str, str]:
    """Runs all jobs, `at_once` at a time; returns why some failed, by name.

    A job that fails does not stop the others. When this process ends, however, so do they. `more` is asked again and
    again for jobs that have become possible through the others. Jobs that another process works on come last, and wait
    for it.
    """
    waiting: list[Job] = list(jobs)
    running: list[_Process] = []
    failed: dict[str, str] = {}
    try:
        while (waiting := [*waiting, *more()]) or running:
            while waiting and len(running) < at_once:
                running.append(_Process(_next(waiting, say)))
            time.sleep(0.1)
            for process in list(running):
                ended = process.has_ended()  # asked first: whatever it wrote before is then in the log
                for event in process.events():
                    watcher(process.job, event)
                if ended:
                    running.remove(process)
                    complaint = process.complaint()
                    failed |= {process.job.name: complaint} if complaint else {}
    finally:
        for process in running:
            process.ask_to_stop()
        for process in running:
            process.complaint()
    return failed


def _next(waiting: list[Job], say: Callable[[str], object]) -> Job:
    """Takes the first job out of the list that no other process works on, or else the first of all."""
    owners = [owner_of(job.folder) for job in waiting]
    place = owners.index(None) if None in owners else 0
    job = waiting.pop(place)
    if owners[place]:
        say(f"{job.name}: waiting for {name_of(owners[place])}, which works on {job.folder}")
    return job


class _Process:
    """A job under way, and how far its log has been read."""

    def __init__(self, job: Job) -> None:
        self.job = job
        # A file, as a pipe would fill up.
        self._stderr = tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._log = LogTail(job.folder / "log.jsonl")
        self._process = PROCESSES.Process(target=work, args=(job, self._stderr.name))
        try:
            with held_back():
                self._process.start()
        except BaseException:  # a signal that was held back: Python would wait for a child that nobody has told to end
            if self._process.pid is not None:
                self._process.terminate()
            raise

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def events(self) -> Iterator[Event]:
        return self._log.new()

    def complaint(self) -> str | None:
        """Waits for the end of the job; returns why it failed, or None."""
        self._process.join()
        said = self._stderr.read().strip()
        self._stderr.close()
        if not self._process.exitcode:
            return None
        return _error_in(said) or f"exit code {self._process.exitcode}"

    def ask_to_stop(self) -> None:
        """It saves its state and ends."""
        self._process.terminate()


ERROR = "cclm failed: "
"""Before the message of an error on a job's standard error, which may have said more before."""


def _error_in(said: str) -> str:
    """The message that a job ended with: all its lines; without one, the last line that it printed."""
    _, marked, message = said.rpartition(ERROR)
    return message if marked else (said.splitlines() or [""])[-1]


def work(job: Job, stderr: str) -> None:
    """Does a job in this process, which was forked off for it."""
    os.setsid()  # a terminal's signals reach the parent alone, which passes them on once
    with open(stderr, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    let_through()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()

    import torch  # was loaded before this process was forked off, and is nothing for the parent

    torch.set_num_threads(1)
    try:
        job.run()
    except Interrupted as signal:
        sys.exit(128 + signal.number)
    except (ConfigError, DataError, TrainingError) as error:
        sys.exit(f"{ERROR}{error}")


def _end_with_the_parent() -> None:
    """Ends this process with the one that started it, even if that was killed.

    At once, without saving: whoever starts the job again may already wait for the run directory.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
