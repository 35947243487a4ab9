"""Runs that share a prefix: trainings that differ in the gate alone are one training until their curricula disagree.

The run that is trained leads. Each fork has a curriculum and a log of its own; model, optimizer and progress are the
leader's. In every probe each fork is asked, on a copy, what it would decide. Forks that would decide differently are
separated, grouped by decision: the first of a group gets a run directory whose newest checkpoint is the state before
the decision, and the others become its forks. Forks that never disagree get copies of the leader's checkpoints at the
end. Either way the run directory is equal, to the byte, to that of a training that shared nothing: a sweep gets its
runs for a fraction of the steps without changing any result. In file names, a fork is called a follower.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cclm.atomic import atomic_folder, holds_only
from cclm.curriculum import Curriculum
from cclm.formats.checkpoint import (
    AVERAGE,
    FORKS,
    MODEL,
    OPTIMIZER,
    PROBE,
    PROGRESS,
    ForkState,
    Progress,
    checkpoint_folders,
    damage,
    read_forks,
    write_manifest,
)
from cclm.formats.log import Admitted, Event, Probe
from cclm.formats.run import CONFIG, ENVIRONMENT, LOCK, LOG, MADE_FROM, ORIGIN, TIMING, Origin
from cclm.signals import fault
from cclm.training import checkpoint as checkpoints
from cclm.training.checkpoint import Checkpoint
from cclm.training.lock import Lock
from cclm.training.log import LogWriter

LOGS = "followers"
"""The folder of the forks' logs, in the leader's run directory."""
BEGUN = (LOCK, CONFIG, ENVIRONMENT, MADE_FROM, LOG, TIMING, LOGS, ORIGIN, "graph.json", "benchmark.json")
"""What may be in the directory of a run that has no checkpoint yet."""


@dataclass(frozen=True)
class Measured:
    """What a probe has measured, before any curriculum has observed it."""

    step: int
    dev_loss: Mapping[str, float]
    signals: Mapping[str, object]
    """Other measurements by name, of any shape: what the samplers in use need."""
    dev_loss_se: Mapping[str, float] | None = None
    """The standard errors of the dev losses, where the probe knows them."""

    def observe(self, curriculum: Curriculum) -> tuple[str, ...]:
        """Lets a curriculum observe it; returns the languages that it admits."""
        return curriculum.observe(step=self.step, dev_loss=self.dev_loss, dev_loss_se=self.dev_loss_se, **self.signals)


class Forks:
    """All runs that share the training in `lead`; their run directories, once they have one, are beside it.

    A new training has every fork; a resumed one those that its checkpoint names (`saved`).
    """

    def __init__(self, lead: Path, curricula: Mapping[str, Curriculum], saved: Mapping[str, ForkState] | None) -> None:
        self._lead = lead
        self._curricula = {
            name: curriculum
            for name, curriculum in curricula.items()
            if saved is None or (name in saved and not self._has_settled(name))
        }
        self._logs: dict[str, LogWriter] = {}
        for name, curriculum in self._curricula.items():
            if saved is not None:
                curriculum.load_state_dict(saved[name].curriculum)
            self._logs[name] = LogWriter(self._log(name), 0 if saved is None else saved[name].log_bytes)

    def _has_settled(self, name: str) -> bool:
        """Whether another process has settled this fork meanwhile, and removed its log here."""
        return (self._lead.with_name(name) / "checkpoints").exists() and not self._log(name).exists()

    def _log(self, name: str, lead: Path | None = None) -> Path:
        return (lead or self._lead) / LOGS / f"{name}.jsonl"

    def separate(self, leader: Curriculum, now: Callable[[], Checkpoint], measured: Measured) -> None:
        """Separates the forks that would decide differently from the leader in this probe."""

        def decision(curriculum: Curriculum) -> str:
            copy = deepcopy(curriculum)
            measured.observe(copy)
            return json.dumps([copy.admitted, copy.weights])

        groups: dict[str, list[str]] = {}
        for name, curriculum in self._curricula.items():
            groups.setdefault(decision(curriculum), []).append(name)
        groups.pop(decision(leader) if groups else "", None)
        for names in groups.values():
            self._leave(names, now())

    def observe(self, measured: Measured) -> None:
        """Lets every fork's curriculum observe the probe."""
        for curriculum in self._curricula.values():
            measured.observe(curriculum)

    def admit_remaining(self) -> None:
        """Begins the second phase in every fork."""
        for curriculum in self._curricula.values():
            curriculum.admit_remaining()

    def log(self, event: Event) -> None:
        """Writes an event of the leader into the forks' logs, with the values of their own curricula."""
        for name, curriculum in self._curricula.items():
            self._logs[name].write(_own(event, curriculum))

    def state(self) -> dict[str, ForkState]:
        """The curriculum and the length of the log of each fork, for a checkpoint."""
        return {
            name: ForkState(curriculum=curriculum.state_dict(), log_bytes=self._logs[name].sync())
            for name, curriculum in self._curricula.items()
        }

    def settle(self) -> None:
        """At the end of training: forks that never disagreed get run directories with the leader's checkpoints."""
        for name in list(self._curricula):
            self._leave([name], None)
        shutil.rmtree(self._lead / LOGS, ignore_errors=True)

    def close(self) -> None:
        """Closes the logs."""
        for log in self._logs.values():
            log.close()

    def _leave(self, names: list[str], now: Checkpoint | None) -> None:
        """Makes a run directory for the first of these; the others become its forks.

        A directory that exists was written before an interruption, after which the training reached this step again.
        """
        state = {name: self.state()[name] for name in names}
        for name in names:
            self._logs.pop(name).close()
            del self._curricula[name]
        first, *others = names
        target = self._lead.with_name(first)
        if (target / "checkpoints").exists():
            return
        fault("follow:leaving")
        # Where a directory was begun, another command may be training it.
        with Lock(target) if target.exists() else nullcontext():
            self._make_directory(target, state, others, now)
        fault("follow:left")

    def _make_directory(
        self, target: Path, state: Mapping[str, ForkState], others: list[str], now: Checkpoint | None
    ) -> None:
        first = target.name
        with atomic_folder(target, is_ours=holds_only(*BEGUN)) as folder:
            shutil.copyfile(self._log(first), folder / LOG)
            (folder / LOGS).mkdir()
            for name in others:
                shutil.copyfile(self._log(name), self._log(name, folder))
            for path in checkpoint_folders(self._lead / "checkpoints"):
                if damage(path) is None:
                    _derive(path, folder / "checkpoints" / path.name, first, others)
            if now:
                own = _of_fork(now.progress, state, first, others)
                checkpoints.save(folder / "checkpoints", replace(now, **vars(own)))
            else:
                checkpoints.load_newest(folder / "checkpoints")  # writes `latest` and `best`
            step = now.progress.step if now else None
            origin = Origin.model_validate({"from": self._lead.name, "step": step, "same": now is None})
            (folder / ORIGIN).write_text(origin.text(), encoding="utf-8")


