"""The process that does a job of SLURM: `python -m cclm.experiments.slurm_job FOLDER`, started by `slurm.Task`."""

import atexit
import gc
import os
import sys
from pathlib import Path

from cclm.errors import EXPLAINED, Interrupted, explain
from cclm.experiments.executor import Job
from cclm.formats.job import JOB, STATE, JobFile, JobState


def main(folder: Path) -> None:
    """Does the job in a folder, and writes its state there."""
    import torch

    torch.set_num_threads(1)  # as in `executor.work`: the same bytes as on one machine
    job, number = Job.of_file(JobFile.read(folder / JOB)), os.environ.get("SLURM_JOB_ID")
    state = JobState.read(folder / STATE).model_copy(update={"state": "running", "job": number, "why": None})
    state.write(folder / STATE)
    try:
        job.run()
    except Interrupted as interrupted:
        state.model_copy(update={"state": "queued"}).write(folder / STATE)
        sys.exit(128 + interrupted.number)
    except EXPLAINED as error:
        why = explain(error)
        state.model_copy(update={"state": "failed", "why": why}).write(folder / STATE)
        sys.exit(f"cclm: {why}")
    state.model_copy(update={"state": "done"}).write(folder / STATE)


if __name__ == "__main__":
    atexit.register(gc.freeze)  # as in `cclm.cli.main`
    main(Path(sys.argv[1]))
