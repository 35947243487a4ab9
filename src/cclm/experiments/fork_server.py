"""What the fork server loads before it forks the first training off; see `executor.PROCESSES`."""

import atexit
import gc

import cclm.experiments.train_job
import cclm.training.session  # noqa: F401 (for the trainings)

gc.freeze()  # trainings share the memory of these modules as long as no garbage collection writes to it
atexit.register(gc.freeze)  # for modules that are loaded later: the server ends without looking for garbage in them
