"""What a study came to: every trial, the arms on average, the comparisons; results.json, a page and Markdown."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import ALWAYS
from cclm.experiments.benchmark import bitext_folder
from cclm.experiments.study_comparisons import comparisons, mean, score
from cclm.experiments.trials import Trial, bitext_outcome, outcome, trials
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, plain
from cclm.training.tasks import tasks

VERSION = 1


def results(
    study: Study, recipe: Recipe, prepared: Prepared, losses: Mapping[str, float], failed: Mapping[str, str]
) -> dict[str, Any]:
    """The content of results.json: facts only, no clock, so that it is the same however often it was interrupted."""
    of_tasks = tasks(recipe.data, prepared)
    hrls = [name for name, task in of_tasks.items() if task.language in recipe.data.high_resource]
    groups = scored_groups(recipe, prepared)
    batches = {
        name: len(
            Batches(
                prepared.corpus(task.language, "train"),
                task.direction,
                language=name,
                seed=0,
                budget=recipe.training.batch_tokens,
            )
        )
        for name, task in of_tasks.items()
    }
    made = [_trial(trial, recipe, batches, failed.get(trial.name)) for trial in trials(study, recipe)]
    bitext = None if recipe.benchmark.file else bitext_outcome(bitext_folder(recipe), list(of_tasks))
    return {
        "version": VERSION,
        "study": {
            **study.model_dump(mode="json", include={"name", "recipe", "seeds", "primary", "endpoint"}),
            "arms": plain(study.arms),
            "changes": plain(study.changes),
            "baseline": study.against,
        },
        "data": {
            "direction": recipe.data.direction,
            "pivot": recipe.data.pivot,
            "high_resource": hrls,
            "low_resource": [name for name in of_tasks if name not in hrls],
            "sizes": {name: prepared.sizes[task.language] for name, task in of_tasks.items()},
        },
        "similarity": _similarity(recipe),
        "benchmark": {
            "losses": dict(losses),
            "steps": bitext["steps"] if bitext else None,
            "tokens": bitext["tokens"] if bitext else None,
        },
        "trials": made,
        "arms": {arm: arm_on_average([trial for trial in made if trial["arm"] == arm], groups) for arm in study.arms},
        "comparisons": comparisons(study, made, groups, Path(recipe.work)),
    }


def scored_groups(recipe: Recipe, prepared: Prepared) -> dict[str, list[str]]:
    """The tasks that have a test set: all of them, those of HRLs, those of LRLs."""
    made = tasks(recipe.data, prepared).items()
    scored = {name: task for name, task in made if "test" in prepared.sizes[task.language]}
    hrls = [name for name, task in scored.items() if task.language in recipe.data.high_resource]
    return {"all": list(scored), "hrl": hrls, "lrl": [name for name in scored if name not in hrls]}


def _similarity(recipe: Recipe) -> dict[str, dict[str, float]]:
    if not recipe.graph_file.exists():
        return {}
    graph = LanguageGraph.from_json(recipe.graph_file.read_text(encoding="utf-8"))
    return {lrl: dict(row) for lrl, row in graph.similarity.items()}


def _trial(trial: Trial, recipe: Recipe, batches: Mapping[str, int], why: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "arm": trial.arm,
        "seed": trial.seed,
        "run": str(trial.folder.relative_to(recipe.work)),
        "state": "failed" if why else "finished",
        "why": why,
    }
    if why:
        return facts
    if trial.arm == BITEXT:
        facts |= bitext_outcome(trial.folder, list(batches))
    else:
        facts |= outcome(trial.folder, recipe.training.max_steps, batches)
    scores = Evaluation(trial.folder).scored()
    assert scores  # it was scored after its training
    return facts | {"scores": {"languages": scores.languages, "means": scores.means.plain()}}


def arm_on_average(made: list[dict[str, Any]], groups: Mapping[str, list[str]]) -> dict[str, Any]:
    """An arm on average over its finished seeds."""
    finished = [trial for trial in made if trial["state"] == "finished"]
    if not finished:
        return {"seeds": 0}
    facts: dict[str, Any] = {"seeds": len(finished)}
    for metric in ("bleu", "chrf"):
        facts[metric] = {
            group: mean(score(metric, names)(trial) for trial in finished) for group, names in groups.items()
        }
        facts[metric]["worst"] = mean(
            min(row[metric] for row in trial["scores"]["languages"].values()) for trial in finished
        )
    facts["languages"] = {
        lang: {metric: mean(score(metric, [lang])(trial) for trial in finished) for metric in ("bleu", "chrf")}
        for lang in groups["all"]
    }
    for name in ("weighted", "macro", "steps"):
        facts[name] = mean(trial[name] for trial in finished) if name in finished[0] else None
    more = _more_scores(finished, groups)
    return facts | ({"more_scores": more} if more else {})


def _more_scores(finished: list[dict[str, Any]], groups: Mapping[str, list[str]]) -> dict[str, Any]:
    """What stands beside BLEU and chrF, on average; of a language where all seeds have it, of a group where any has."""
    found: dict[str, Any] = {}
    rows = [trial["scores"]["languages"] for trial in finished]
    for name in dict.fromkeys(name for each in rows for row in each.values() for name in row if name not in ALWAYS):
        there = [lang for lang in groups["all"] if all(name in each[lang] for each in rows)]
        languages = {lang: mean(each[lang][name] for each in rows) for lang in there}
        means = {group: mean(languages.get(lang) for lang in names) for group, names in groups.items()}
        if languages:
            found[name] = {**means, "languages": languages}
    return found


def write_results(folder: Path, found: dict[str, Any]) -> None:
    """Leaves results.json."""
    write_if_changed(folder / "results.json", json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
