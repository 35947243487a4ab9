"""The state of a run, read from its files: running, interrupted, finished, failed or damaged; how far it has come."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cclm.errors import ConfigError, DataError, explain
from cclm.formats.job import JOBS, JobState, job_states
from cclm.formats.log import Event, Validation, events_backwards
from cclm.formats.run import CONFIG, LOG, MADE_FROM, NOT_FINITE, NotFinite, read_settings
from cclm.formats.run_folder import is_bitext, is_for_losses
from cclm.formats.scores import Means, Scores
from cclm.training.lock import owner_of
from cclm.training.provenance import newest_checkpoint, progress_of
from cclm.training.run_inputs import data_of, recipe_of, tasks_of

SIGNS = (MADE_FROM, CONFIG, LOG, "checkpoints")
"""A folder that has any two of these is a run, even if it is damaged."""
SKIPPED = ("prepared", "cache")
"""Folders of a work folder without runs of their own; bitext models in the cache are reached through their link."""


@dataclass(frozen=True)
class RunState:
    """The state of a run and how far it has come. Fields that are unknown are None."""

    state: str
    """queued, running, interrupted, finished, failed, damaged, or bitext system for a folder of bitext runs."""
    reason: str | None = None
    """Why it ended, who runs it, or what is wrong with it."""
    step: int | None = None
    max_steps: int | None = None
    best: int | None = None
    """The step of the best checkpoint so far."""
    dev_loss: float | None = None
    """The dev loss of the best checkpoint, weighted as in the paper."""
    bleu: Means | None = None


def runs_below(folder: Path) -> Iterator[Path]:
    """The run directories in this folder, or the folder itself; a folder of bitext runs comes before them."""
    for place, folders, files in os.walk(folder):
        if sum(sign in files or sign in folders for sign in SIGNS) >= 2:
            folders.clear()
            yield Path(place)
        elif is_bitext(Path(place)):
            yield Path(place)
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in folders:
            link = Path(place) / name
            if is_bitext(link) and link.is_symlink():  # os.walk does not follow the link into the cache
                yield from runs_below(link)


def queued_below(folder: Path) -> dict[Path, JobState]:
    """The jobs of SLURM that are queued or running according to their files, by run directory in this folder."""
    above = folder.resolve()
    works = [place for place in (above, above.parent) if (place / JOBS).is_dir()]
    works += [path.parent for path in above.glob(f"*/{JOBS}") if path.is_dir()]
    jobs = [job for work in works for job in job_states(work) if job.state in ("queued", "running")]
    return {job.run: job for job in jobs if job.run.is_relative_to(above)}


def in_queue(job: JobState, before: RunState | None) -> RunState:
    """The state of a run whose job is in SLURM's queue; `before` is what its own files say, if it has any."""
    reason = f"SLURM job {job.job}" if job.job else f"as {job.slurm_name}"
    return replace(before, state="queued", reason=reason) if before else RunState("queued", reason)


def state_of(run: Path) -> RunState:
    """The state of a run; a file that cannot be read makes it damaged, with the reason."""
    try:
        return RunState("bitext system", bleu=_bleu(run)) if is_bitext(run) else _state_of(run)
    except (ConfigError, DataError, OSError) as error:
        why = explain(error)
        return RunState("damaged", why.splitlines()[0])


def _state_of(run: Path) -> RunState:
    newest, owner = newest_checkpoint(run), owner_of(run)
    progress = progress_of(newest) if newest else None
    step, max_steps = progress.step if progress else 0, recipe_of(run).training.max_steps
    state, reason = "interrupted", None if newest else "before its first checkpoint"
    if owner:
        state, reason = "running", f"{owner.pid}@{owner.host}"
        step = next((event.step for event in _events_backwards(run)), 0)
    elif progress and progress.is_over(max_steps):
        state, reason = "finished", progress.finished
    elif (failed := NotFinite.find(run / NOT_FINITE)) and failed.batches and failed.batches[-1].step > step:
        at = failed.batches[-1].step
        state, reason = "failed", f"step {at:,}: loss or gradient not finite; lower training.learning_rate"
    best = progress.selected_step if progress else None
    return RunState(state, reason, step, max_steps, best, _dev_loss(run, best), _bleu(run))


def _dev_loss(run: Path, best: int | None) -> float | None:
    events = _events_backwards(run) if best is not None else ()
    return next((event.weighted for event in events if isinstance(event, Validation) and event.step == best), None)


def _events_backwards(run: Path) -> Iterator[Event]:
    return events_backwards(run / LOG) if (run / LOG).exists() else iter(())


def _bleu(run: Path) -> Means | None:
    return Scores.read(run / "scores.json").means if (run / "scores.json").exists() else None


def tokens_per_pass(run: Path) -> dict[str, int]:
    """Target tokens in the training text of each task of a run, ends of sentences included."""
    recipe = recipe_of(run)
    prepared = data_of(run, recipe)
    found = {}
    for task in tasks_of(run, recipe, prepared).values():
        starts = prepared.corpus(task.language, "train").offsets  # other, pivot, other, pivot, ...
        of_pivot = int(starts[2::2].sum()) - int(starts[1:-1:2].sum())
        whole, pairs = int(starts[-1]) if len(starts) else 0, len(starts) // 2
        found[task.name] = (of_pivot if task.direction.to_pivot else whole - of_pivot) + pairs
    return found


def continue_command(run: Path) -> str | None:
    """The command that resumes a run; None for a training for L*, which `cclm benchmark` resumes."""
    if is_bitext(run) or is_for_losses(run):
        return None
    work = recipe_of(run).work
    here = os.path.relpath(work) if Path(work).is_relative_to(Path.cwd()) else work
    given = read_settings(run / CONFIG).get("work")
    override = [] if isinstance(given, str) and Path(given).resolve() == Path(work).resolve() else [f"work={here}"]
    return shlex.join(["cclm", "train", str(run / CONFIG), *override])
