"""The tuning of a study: the settings that are chosen by dev loss before the trials are trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cclm.experiments.display import Display, Remaining
from cclm.experiments.study_results import outcome
from cclm.experiments.study_trials import StudyRun
from cclm.experiments.train_job import run_folder
from cclm.formats.study import Try as TryResult
from cclm.formats.study import TunedArm, TunedFile, Tuning
from cclm.recipe.schema import Recipe
from cclm.recipe.study import Study, Try, plain
from cclm.training.provenance import is_finished

TUNED = "tuned.json"


@dataclass(frozen=True)
class Tuned:
    """A study after its tuning."""

    study: Study
    """With the chosen values in its arms."""
    facts: Tuning | None = None
    """Every try, the choices and the cost; None where the study tunes nothing."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Arms without a choice, and why."""


def tune(made: StudyRun) -> Tuned:
    """Trains each tuned arm once with each value and chooses the one with the lowest macro dev loss; writes tuned.json.

    Tries are not translated, so that test scores cannot influence the choice.
    """
    study = made.study
    if study.tune is None:
        return Tuned(study)
    tries = study.tune.tries()
    failed = _train_tries(made, tries)
    arms: dict[str, TunedArm] = {}
    choices: dict[str, object] = {}
    complaints: dict[str, str] = {}
    for arm, keys in study.tune.arms.items():
        own = [tried for tried in tries if tried.arm == arm]
        found = [_result(tried, made.recipe, failed.get(tried.name)) for tried in own]
        if wrong := next((tried.name for tried in own if tried.name in failed), None):
            complaints[arm] = f"its tuning failed: {wrong}: {failed[wrong]}"
        else:
            best = lowest([each.macro for each in found])
            choices[arm], found[best] = own[best].value, found[best].model_copy(update={"chosen": True})
        arms[arm] = TunedArm(key=next(iter(keys)), tries=found)
    every = [each for arm in arms.values() for each in arm.tries]
    facts = Tuning(
        seed=study.tune.seed,
        steps=sum(each.steps or 0 for each in every),
        tokens=sum(each.tokens or 0 for each in every),
        arms=arms,
    )
    TunedFile.model_validate(facts.plain()).write(made.folder / TUNED)
    return Tuned(study.tuned(choices), facts, complaints)


def lowest(losses: Sequence[float | None]) -> int:
    """The index of the lowest loss; of equal ones, the first."""
    known = [math.inf if loss is None else loss for loss in losses]
    return min(range(len(known)), key=lambda i: known[i])


def _train_tries(made: StudyRun, tries: list[Try]) -> dict[str, str]:
    """Trains the tries that are not done; returns why some failed."""
    jobs = []
    for tried in tries:
        settings = _settings(made, tried)
        jobs.append((made.job(settings, run_folder(settings), tried.arm), tried.arm))
    due = [job for job, arm in jobs if not made.is_done(job, arm)]
    with Display(made.recipe.training.max_steps) as display:
        remaining = Remaining(display, len(due), f"{len(jobs)} tries of the tuning")
        return made.executor.run(due, remaining, say=display.print)


def _settings(made: StudyRun, tried: Try) -> Recipe:
    more = {"name": tried.name, **made.changes_for_losses(tried.arm)}
    return made.study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tried.seed, **more)


def _result(tried: Try, recipe: Recipe, why: str | None) -> TryResult:
    """The result of a try; without measurements if its training failed."""
    run = Path("runs") / tried.name
    found = None if why else outcome(Path(recipe.work) / run, recipe.training.max_steps, {})
    return TryResult(
        value=plain(tried.value),
        run=str(run),
        chosen=False,
        why=why,
        macro=found.macro if found else None,
        weighted=found.weighted if found else None,
        best=found.best if found else None,
        steps=found.steps if found else None,
        tokens=found.tokens if found else None,
    )


def choices_of(made: StudyRun) -> dict[str, object]:
    """The values of tuned arms that tuned.json has chosen."""
    found = TunedFile.find(made.folder / TUNED) if made.study.tune else None
    if not found or not made.study.tune:
        return {}
    values = {arm: next(iter(keys.values())) for arm, keys in made.study.tune.arms.items()}
    return {
        arm: value
        for arm, tuned in found.arms.items()
        for value, row in zip(values[arm], tuned.tries, strict=True)
        if row.chosen
    }


def is_tried(made: StudyRun, tried: Try) -> bool:
    """Whether a try is trained."""
    settings, pipeline = _settings(made, tried), made.pipeline_of(tried.arm)
    return bool(pipeline.prepared) and is_finished(run_folder(settings), settings, pipeline.data, pipeline.losses)
