"""Trainings that are one and the same as long as their curricula decide alike: one leads, the others follow.

A follower has a curriculum and a log of its own; model, optimizer and progress are the leader's. In every round each is
asked what it would decide. Those that decide otherwise leave: they get a run directory whose newest checkpoint is the
moment before the decision, and go on by themselves, the like-minded together. Those that never did are given the
leader's checkpoints in the end. Either way a run directory comes out as if it had been trained alone.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from cclm.atomic import atomic_folder, holds_only
from cclm.curriculum import Curriculum
from cclm.training import checkpoint as checkpoints
from cclm.training.checkpoint import FOLLOWERS, Checkpoint
from cclm.training.faults import fault
from cclm.training.log import Log
from cclm.training.manifest import ORIGIN, damage, write_json, write_manifest

BEGUN = ("lock", "config.yaml", "environment.json", "made_from.json", "log.jsonl", "timing.jsonl", "followers", ORIGIN)
"""What may stand in the directory of a run that has no checkpoint yet."""


class Followers:
    """All who follow the training in `lead`; their own run directories, once they have one, stand beside it.

    At the beginning everyone does; later those of whom the checkpoint that it goes on from knows (`saved`).
    """

    def __init__(self, lead: Path, curricula: Mapping[str, Curriculum], saved: Mapping[str, Any] | None) -> None:
        self._lead = lead
        self._curricula = {name: curriculum for name, curriculum in curricula.items() if saved is None or name in saved}
        self._logs: dict[str, Log] = {}
        for name, curriculum in self._curricula.items():
            if saved is not None:
                curriculum.load_state_dict(saved[name]["curriculum"])
            self._logs[name] = Log(self._log(name), 0 if saved is None else saved[name]["log_bytes"])

    def _log(self, name: str, lead: Path | None = None) -> Path:
        return (lead or self._lead) / "followers" / f"{name}.jsonl"

    def part(
        self,
        leader: Curriculum,
        now: Callable[[], Checkpoint],
        *,
        step: int,
        dev_loss: Mapping[str, float],
        signals: Mapping[str, Any],
    ) -> None:
        """Lets those go who would decide otherwise than the leader in this round, which nobody has been told of yet."""

        def decision(curriculum: Curriculum) -> str:
            asked = deepcopy(curriculum)
            asked.observe(step=step, dev_loss=dev_loss, **signals)
            return json.dumps([asked.admitted, asked.weights])

        groups: dict[str, list[str]] = {}
        for name, curriculum in self._curricula.items():
            groups.setdefault(decision(curriculum), []).append(name)
        groups.pop(decision(leader) if groups else "", None)
        for names in groups.values():
            self._leave(names, now())

    def observe(self, step: int, dev_loss: Mapping[str, float], signals: Mapping[str, Any]) -> None:
        """The round itself."""
        for curriculum in self._curricula.values():
            curriculum.observe(step=step, dev_loss=dev_loss, **signals)

    def admit_remaining(self) -> None:
        """The second phase."""
        for curriculum in self._curricula.values():
            curriculum.admit_remaining()

    def heard(self, event: str, step: int, facts: dict[str, Any]) -> None:
        """Writes what the leader has logged into the others' logs, in their own words where their gate has them."""
        for name, curriculum in self._curricula.items():
            told, mine = curriculum.explain(), dict(facts)
            if event == "probe":
                mine |= {key: told[key] for key in facts if key in told}
            elif event == "admitted":
                reasons = told["admissions"][facts["language"]]
                mine = {"language": facts["language"], **{k: v for k, v in reasons.items() if k != "step"}}
            self._logs[name].write(event, step, **mine)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of them."""
        return {
            name: {"curriculum": curriculum.state_dict(), "log_bytes": self._logs[name].sync()}
            for name, curriculum in self._curricula.items()
        }

    def settle(self) -> None:
        """At the end of the training: who is still here has come to the same end."""
        for name in list(self._curricula):
            self._leave([name], None)
        shutil.rmtree(self._lead / "followers", ignore_errors=True)

    def close(self) -> None:
        """Ends writing."""
        for log in self._logs.values():
            log.close()

    def _leave(self, names: list[str], now: Checkpoint | None) -> None:
        """A run directory for the first of them, whom the others follow from now on, in one step.

        One that is there already was made when the training came by here before it was interrupted.
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
        with atomic_folder(target, is_ours=holds_only(*BEGUN)) as folder:
            shutil.copyfile(self._log(first), folder / "log.jsonl")
            (folder / "followers").mkdir()
            for name in others:
                shutil.copyfile(self._log(name), self._log(name, folder))
            for path in sorted((self._lead / "checkpoints").glob("step-*")):
                if damage(path) is None:
                    _derive(path, folder / "checkpoints" / path.name, first, others)
            if now:
                mine = replace(now, **_of(now.progress, state, first, others))
                checkpoints.save(
                    folder / "checkpoints", mine, step=now.progress["step"], best=now.progress["selected_step"]
                )
            else:
                checkpoints.load_newest(folder / "checkpoints", print)  # names the latest and the best
            origin = {"from": self._lead.name, "step": now.progress["step"] if now else None, "same": now is None}
            write_json(folder / ORIGIN, origin)
        fault("follow:left")


def _of(progress: Mapping[str, Any], state: Mapping[str, Any], first: str, others: list[str]) -> dict[str, Any]:
    """What a checkpoint of the leader's says of its training, as it is for a follower with followers of its own."""
    return {
        "curriculum": state[first]["curriculum"],
        "progress": {**progress, "log_bytes": state[first]["log_bytes"]},
        "followers": {name: state[name] for name in others},
    }


def _derive(path: Path, target: Path, first: str, others: list[str]) -> None:
    """A follower's checkpoint from its leader's: weights and optimizer are the same files."""
    target.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.safetensors"):
        os.link(path / name, target / name)
    progress, state = (json.loads((path / name).read_text(encoding="utf-8")) for name in ("progress.json", FOLLOWERS))
    mine = _of(progress, state, first, others)
    write_json(target / "curriculum.json", mine["curriculum"])
    write_json(target / "progress.json", mine["progress"])
    if mine["followers"]:
        write_json(target / FOLLOWERS, mine["followers"])
    write_manifest(target)
