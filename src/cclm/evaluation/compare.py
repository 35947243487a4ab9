"""`cclm compare RUN RUN...`: how runs, or methods over seeds, differ from the first, and what that licenses."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cclm.errors import ConfigError
from cclm.evaluation.bootstrap import SEED
from cclm.evaluation.compare_methods import Method, Rows, differences, grouped, methods_of, over_sentences
from cclm.evaluation.compare_table import TITLES, print_comparisons
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import MetricName
from cclm.evaluation.significance import Comparison, holm, sentence


def run(runs: Sequence[Path], split: str, *, metric: MetricName, samples: int, as_json: bool) -> None:
    """Compares all with the first; prints a table and a sentence for each, or all of it as JSON."""
    found = compare(runs, split, metric=metric, samples=samples)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        print_comparisons(found)


def compare(
    runs: Sequence[Path], split: str = "test", *, metric: MetricName = "bleu", samples: int = 2000
) -> dict[str, Any]:
    """Every other run compared with the first: per language, over all, HRLs and LRLs (the first run's), in a sentence.

    Where there are several methods, and several runs of one of them, it is methods that are compared, over the seeds
    that both have. `holm` is the p of the mean over all languages, adjusted for the number of comparisons.
    """
    evaluations = [Evaluation(path, split) for path in runs]
    methods = grouped(evaluations)
    several = methods_of(methods) if 1 < len(methods) < len(runs) else None
    _refuse_other_references(evaluations)
    hrls, lrls = evaluations[0].groups()
    groups = {"all": [*hrls, *lrls], "hrl": hrls, "lrl": lrls}
    settings = {"metric": metric, "split": split, "samples": samples, "seed": SEED}
    if several:
        baseline, comparisons = _methods(several, groups, metric, samples)
    else:
        baseline, comparisons = _runs(evaluations, groups, metric, samples)
    return {"version": 1, **settings, "baseline": baseline, "comparisons": comparisons}


def _runs(
    evaluations: Sequence[Evaluation], groups: Mapping[str, Sequence[str]], metric: MetricName, samples: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run by run, on the same sentences."""
    names = [one.run.resolve().name for one in evaluations]
    names = [name if names.count(name) == 1 else str(one.run) for name, one in zip(names, evaluations, strict=True)]
    facts = [{"name": name, **_facts(one)} for name, one in zip(names, evaluations, strict=True)]
    first, *others = evaluations
    found = [(1, *over_sentences(other, first, groups, metric=metric, samples=samples)) for other in others]
    return facts[0], _told(facts, found, metric)


def _methods(
    methods: Sequence[Method], groups: Mapping[str, Sequence[str]], metric: MetricName, samples: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Method by method, paired by seed."""
    found = differences(methods, groups, metric=metric, samples=samples)
    facts = [
        {"name": method.name, "runs": [_facts(method.runs[seed]) for seed in sorted(method.runs)]} for method in methods
    ]
    compared = _told(facts, [(len(seeds), languages, means) for seeds, languages, means in found], metric)
    for comparison, method, (seeds, *_) in zip(compared, methods[1:], found, strict=True):
        alone = [each.runs[seed].run for each in (methods[0], method) for seed in sorted({*each.runs} - {*seeds})]
        comparison |= {"seeds": seeds, "left_out": [str(path) for path in alone]}
    return facts[0], compared


def _told(
    facts: Sequence[Mapping[str, Any]], found: Sequence[tuple[int, Rows, Rows]], metric: MetricName
) -> list[dict[str, Any]]:
    """The comparisons with the first, each with its sentence."""
    adjusted = holm([means["all"]["p"] for _, _, means in found])
    baseline = facts[0]["name"]
    return [
        {
            **fact,
            "languages": languages,
            "means": means,
            "holm": p,
            "sentence": _sentence(fact["name"], baseline, metric, seeds, means["all"], p, adjusted=len(found) > 1),
        }
        for fact, (seeds, languages, means), p in zip(facts[1:], found, adjusted, strict=True)
    ]


def _facts(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "run": str(evaluation.run),
        "training_seed": evaluation.recipe.seed,
        "made_from": evaluation.made_from(),
    }


def _sentence(
    name: str, baseline: str, metric: str, seeds: int, mean: Mapping[str, Any], p: float, *, adjusted: bool
) -> str:
    numbers = (mean["difference"], mean["low"], mean["high"], p, adjusted)
    return sentence(Comparison(name, baseline, TITLES[metric], seeds, *numbers))


def _refuse_other_references(evaluations: Sequence[Evaluation]) -> None:
    """What is not translated yet is translated here."""
    way_out = "compare runs over the same test sets"
    first, *others = evaluations
    expected = {name: texts[1] for name, texts in first.lines().items()}
    for other in others:
        references = {name: texts[1] for name, texts in other.lines().items()}
        if set(references) != set(expected):
            ours, its = ", ".join(references), ", ".join(expected)
            raise ConfigError(f"{other.run} translates {ours}; {first.run} translates {its}: {way_out}")
        for name, lines in references.items():
            if lines != expected[name]:
                pairs = zip(lines, expected[name], strict=False)
                differs = next((i for i, (line, other_line) in enumerate(pairs, start=1) if line != other_line), None)
                where = f"line {differs}" if differs else f"{len(lines):,} lines and {len(expected[name]):,}"
                raise ConfigError(
                    f"{other.run}: the references of {name} are not those of {first.run} ({where}): {way_out}"
                )
