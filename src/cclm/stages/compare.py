"""`cclm compare RUN RUN...`: how runs differ from the first on the same test sentences, and what that licenses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cclm.config import ConfigError
from cclm.evaluation.bootstrap import SEED, Difference, paired_bootstrap
from cclm.evaluation.scores import MetricName
from cclm.evaluation.significance import Comparison, holm, sentence
from cclm.stages.evaluate import Evaluation

TITLES = {"bleu": "BLEU", "chrf": "chrF"}
MEANS = {"all": "mean", "hrl": "HRLs", "lrl": "LRLs"}


def run(runs: Sequence[Path], split: str, *, metric: MetricName, samples: int, as_json: bool) -> None:
    """Compares every other run with the first; prints a table and a sentence for each, or all of it as JSON."""
    found = compare(runs, split, metric=metric, samples=samples)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
        return
    console = Console()
    for comparison in found["comparisons"]:
        console.print(_table(comparison, f"{TITLES[metric]} on the {split} sets", found["baseline"]["name"]))
        console.print(Text(comparison["sentence"] + "\n"))
    console.print(Text(_legend(samples, len(runs) - 1), style="dim"))


def compare(
    runs: Sequence[Path], split: str = "test", *, metric: MetricName = "bleu", samples: int = 2000
) -> dict[str, Any]:
    """Every other run compared with the first: per language, over all, HRLs and LRLs (the first run's), in a sentence.

    `holm` is the p of the mean over all languages, adjusted for the number of runs compared with the first.
    """
    evaluations = [Evaluation(path, split) for path in runs]
    lines = [evaluation.lines() for evaluation in evaluations]
    for path, other in zip(runs[1:], lines[1:], strict=True):
        _refuse_other_references(path, runs[0], _side(other, 1), _side(lines[0], 1))
    names = [path.resolve().name for path in runs]
    names = [name if names.count(name) == 1 else str(path) for name, path in zip(names, runs, strict=True)]
    hrls, lrls = evaluations[0].groups()
    groups = {"all": [*hrls, *lrls], "hrl": hrls, "lrl": lrls}
    references, baseline = _side(lines[0], 1), _side(lines[0], 0)
    found = [
        paired_bootstrap(_side(other, 0), baseline, references, groups=groups, metric=metric, samples=samples)
        for other in lines[1:]
    ]
    facts = [_facts(*each) for each in zip(names, runs, evaluations, strict=True)]
    adjusted = holm([means["all"].p for _, means in found])
    comparisons = [
        {
            **fact,
            "languages": {lang: asdict(difference) for lang, difference in languages.items()},
            "means": {name: asdict(difference) for name, difference in means.items()},
            "holm": p,
            "sentence": _sentence(fact["name"], names[0], metric, means["all"], p, adjusted=len(found) > 1),
        }
        for fact, (languages, means), p in zip(facts[1:], found, adjusted, strict=True)
    ]
    settings = {"metric": metric, "split": split, "samples": samples, "seed": SEED}
    return {"version": 1, **settings, "baseline": facts[0], "comparisons": comparisons}


def _side(lines: Mapping[str, Sequence[list[str]]], side: int) -> dict[str, list[str]]:
    """The translations (0) or the references (1) of each task."""
    return {name: texts[side] for name, texts in lines.items()}


def _facts(name: str, path: Path, evaluation: Evaluation) -> dict[str, Any]:
    return {
        "name": name,
        "run": str(path),
        "training_seed": evaluation.recipe.seed,
        "made_from": evaluation.made_from(),
    }


def _sentence(name: str, baseline: str, metric: str, mean: Difference, p: float, *, adjusted: bool) -> str:
    numbers = (mean.difference, mean.low, mean.high, p, adjusted)
    return sentence(Comparison(name, baseline, TITLES[metric], 1, *numbers))


def _refuse_other_references(
    path: Path, first: Path, references: Mapping[str, Sequence[str]], expected: Mapping[str, Sequence[str]]
) -> None:
    way_out = "compare runs over the same test sets"
    if set(references) != set(expected):
        raise ConfigError(
            f"{path} translates {', '.join(references)}; {first} translates {', '.join(expected)}: {way_out}"
        )
    for name, lines in references.items():
        if lines != expected[name]:
            pairs = zip(lines, expected[name], strict=False)
            other = next((i for i, (ours, its) in enumerate(pairs, start=1) if ours != its), None)
            where = f"line {other}" if other else f"{len(lines):,} lines and {len(expected[name]):,}"
            raise ConfigError(f"{path}: the references of {name} are not those of {first} ({where}): {way_out}")


def _table(comparison: Mapping[str, Any], title: str, baseline: str) -> Table:
    style = {"title_justify": "left", "title_style": "bold"}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title=title, **style)  # type: ignore[arg-type]
    table.add_column("")
    for head in (baseline, comparison["name"], "difference", "95 %", "p"):
        table.add_column(Text(head), justify="right")
    table.add_column("")
    table.add_column("SacreBLEU's p", justify="right")
    for lang, row in comparison["languages"].items():
        table.add_row(lang, *_cells(row))
    for key, row in comparison["means"].items():
        table.add_row(MEANS[key], *_cells(row), style="bold")
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    mark = "**" if row["p"] < 0.01 else "*" if row["p"] < 0.05 else ""
    theirs = "" if row["p_sacrebleu"] is None else f"{row['p_sacrebleu']:.3f}"
    interval = f"{row['low']:+.1f} to {row['high']:+.1f}"
    return [f"{row['baseline']:.1f}", f"{row['system']:.1f}", f"{row['difference']:+.1f}", interval,
            f"{row['p']:.3f}", mark, theirs]  # fmt: skip


def _legend(samples: int, comparisons: int) -> str:
    adjusted = f"; in a sentence, p is adjusted for {comparisons} comparisons" if comparisons > 1 else ""
    return (
        f"* p < 0.05, ** p < 0.01, two-sided: {samples:,} resamples of the sentences of each language, the same for"
        f" both runs; not adjusted for the number of rows{adjusted}. SacreBLEU's own p tests one side in effect."
    )
