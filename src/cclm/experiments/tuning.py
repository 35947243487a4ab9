"""The tuning of a study: each tuned arm is trained once with each value, and takes the one with the least dev loss."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.experiments.processes import side_by_side
from cclm.experiments.trials import outcome, tuning
from cclm.experiments.watch import Remaining, Watch
from cclm.recipe.schema import Recipe
from cclm.recipe.study import Study, Try, plain
from cclm.training.provenance import is_finished

VERSION = 1
FACTS = ("macro", "weighted", "best", "steps", "tokens")
"""Of a run, that stand in tuned.json."""


@dataclass(frozen=True)
class Tuned:
    """A study after its tuning."""

    study: Study
    """With the chosen values in its arms."""
    facts: dict[str, Any] | None = None
    """Every try, the choices and the cost; nothing where the study tunes nothing."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Arms without a choice, and why."""


def tune(study: Study, recipe: Recipe, prepared: Prepared, folder: Path, at_once: int) -> Tuned:
    """Trains every try that is not done, chooses, and leaves tuned.json. Tries are not translated: no test score is
    there to be looked at."""
    if study.tune is None:
        return Tuned(study)
    tries = study.tune.tries()
    failed = _train(study, tries, recipe, prepared, folder / "losses.json", at_once)
    made = [(tried, _facts(tried, recipe, failed.get(tried.name))) for tried in tries]
    arms: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    complaints: dict[str, str] = {}
    for arm, keys in study.tune.arms.items():
        own = [(tried, facts) for tried, facts in made if tried.arm == arm]
        if wrong := next((tried.name for tried, _ in own if tried.name in failed), None):
            complaints[arm] = f"its tuning failed: {wrong}: {failed[wrong]}"
        else:
            best = lowest([facts["macro"] for _, facts in own])
            choices[arm], own[best][1]["chosen"] = own[best][0].value, True
        arms[arm] = {"key": next(iter(keys)), "tries": [facts for _, facts in own]}
    cost = {name: sum(facts[name] or 0 for _, facts in made) for name in ("steps", "tokens")}
    content = {"seed": study.tune.seed, **cost, "arms": arms}
    text = json.dumps({"version": VERSION, **content}, indent=1, ensure_ascii=False, allow_nan=False)
    write_if_changed(folder / "tuned.json", text + "\n")
    return Tuned(study.tuned(choices), content, complaints)


def lowest(losses: Sequence[float]) -> int:
    """Which of them is the lowest; of equals, the first."""
    return min(range(len(losses)), key=lambda i: losses[i])


def _train(
    study: Study, tries: list[Try], recipe: Recipe, prepared: Prepared, losses: Path, at_once: int
) -> dict[str, str]:
    """Trains what is not done; gives why some failed."""
    known = json.loads(losses.read_text(encoding="utf-8"))["losses"]
    made = [tuning(study, tried, recipe, losses) for tried in tries]
    due = [each for each in made if not is_finished(each.folder, each.settings(), prepared, known)]
    with Watch(recipe.training.max_steps) as watch:
        remaining = Remaining(watch, len(due), f"{len(made)} tries of the tuning")
        return side_by_side(due, at_once, remaining.saw)


def _facts(tried: Try, recipe: Recipe, why: str | None) -> dict[str, Any]:
    """What a try came to, as far as its training did."""
    run = Path("runs") / tried.name
    came_to = dict.fromkeys(FACTS) if why else outcome(Path(recipe.work) / run, recipe.training.max_steps, {})
    found = {name: came_to[name] for name in FACTS}
    return {"value": plain(tried.value), "run": str(run), "chosen": False, "why": why, **found}
