"""Runs trainings in parallel, each in its own process with one thread: two cores are used better by two trainings than
by one with two threads. Progress is read from their logs. `slurm.py` has the same for jobs of a cluster, and
`display.py` shows how far they have come."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cclm.atomic import write_if_changed
from cclm.data.workers import available_cores, end_with_parent
from cclm.errors import EXPLAINED, ConfigError, DataError, Interrupted, TrainingError, explain
from cclm.formats.job import JobFile
from cclm.formats.log import Event, LogTail
from cclm.formats.run import LOG
from cclm.messages import Say, announce
from cclm.recipe.execution import execution_of, sbatch_options
from cclm.recipe.schema import Recipe
from cclm.signals import signals_blocked, unblock_signals
from cclm.training.lock import name_of, owner_of

PROCESSES = multiprocessing.get_context("forkserver")
"""Processes are forked off one that has loaded torch, which takes seconds, and has done nothing else."""
PROCESSES.set_forkserver_preload(["cclm.experiments.fork_server"])


ALL_TASKS = "*"


@dataclass(frozen=True)
class Job:
    """A run to be trained, and perhaps scored, in a process of its own."""

    name: str
    recipe: Path
    """A recipe as JSON."""
    folder: Path
    """The run directory."""
    data: Path
    """The cache entry of the prepared data, not the link WORK/prepared, which another process may change."""
    only: str | None = None
    """The one task of a bitext model; `*`, all tasks, for the multilingual training that L* comes from."""
    forks: tuple[Path, ...] = ()
    """Recipes with other gates, which share this training until their curricula decide otherwise."""
    scored: bool = False
    """Whether its test sets are translated and scored when it is trained."""

    def settings(self) -> Recipe:
        """The recipe."""
        return read_recipe(self.recipe)

    @classmethod
    def of_file(cls, file: JobFile) -> "Job":
        """The job that a file describes."""
        return cls(**{**dict(file), "forks": tuple(file.forks)})

    def file(self) -> JobFile:
        """The same as a file, for a process that is started in another folder."""
        paths = {"recipe": self.recipe.resolve(), "forks": [path.resolve() for path in self.forks]}
        return JobFile(**{**vars(self), **paths})

    def run(self) -> None:
        """Does the job in this process."""
        from cclm.experiments.train_job import train_job

        train_job(self)


def read_recipe(path: Path) -> Recipe:
    """A recipe that was written for a job."""
    try:
        return Recipe.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError:
        raise DataError(f"{path}: damaged; delete the file and repeat the command, which writes it again") from None


def save_recipe(path: Path, recipe: Recipe) -> None:
    """Writes a recipe for jobs to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, recipe.model_dump_json(indent=1) + "\n")


class Watcher(Protocol):
    """Is called with every event that running jobs log."""

    def __call__(self, job: Job, event: Event) -> object:
        """An event of a job's log."""


def ignore_events(job: Job, event: Event) -> None:
    """A watcher that ignores all events."""


class Running(Protocol):
    """A job under way."""

    @property
    def job(self) -> Job:
        """The job."""

    def has_ended(self) -> bool:
        """Whether it is over."""

    def events(self) -> Iterator[Event]:
        """What it has logged since the last call."""

    def why_failed(self) -> str | None:
        """Why it failed; None if it did not. Called after its end, or after `leave`."""

    def leave(self) -> None:
        """This process is about to end."""


class Executor(ABC):
    """Runs jobs: as processes on this machine, or as jobs of SLURM."""

    at_once: int
    """The most jobs in parallel."""
    is_elsewhere = False
    """Whether jobs run on other machines, which may have other devices than this one."""

    def run(
        self,
        jobs: Sequence[Job],
        watcher: Watcher,
        more: Callable[[], Sequence[Job]] = lambda: (),
        say: Say = announce,
    ) -> dict[str, str]:
        """Runs all jobs; returns the error messages of failed jobs by name. A failed job does not stop the others.

        `more` is called repeatedly and returns new jobs that depended on finished ones.
        """
        waiting: list[Job] = list(jobs)
        running: dict[int, Running] = {}
        failed: dict[str, str] = {}
        try:
            while (waiting := [*waiting, *more()]) or running:
                while waiting and len(running) < self.at_once:
                    place = next(number for number in range(self.at_once) if number not in running)
                    running[place] = self._start(waiting, place, say)
                self._pause()
                for place, each in list(running.items()):
                    ended = each.has_ended()  # before its log is read, which is complete then
                    for event in each.events():
                        watcher(each.job, event)
                    if ended:
                        del running[place]
                        why = each.why_failed()
                        failed |= {each.job.name: why} if why else {}
        except BaseException:
            self._leave(list(running.values()), say)
            raise
        return failed

    @abstractmethod
    def _start(self, waiting: list[Job], place: int, say: Say) -> Running:
        """Takes a job out of the waiting ones and starts it; `place` is its number among those in parallel."""

    @abstractmethod
    def _pause(self) -> None:
        """Waits until it is worth looking at the jobs again."""

    def _leave(self, running: Sequence[Running], say: Say) -> None:
        """This process is about to end."""
        for each in running:
            each.leave()
        for each in running:
            each.why_failed()


