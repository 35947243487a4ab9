"""The process that does a job of SLURM: `python -m cclm.experiments.slurm_job FOLDER`, started by `slurm.Task`."""

import os
import sys
from pathlib import Path

from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.experiments.executor import Job
from cclm.formats.job import JOB, STATE, JobFile, JobState


def main(folder: Path) -> None:
    """Does the job of a folder, and writes there what it came to."""
    import torch

    torch.set_num_threads(1)  # as every training that is one of many: the same bytes as on one machine
    told, number = JobFile.read(folder / JOB), os.environ.get("SLURM_JOB_ID")
    state = JobState.read(folder / STATE).model_copy(update={"state": "running", "job": number, "why": None})
    state.write(folder / STATE)
    try:
        Job(told.name, told.recipe, told.folder, told.data, told.only, tuple(told.forks), told.scored).run()
    except Interrupted as interrupted:
        state.model_copy(update={"state": "queued"}).write(folder / STATE)
        sys.exit(128 + interrupted.number)
    except (ConfigError, DataError, TrainingError) as error:
        state.model_copy(update={"state": "failed", "why": str(error)}).write(folder / STATE)
        sys.exit(f"cclm: {error}")
    state.model_copy(update={"state": "done"}).write(folder / STATE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
