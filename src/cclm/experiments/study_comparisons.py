"""The comparisons of a study: a paired t-test over its seeds or, where it has but one, a bootstrap of the sentences."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cclm.evaluation.bootstrap import SAMPLES
from cclm.evaluation.compare import over_sentences
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import MetricName
from cclm.evaluation.significance import Comparison, OverSeeds, holm, over_seeds, sentence
from cclm.recipe.study import Study

GROUPS = ("all", "hrl", "lrl")

Trials = list[dict[str, Any]]
"""As they stand in results.json."""


def comparisons(study: Study, made: Trials, groups: Mapping[str, list[str]], work: Path) -> list[dict[str, Any]]:
    """Primary ones first, then every arm against the baseline; the endpoint first, then the rest."""
    pairs = [*study.primary, *((arm, study.against) for arm in study.arms if arm != study.against)]
    metrics: tuple[MetricName, ...] = ("chrf", "bleu") if study.endpoint == "chrf" else ("bleu", "chrf")
    found: list[dict[str, Any]] = []
    for first, second in dict.fromkeys(pairs):
        for metric in metrics:
            of_pair = []
            for over in (group for group in GROUPS if groups[group]):
                ours, theirs = (_by_seed(study, made, arm, score(metric, groups[over])) for arm in (first, second))
                if ours.keys() & theirs.keys():
                    decides = (first, second) in study.primary and metric == study.endpoint and over == "all"
                    of_pair.append(_comparison(first, second, metric, over, over_seeds(ours, theirs), decides))
            if len(study.seeds) == 1 and of_pair:
                _resample(of_pair, made, groups, work)
            found += of_pair
    deciding = [comparison for comparison in found if comparison["primary"] and comparison["p"] is not None]
    for comparison, adjusted in zip(deciding, holm([each["p"] for each in deciding]), strict=True):
        comparison["holm"] = adjusted
    for comparison in found:
        comparison["sentence"] = _sentence(comparison)
    return found


def score(metric: str, names: list[str]) -> Callable[[Mapping[str, Any]], float | None]:
    """The mean score over these languages, of a trial; None where there is none of them."""

    def of(trial: Mapping[str, Any]) -> float | None:
        return mean(trial["scores"]["languages"][name][metric] for name in names)

    return of


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is there."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _by_seed(study: Study, made: Trials, arm: str, of: Callable[[Mapping[str, Any]], float | None]) -> dict[int, float]:
    finished = {trial["seed"]: trial for trial in made if trial["arm"] == arm and trial["state"] == "finished"}
    scores = {seed: of(finished[seed]) for seed in study.seeds if seed in finished}
    return {seed: value for seed, value in scores.items() if value is not None}


def _comparison(first: str, second: str, metric: str, over: str, found: OverSeeds, primary: bool) -> dict[str, Any]:
    return {
        "first": first,
        "second": second,
        "primary": primary,
        "metric": metric,
        "over": over,
        "differences": found.differences,
        "mean": found.difference,
        "low": found.low,
        "high": found.high,
        "p": found.p,
        "holm": None,
    }


def _resample(of_pair: Trials, made: Trials, groups: Mapping[str, list[str]], work: Path) -> None:
    """Intervals and p of one seed, from its sentences; the comparison over all languages has each language's too."""
    any_one = of_pair[0]
    runs = {trial["arm"]: work / trial["run"] for trial in made}
    ours, theirs = (Evaluation(runs[any_one[side]]) for side in ("first", "second"))
    languages, means = over_sentences(ours, theirs, groups, metric=any_one["metric"])
    for comparison in of_pair:
        row = means[comparison["over"]]
        comparison |= {"low": row.low, "high": row.high, "p": row.p, "resamples": SAMPLES}
        if comparison["over"] == "all":
            comparison["languages"] = {lang: asdict(each) for lang, each in languages.items()}


def _sentence(found: Mapping[str, Any]) -> str:
    metric = {"bleu": "BLEU", "chrf": "chrF"}[found["metric"]]
    over = {"all": "", "hrl": " on HRLs", "lrl": " on LRLs"}[found["over"]]
    adjusted = found["holm"] is not None
    numbers = (found["mean"], found["low"], found["high"], found["holm"] if adjusted else found["p"], adjusted)
    return sentence(Comparison(found["first"], found["second"], metric + over, len(found["differences"]), *numbers))
