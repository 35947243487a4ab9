"""The files of a job of SLURM, in WORK/jobs/NAME-KEY: what it trains, and what has become of it."""

from pathlib import Path
from typing import ClassVar, Literal

from cclm.formats.base import JsonFile

JOBS, JOB, STATE = "jobs", "job.json", "state.json"


class JobFile(JsonFile):
    """job.json: a training, and perhaps its scoring, as a process on another machine is given it."""

    advice: ClassVar[str] = "the same command writes it again"
    name: str
    recipe: Path
    folder: Path
    data: Path
    only: str | None = None
    forks: list[Path] = []
    scored: bool = False


class JobState(JsonFile):
    """state.json: how far a job has come. The command that submits it writes `queued`, the job itself all else."""

    advice: ClassVar[str] = "the same command writes it again"
    name: str
    run: Path
    """The run directory."""
    slurm_name: str
    """What the job is called in SLURM's queue."""
    state: Literal["queued", "running", "done", "failed"] = "queued"
    job: str | None = None
    """The number that SLURM gave it, once it runs."""
    why: str | None = None
    """Why it failed."""


def job_states(work: Path) -> list[JobState]:
    """The jobs of a work folder; files that cannot be read are left out."""
    found = (JobState.find(path) for path in sorted((work / JOBS).glob(f"*/{STATE}")))
    return [state for state in found if state]
