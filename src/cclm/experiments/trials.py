"""The trials of a study: an arm with a seed is a run, and what it came to is read from its files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.experiments.benchmark import bitext_folder, bitext_trainings
from cclm.experiments.processes import Training
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, Try, steps_to_come
from cclm.training.provenance import newest_checkpoint, progress_of

SHARES = (50, 75, 100)
"""Percent of the budget at which the dev loss is reported: short runs favour other methods than long ones."""


@dataclass(frozen=True)
class Trial:
    """An arm with a seed, and the folder of its run (or of its bitext runs)."""

    arm: str
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """As it is called in its folder and to people."""
        return f"{self.arm}.{self.seed}"


def trials(study: Study, recipe: Recipe) -> list[Trial]:
    """All of them, the first seed's first: after one round there is something to look at."""
    return [Trial(arm, seed, _folder(recipe, arm, seed)) for seed in study.seeds for arm in study.arms]


def _folder(recipe: Recipe, arm: str, seed: int) -> Path:
    if arm == BITEXT and seed == recipe.seed:
        return bitext_folder(recipe)  # the very models that L* comes from
    return Path(recipe.work) / "runs" / f"{arm}.{seed}"


def trainings(study: Study, trial: Trial, recipe: Recipe, prepared: Prepared, losses: Path) -> list[Training]:
    """What has to be trained for a trial; its recipe is left beside the study, as a file that `cclm train` takes."""
    if trial.arm == BITEXT:
        mine = recipe.model_copy(update={"seed": trial.seed})
        made = bitext_trainings(mine, prepared, trial.folder, lambda line: None)
        return [replace(training, name=f"{trial.name}/{training.name}") for training in made]
    waits_for = study.after.get(trial.arm)
    steps = admissions_of(trial.folder.with_name(f"{waits_for[0]}.{trial.seed}")) if waits_for else {}
    more = {**steps_to_come(study, trial.arm, steps), "benchmark.file": str(losses)}
    return [_training(study.recipe_of(trial.arm, trial.seed, **more), trial.folder, losses)]


def tuning(study: Study, tried: Try, recipe: Recipe, losses: Path) -> Training:
    """What has to be trained for a try, with its recipe beside those of the trials."""
    more = {"name": tried.name, "benchmark.file": str(losses)}
    settings = study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tried.seed, **more)
    return _training(settings, Path(recipe.work) / "runs" / tried.name, losses)


def _training(settings: Recipe, folder: Path, losses: Path) -> Training:
    path = losses.parent / "trials" / f"{settings.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, settings.model_dump_json(indent=1) + "\n")
    return Training(settings.name, path, folder)


def events(run: Path) -> list[dict[str, Any]]:
    """The log of a run."""
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def admissions_of(run: Path) -> dict[str, int]:
    """The step at which each language was admitted, for those that had to wait."""
    return {event["language"]: event["step"] for event in events(run) if event["event"] == "admitted"}


def outcome(run: Path, max_steps: int, batches: Mapping[str, int]) -> dict[str, Any]:
    """What a finished training came to; `batches` are those of a pass over each language."""
    log = events(run)
    stopped = next(event for event in reversed(log) if event["event"] == "stopped")
    validations = {event["step"]: event for event in log if event["event"] == "validation"}
    best = validations[stopped["best"]]
    newest = newest_checkpoint(run)
    draws = progress_of(newest).counters if newest else {}
    return {
        "steps": stopped["step"],
        "best": stopped["best"],
        "reason": stopped["reason"],
        "tokens": sum(sum(event["tokens"].values()) for event in log if event["event"] == "train"),
        "admissions": admissions_of(run),
        "draws": {lang: draws.get(lang, 0) for lang in batches},
        "epochs": {lang: draws.get(lang, 0) / count for lang, count in batches.items()},
        "weighted": best["weighted"],
        "macro": best["macro"],
        "dev_loss": best["dev_loss"],
        "macro_at": {str(share): _macro_at(validations, max_steps * share // 100) for share in SHARES},
    }


def _macro_at(validations: Mapping[int, Mapping[str, Any]], step: int) -> float | None:
    """The macro dev loss at the last validation up to a step; None where the training had ended before it."""
    within = [earlier for earlier in validations if earlier <= step]
    return float(validations[max(within)]["macro"]) if within and max(validations) >= step else None


def bitext_outcome(folder: Path, names: list[str]) -> dict[str, Any]:
    """The same for a folder of bitext runs, as far as it makes sense there."""
    logs = [events(folder / name) for name in names]
    stopped = [next(event for event in reversed(log) if event["event"] == "stopped") for log in logs]
    tokens = sum(sum(event["tokens"].values()) for log in logs for event in log if event["event"] == "train")
    losses = {
        name: next(e for e in log if e["event"] == "validation" and e["step"] == end["best"])["dev_loss"][name]
        for name, log, end in zip(names, logs, stopped, strict=True)
    }
    return {"steps": sum(end["step"] for end in stopped), "tokens": tokens, "dev_loss": losses}
