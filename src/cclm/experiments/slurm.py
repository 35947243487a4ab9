"""Submits trainings as jobs of SLURM, through submitit, and follows them by their files.

Every job has a folder WORK/jobs/NAME-KEY, with its task (job.json), its state (state.json) and SLURM's output. SLURM's
accounting is not needed: the folder and the run directory have the result of a job, and `squeue` shows whether it still
exists. A job resumes its run as any other process does, so it may be started again at any time. cclm cancels no job;
`scancel` does.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cclm.data.work_folder import key_of
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.executor import Executor, Job, Running
from cclm.formats.job import JOB, JOBS, STATE, JobState
from cclm.formats.log import Event, LogTail
from cclm.formats.run import LOG
from cclm.messages import Say

MAX_QUEUED = 32
"""The default for the most jobs in SLURM's queue at the same time."""
LOOK_SECONDS, ASK_SECONDS = 1.0, 10.0
"""Seconds between two looks at the files of jobs, and between two calls of `squeue`."""
WARNING = 90
"""Seconds before its time limit at which SLURM signals a job, which then saves and is requeued."""
RESTARTS = 10**6
"""How often a job may reach its time limit."""
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


class Slurm(Executor):
    """Submits jobs, at most `at_once` in SLURM's queue at the same time, and follows them.

    If this process ends, its jobs go on. The same command finds those that are in the queue, and follows them again.
    """

    is_elsewhere = True

    def __init__(self, work: Path, options: Mapping[str, str], at_once: int | None = None) -> None:
        self.at_once, self._work, self._options = at_once or MAX_QUEUED, work, dict(options)
        self._minutes = minutes(self._options.get("time", ""))
        if not shutil.which("sbatch") or not shutil.which("squeue"):
            raise ConfigError("executor slurm: no `sbatch` and `squeue` here; start it where jobs are submitted")
        import submitit  # noqa: F401 (refused here, and not after the data was prepared)

        self._queue = Queue()

    def _start(self, waiting: list[Job], place: int, say: Say) -> Running:
        return self._submit(waiting.pop(0), say)

    def _pause(self) -> None:
        time.sleep(LOOK_SECONDS)
        self._queue.ask()

    def _leave(self, running: Sequence[Running], say: Say) -> None:
        super()._leave(running, say)
        if running:
            say(f"{len(running)} jobs stay in SLURM's queue; the same command follows them again, scancel ends them")

    def _submit(self, job: Job, say: Say) -> "_Submitted":
        self._queue.ask()
        folder = job_folder(self._work, job)
        name = f"cclm-{folder.name}"
        if name in self._queue:
            say(f"{job.name}: in SLURM's queue as {name}")
            return _Submitted(job, folder, self._queue, say)
        folder.mkdir(parents=True, exist_ok=True)
        job.file().write(folder / JOB)
        JobState(name=job.name, run=job.folder.resolve(), slurm_name=name).write(folder / STATE)
        number = self._sbatch(folder, name)
        self._queue.add(name)
        say(f"{job.name}: queued as SLURM job {number}")
        return _Submitted(job, folder, self._queue, say)

    def _sbatch(self, folder: Path, name: str) -> str:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        executor = SlurmExecutor(folder=folder, max_num_timeout=RESTARTS)
        executor.update_parameters(
            job_name=name,
            time=self._minutes,
            signal_delay_s=min(WARNING, 15 * self._minutes),
            stderr_to_stdout=True,
            # `requeue` and the like have no value
            additional_parameters={key: value or True for key, value in {"requeue": "", **self._options}.items()},
        )
        try:
            submitted: Any = executor.submit(Task(str(folder.resolve())))
        except (FailedSubmissionError, FailedJobError, subprocess.CalledProcessError) as error:
            raise TrainingError(f"sbatch refused the job: {_last_line(error)}; see --slurm") from None
        return str(submitted.job_id)