@dataclass
class Processes(Executor):
    """Runs jobs as processes on this machine, those that another process is working on last. All end with this one."""

    at_once: int
    gpus: int = 0
    """GPUs that the processes are dealt out to; 0 for CPUs."""

    def _start(self, waiting: list[Job], place: int, say: Say) -> Running:
        return _Process(_next(waiting, say), place % self.gpus if self.gpus else None)

    def _pause(self) -> None:
        time.sleep(0.1)


def executor_of(recipe: Recipe, given: Mapping[str, object]) -> Executor:
    """Where trainings run: as `given` on the command line, otherwise as in the recipe or in the user's file."""
    settings = execution_of(recipe.execution, given)
    if settings.executor == "processes":
        if given.get("slurm"):
            raise ConfigError("--slurm goes with --executor slurm")
        return processes_for(recipe.training.device, settings.at_once)
    if recipe.training.precision == "auto":
        raise ConfigError(
            "training.precision is auto, which may be another on this machine than on the nodes of SLURM;"
            " set it, as in training.precision=fp32 or changes.training.precision=bf16"
        )
    from cclm.experiments.slurm import Slurm

    return Slurm(Path(recipe.work), sbatch_options(settings.slurm), settings.at_once)


def processes_for(device: str, at_once: int | None = None) -> Processes:
    """Runs `at_once` jobs in parallel: by default one per GPU if the device may be one, otherwise one per core."""
    gpus = gpu_count() if device in ("auto", "cuda") else 0
    return Processes(at_once or gpus or available_cores(), gpus)


def gpu_count() -> int:
    """The number of CUDA devices that this process may use, without torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def _next(waiting: list[Job], say: Say) -> Job:
    """Takes the first job out of the list that no other process works on, or else the first of all."""
    owners = [owner_of(job.folder) for job in waiting]
    place = owners.index(None) if None in owners else 0
    job = waiting.pop(place)
    if owners[place]:
        say(f"{job.name}: waiting for {name_of(owners[place])}, which works on {job.folder}")
    return job


class _Process:
    """A job under way, and how far its log has been read."""

    def __init__(self, job: Job, gpu: int | None) -> None:
        self.job = job
        # A file, as a pipe would fill up.
        self._stderr = tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._log = LogTail(job.folder / LOG)
        self._process = PROCESSES.Process(target=work, args=(job, self._stderr.name, gpu))
        try:
            with signals_blocked():
                self._process.start()
        except (EOFError, ConnectionError):  # from the fork server; click would take an EOFError for Ctrl-D
            raise TrainingError(
                f"{job.name}: the process that starts trainings was killed, perhaps for lack of memory;"
                " run the same command to continue"
            ) from None
        except BaseException:  # such as a delayed signal: at exit, Python would wait for the child
            if self._process.pid is not None:
                self._process.terminate()
            raise

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def events(self) -> Iterator[Event]:
        return self._log.new()

    def why_failed(self) -> str | None:
        """Waits for the end of the job; returns why it failed, or None."""
        self._process.join()
        said = self._stderr.read().strip()
        self._stderr.close()
        code = self._process.exitcode
        if not code:
            return None
        if code < 0 and ERROR not in said:
            return f"killed by {signal.Signals(-code).name}" + (OUT_OF_MEMORY if code == -signal.SIGKILL else "")
        return _error_in(said) or f"exit code {code}"

    def leave(self) -> None:
        """Sends SIGTERM: the job saves a checkpoint and ends."""
        self._process.terminate()


OUT_OF_MEMORY = ", perhaps for lack of memory"
ERROR = "cclm failed: "
"""Precedes the error message on a job's standard error, which may contain other output before it."""


def _error_in(said: str) -> str:
    """The message that a job ended with: all its lines; without one, the last line that it printed."""
    _, marked, message = said.rpartition(ERROR)
    return message if marked else (said.splitlines() or [""])[-1]


def work(job: Job, stderr: str, gpu: int | None = None) -> None:
    """Does a job in this process, which was forked off for it, on the GPU of this number."""
    if gpu is not None:
        os.environ["LOCAL_RANK"] = str(gpu)
    os.setsid()  # a terminal's signals reach the parent alone, which passes them on once
    with open(stderr, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    unblock_signals()
    end_with_parent()

    import torch  # already loaded in the fork server; not imported at the top, as the parent does not need it

    torch.set_num_threads(1)
    try:
        job.run()
    except Interrupted as signal:
        sys.exit(128 + signal.number)
    except EXPLAINED as error:
        sys.exit(f"{ERROR}{explain(error)}")
