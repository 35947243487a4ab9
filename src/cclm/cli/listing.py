"""`cclm runs DIR`: one line per run below a folder."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cclm.formats.job import JobState
from cclm.formats.run_folder import name_of
from cclm.training.run_state import RunState, in_queue, queued_below, runs_below, state_of

HEADS = ("run", "state", "step", "best", "dev loss", "BLEU", "HRL", "LRL")


def run(folder: Path, *, as_json: bool) -> None:
    """Prints the table, or every run as JSON."""
    states = {_name(path, folder): state_of(path) for path in runs_below(folder)}
    for path, job in _in_slurm(folder).items():
        before = states.get(name := _name(path, folder))
        if before is None or before.state == "interrupted":
            states[name] = in_queue(job, before)
    if as_json:
        print(json.dumps([{"run": name, **_facts(state)} for name, state in states.items()], allow_nan=False))
        return
    rows = [HEADS, *(_row(name, state) for name, state in states.items())] if states else [("no runs here",)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _in_slurm(folder: Path) -> dict[Path, JobState]:
    """The jobs of runs below a folder that are in SLURM's queue; without SLURM here, those that were last."""
    jobs = queued_below(folder)
    if jobs and shutil.which("squeue"):
        from cclm.experiments.slurm import Queue

        queue = Queue()
        if queue.answers:
            return {run: job for run, job in jobs.items() if job.slurm_name in queue}
    return jobs


def _name(run: Path, folder: Path) -> str:
    if run == folder:
        return name_of(run)
    return str(run.relative_to(folder) if run.is_relative_to(folder) else run.relative_to(folder.resolve()))


def _facts(state: RunState) -> dict[str, object]:
    return asdict(state) | {"bleu": state.bleu.plain() if state.bleu else None}


def _row(name: str, found: RunState) -> Sequence[str]:
    means = (found.bleu.all, found.bleu.hrl, found.bleu.lrl) if found.bleu else (None, None, None)
    cells = (
        name,
        f"{found.state}, {found.reason}" if found.reason else found.state,
        "" if found.step is None else f"{found.step:,}/{found.max_steps:,}",
        "" if found.best is None else f"{found.best:,}",
        "" if found.dev_loss is None else f"{found.dev_loss:.3f}",
        *("" if mean is None else f"{mean:.1f}" for mean in means),
    )
    return ["".join(c if c.isprintable() else "?" for c in cell) for cell in cells]  # control characters break lines