def minutes(text: str) -> int:
    """A time limit as sbatch takes it, such as 240, 4:00:00 or 1-12, in minutes."""
    found = TIME.fullmatch(text)
    if not found:
        raise ConfigError(
            f"executor slurm: time is {text!r}; every job needs a time limit, as in --slurm time=240 (minutes):"
            " jobs that reach it continue by themselves"
        )
    days, *rest = found.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is not None:  # days-hours:minutes:seconds
        return max(1, 60 * (24 * int(days) + numbers[0]) + sum(numbers[1:2]))
    if len(numbers) == 3:  # hours:minutes:seconds
        return max(1, 60 * numbers[0] + numbers[1])
    return max(1, numbers[0])


def _last_line(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    return next((line for line in reversed(str(text).splitlines()) if line.strip()), type(error).__name__)


def job_folder(work: Path, job: Job) -> Path:
    """The folder of a job: the same for the same run."""
    return work / JOBS / f"{job.name.replace('/', '.')}-{key_of(str(job.folder.resolve()))[:8]}"


class Queue:
    """The user's jobs in SLURM's queue, as of the last call of `squeue`."""

    def __init__(self) -> None:
        self.answers = 0
        """How often `squeue` has answered."""
        self._names: set[str] = set()
        self._asked = 0.0
        self.ask()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Adds a job that was submitted after that call."""
        self._names.add(name)

    def ask(self) -> None:
        """Calls `squeue`, at most every `ASK_SECONDS` seconds once it has answered. If it fails, nothing changes."""
        if self.answers and time.monotonic() - self._asked < ASK_SECONDS:
            return
        self._asked = time.monotonic()
        command = ["squeue", "--me", "--noheader", "--format=%j"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        except (OSError, subprocess.SubprocessError):
            return
        self._names = set(answer.stdout.split())
        self.answers += 1


class _Submitted:
    """A job in SLURM's queue or beyond it, and how far its log has been read."""

    def __init__(self, job: Job, folder: Path, queue: Queue, say: Say) -> None:
        self.job = job
        self._folder, self._queue, self._say, self._why = folder, queue, say, ""
        self._log = LogTail(job.folder / LOG)
        self._shown, self._missed = "queued", 0
        self._answers = 0

    def events(self) -> Iterator[Event]:
        return self._log.new()

    def has_ended(self) -> bool:
        """Whether the job is over. It has failed if two answers of `squeue` in a row do not list it."""
        state = JobState.find(self._folder / STATE)
        if state and state.state != self._shown:
            self._shown = state.state
            if state.state == "running":
                self._say(f"{self.job.name}: running as SLURM job {state.job}")
        if state and state.state in ("done", "failed"):
            self._why = state.why or ""
            return True
        if self._queue.answers != self._answers:
            self._answers = self._queue.answers
            known = state is not None and state.slurm_name in self._queue
            self._missed = 0 if known else self._missed + 1
        if self._missed < 2:
            return False
        number = state.job if state and state.job else "of this training"
        self._why = (
            f"the SLURM job {number} is gone: cancelled, or killed with its node; its output is in {self._folder}"
        )
        return True

    def why_failed(self) -> str | None:
        return self._why or None

    def leave(self) -> None:
        """It stays in the queue, or goes on."""


class Task:
    """What submitit runs on a node: a process of its own that does the job.

    Shortly before the time limit, SLURM's signal is passed to that process, which saves and ends; then submitit puts
    the job back into the queue.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Does the job; called on the node."""
        folder = Path(self._folder)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "cclm.experiments.slurm_job", self._folder]
        self._process = subprocess.Popen(command, env=environment)
        while (code := self._process.poll()) is None:
            time.sleep(0.2)
        state = JobState.read(folder / STATE)
        if code == 0 or state.state == "failed":
            return
        number = -code if code < 0 else code - 128
        if number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT):  # cancelled or preempted: SLURM ends the job
            sys.exit(code if code > 0 else 128 + number)
        state.model_copy(update={"state": "failed", "why": f"exit code {code}; see {folder}"}).write(folder / STATE)

    def checkpoint(self) -> Any:
        """Called by submitit in a handler of SIGUSR2, before it puts the job back into the queue."""
        from submitit.helpers import DelayedSubmission

        if self._process:
            self._process.send_signal(signal.SIGUSR2)  # the same that SLURM sends: a repetition is ignored
            while self._process.poll() is None:  # `wait` would deadlock with the `poll` that was interrupted
                time.sleep(0.1)
        return DelayedSubmission(Task(self._folder))