def _own(event: Event, curriculum: Curriculum) -> Event:
    """An event of the leader as a fork logs it."""
    explained = curriculum.explain()
    if isinstance(event, Probe):
        return event.model_copy(update={name: explained[name] for name in event.model_fields_set if name in explained})
    if isinstance(event, Admitted):
        return admitted_event(event.step, event.language, curriculum)
    return event


def admitted_event(step: int, language: str, curriculum: Curriculum) -> Admitted:
    """The event of a language that a curriculum has admitted, with the reason."""
    reasons = curriculum.explain()["admissions"][language]
    return Admitted(step=step, language=language, **{name: fact for name, fact in reasons.items() if name != "step"})


@dataclass(frozen=True)
class _Own:
    """What differs between the checkpoints of a leader and of a fork."""

    curriculum: dict[str, Any]
    progress: Progress
    forks: dict[str, ForkState]


def _of_fork(progress: Progress, state: Mapping[str, ForkState], first: str, others: list[str]) -> _Own:
    """A fork's part of its leader's checkpoint; `others` become its own forks."""
    own = progress.model_copy(update={"log_bytes": state[first].log_bytes})
    return _Own(state[first].curriculum, own, {name: state[name] for name in others})


def _link(path: Path, target: Path) -> None:
    """Makes a hard link, or a copy on a file system without them."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


def _derive(path: Path, target: Path, first: str, others: list[str]) -> None:
    """Makes a fork's checkpoint from its leader's: weights and optimizer are the same files."""
    target.mkdir(parents=True)
    for name in (MODEL, OPTIMIZER, AVERAGE, PROBE):
        if (path / name).exists():
            _link(path / name, target / name)
    own = _of_fork(Progress.read(path / PROGRESS), read_forks(path / FORKS), first, others)
    checkpoints.write_state(target, own.curriculum, own.progress, own.forks)
    write_manifest(target)
