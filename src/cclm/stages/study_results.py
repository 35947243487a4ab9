"""What a study came to: every trial, the arms on average, the comparisons; results.json, a page and Markdown."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.evaluation.significance import Comparison, holm, paired_t, sentence
from cclm.experiments.benchmark import bitext_folder
from cclm.experiments.trials import Trial, bitext_outcome, outcome, trials
from cclm.recipe import Recipe
from cclm.stages.evaluate import Evaluation
from cclm.study import BITEXT, Study, plain
from cclm.training.tasks import tasks
from cclm.whole import write_if_changed

VERSION = 1
GROUPS = ("all", "hrl", "lrl")


def results(
    study: Study, recipe: Recipe, prepared: Prepared, losses: Mapping[str, float], failed: Mapping[str, str]
) -> dict[str, Any]:
    """The content of results.json: facts only, no clock, so that it is the same however often it was interrupted."""
    of_tasks = tasks(recipe.data, prepared)
    hrls = [name for name, task in of_tasks.items() if task.language in recipe.data.high_resource]
    groups = {"all": list(of_tasks), "hrl": hrls, "lrl": [name for name in of_tasks if name not in hrls]}
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
            "low_resource": groups["lrl"],
            "sizes": {name: prepared.sizes[task.language] for name, task in of_tasks.items()},
        },
        "similarity": _similarity(recipe),
        "benchmark": {
            "losses": dict(losses),
            "steps": bitext["steps"] if bitext else None,
            "tokens": bitext["tokens"] if bitext else None,
        },
        "trials": made,
        "arms": {arm: _arm([trial for trial in made if trial["arm"] == arm], groups) for arm in study.arms},
        "comparisons": _comparisons(study, made, groups),
    }


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
    return facts | {"scores": {"languages": scores["languages"], "means": scores["means"]}}


def _arm(made: list[dict[str, Any]], groups: Mapping[str, list[str]]) -> dict[str, Any]:
    """An arm on average over its finished seeds."""
    finished = [trial for trial in made if trial["state"] == "finished"]
    if not finished:
        return {"seeds": 0}
    facts: dict[str, Any] = {"seeds": len(finished)}
    for metric in ("bleu", "chrf"):
        facts[metric] = {
            group: _mean(_score(metric, names)(trial) for trial in finished) for group, names in groups.items()
        }
        facts[metric]["worst"] = _mean(
            min(row[metric] for row in trial["scores"]["languages"].values()) for trial in finished
        )
    facts["languages"] = {
        lang: {metric: _mean(_score(metric, [lang])(trial) for trial in finished) for metric in ("bleu", "chrf")}
        for lang in groups["all"]
    }
    for name in ("weighted", "macro", "steps"):
        facts[name] = _mean(trial[name] for trial in finished) if name in finished[0] else None
    return facts


def _score(metric: str, names: list[str]) -> Callable[[Mapping[str, Any]], float | None]:
    """The mean score over these languages, of a trial; None where there is none of them."""

    def mean(trial: Mapping[str, Any]) -> float | None:
        return _mean(trial["scores"]["languages"][name][metric] for name in names)

    return mean


def _mean(values: Iterator[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _comparisons(study: Study, made: list[dict[str, Any]], groups: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Primary ones first, then every arm against the baseline; the endpoint first, then the rest."""
    pairs = [*study.primary, *((arm, study.against) for arm in study.arms if arm != study.against)]
    metrics = (study.endpoint, "bleu" if study.endpoint == "chrf" else "chrf")
    found: list[dict[str, Any]] = []
    for first, second in dict.fromkeys(pairs):
        for metric in metrics:
            for over in (group for group in GROUPS if groups[group]):
                score = _score(metric, groups[over])
                differences = {
                    str(seed): left - right
                    for seed in study.seeds
                    if (left := _of(made, first, seed, score)) is not None
                    and (right := _of(made, second, seed, score)) is not None
                }
                if differences:
                    decides = (first, second) in study.primary and metric == study.endpoint and over == "all"
                    found.append(_comparison(first, second, metric, over, differences, decides))
    deciding = [comparison for comparison in found if comparison["primary"] and comparison["p"] is not None]
    for comparison, adjusted in zip(deciding, holm([each["p"] for each in deciding]), strict=True):
        comparison["holm"] = adjusted
    for comparison in found:
        comparison["sentence"] = _sentence(comparison)
    return found


def _sentence(found: Mapping[str, Any]) -> str:
    metric = {"bleu": "BLEU", "chrf": "chrF"}[found["metric"]]
    over = {"all": "", "hrl": " on HRLs", "lrl": " on LRLs"}[found["over"]]
    adjusted = found["holm"] is not None
    numbers = (found["mean"], found["low"], found["high"], found["holm"] if adjusted else found["p"], adjusted)
    return sentence(Comparison(found["first"], found["second"], metric + over, len(found["differences"]), *numbers))


def _of(
    made: list[dict[str, Any]], arm: str, seed: int, score: Callable[[Mapping[str, Any]], float | None]
) -> float | None:
    trial = next(trial for trial in made if (trial["arm"], trial["seed"]) == (arm, seed))
    return score(trial) if trial["state"] == "finished" else None


def _comparison(
    first: str, second: str, metric: str, over: str, differences: dict[str, float], primary: bool
) -> dict[str, Any]:
    interval = paired_t(list(differences.values()))
    return {
        "first": first,
        "second": second,
        "primary": primary,
        "metric": metric,
        "over": over,
        "differences": differences,
        "mean": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "p": interval.p,
        "holm": None,
    }


def write_results(folder: Path, found: dict[str, Any]) -> None:
    """Leaves results.json."""
    write_if_changed(folder / "results.json", json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
