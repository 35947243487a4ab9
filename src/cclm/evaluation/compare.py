"""Compares runs with the first one, or methods over seeds with the first method: differences, intervals, sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from cclm.errors import ConfigError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import metric_named
from cclm.evaluation.statistics import (
    SAMPLES,
    SEED,
    Comparison,
    Difference,
    OverSeeds,
    holm,
    over_seeds,
    paired_bootstrap,
    sentence,
)
from cclm.formats.base import VERSION, Part
from cclm.formats.run_folder import name_of
from cclm.formats.scores import METRICS, MetricName, Translations

Groups = Mapping[str, Sequence[str]]
"""The tasks that each mean is over: `all`, `hrl`, `lrl`."""
Rows = dict[str, Difference] | dict[str, OverSeeds]
"""The scores of both systems and their difference, by language or by group of languages."""


class RunFacts(Part):
    """A run, as `cclm compare --json` describes it."""

    run: str
    training_seed: int
    made_from: Translations


class System(Part):
    """One side of a comparison: a run, or a method with several runs."""

    name: str
    runs: list[RunFacts]
    is_method: bool

    def content(self) -> dict[str, object]:
        """The system as a JSON object. A run has its facts at the top level, a method has a list `runs`."""
        facts = [run.plain() for run in self.runs]
        return {"name": self.name, "runs": facts} if self.is_method else {"name": self.name, **facts[0]}


class Compared(Part):
    """A system compared with the baseline."""

    system: System
    languages: Rows
    means: Rows
    holm: float
    """p of the mean over all languages, adjusted for the number of comparisons."""
    sentence: str
    seeds: Sequence[int] = ()
    """The seeds that both methods have; empty for two runs."""
    left_out: Sequence[str] = ()
    """Runs for which the other method has no run with the same seed."""

    def content(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        rest = self.model_dump(mode="json", exclude={"system", "seeds", "left_out"})
        paired = {"seeds": list(self.seeds), "left_out": list(self.left_out)} if self.system.is_method else {}
        return {**self.system.content(), **rest, **paired}


class Comparisons(Part):
    """The comparisons of every other system with the first, the baseline."""

    metric: MetricName
    split: str
    samples: int
    seed: int
    baseline: System
    comparisons: list[Compared]

    def content(self) -> dict[str, object]:
        """The JSON object that `cclm compare --json` prints."""
        settings = {"metric": self.metric, "split": self.split, "samples": self.samples, "seed": self.seed}
        comparisons = [comparison.content() for comparison in self.comparisons]
        return {"version": VERSION, **settings, "baseline": self.baseline.content(), "comparisons": comparisons}


@dataclass(frozen=True)
class Method:
    """The runs of one method, by seed."""

    name: str
    runs: Mapping[int, Evaluation]

    def shared(self, other: "Method") -> list[int]:
        """The seeds that both methods have."""
        return sorted(self.runs.keys() & other.runs.keys())


def compare(
    runs: Sequence[Path], split: str = "test", *, metric: MetricName = "bleu", samples: int = SAMPLES
) -> Comparisons:
    """Compares every other run with the first: in each language, and on average over all languages, HRLs and LRLs.

    Which languages are HRLs is taken from the first run. If the runs belong to several methods, and one method has
    several runs, methods are compared over the seeds that both have. Runs without translations are translated first.
    """
    evaluations = [Evaluation(path, split) for path in runs]
    by_method = group_by_method(evaluations)
    methods = _methods(by_method) if 1 < len(by_method) < len(evaluations) else None
    _check_references(evaluations)
    hrls, lrls = evaluations[0].groups()
    groups = {"all": [*hrls, *lrls], "hrl": hrls, "lrl": lrls}
    if methods:
        baseline, comparisons = _compare_methods(methods, groups, metric, samples)
    else:
        baseline, comparisons = _compare_runs(evaluations, groups, metric, samples)
    return Comparisons(
        metric=metric,
        split=split,
        samples=samples,
        seed=SEED,
        baseline=baseline,
        comparisons=comparisons,
    )


def over_sentences(
    ours: Evaluation, theirs: Evaluation, groups: Groups, *, metric: MetricName, samples: int = SAMPLES
) -> tuple[dict[str, Difference], dict[str, Difference]]:
    """Compares two runs by a bootstrap of their test sentences; returns the rows of languages and of means."""
    lines, baseline = ours.lines(), {lang: texts.translations for lang, texts in theirs.lines().items()}
    system = {lang: texts.translations for lang, texts in lines.items()}
    references = {lang: texts.references for lang, texts in lines.items()}
    return paired_bootstrap(system, baseline, references, groups=groups, metric=metric, samples=samples)


def _compare_runs(
    evaluations: Sequence[Evaluation], groups: Groups, metric: MetricName, samples: int
) -> tuple[System, list[Compared]]:
    """Compares runs on the same sentences. Runs with the same folder name are named by their paths."""
    names = [name_of(evaluation.run) for evaluation in evaluations]
    systems = [
        System(name=name if names.count(name) == 1 else str(evaluation.run), runs=[_facts(evaluation)], is_method=False)
        for name, evaluation in zip(names, evaluations, strict=True)
    ]
    first, *others = evaluations
    rows = [over_sentences(other, first, groups, metric=metric, samples=samples) for other in others]
    return systems[0], _adjusted(systems, rows, metric, [[] for _ in rows])


def _compare_methods(
    methods: Sequence[Method], groups: Groups, metric: MetricName, samples: int
) -> tuple[System, list[Compared]]:
    """Compares methods, paired by seed: a paired t-test, or with a single seed a bootstrap of its test sentences."""
    first, *others = methods
    scores = cache(lambda run: _scores(run, metric))
    systems = [
        System(name=method.name, runs=[_facts(method.runs[seed]) for seed in sorted(method.runs)], is_method=True)
        for method in methods
    ]
    rows: list[tuple[Rows, Rows]] = []
    for method in others:
        seeds = method.shared(first)
        if len(seeds) == 1:
            pair = (method.runs[seeds[0]], first.runs[seeds[0]])
            rows.append(over_sentences(*pair, groups, metric=metric, samples=samples))
        else:
            ours = {seed: scores(method.runs[seed]) for seed in seeds}
            theirs = {seed: scores(first.runs[seed]) for seed in seeds}
            rows.append(_over_seeds(ours, theirs, groups))
    compared = _adjusted(systems, rows, metric, [method.shared(first) for method in others])
    return systems[0], [
        comparison.model_copy(update={"left_out": _unpaired(first, method, comparison.seeds)})
        for comparison, method in zip(compared, others, strict=True)
    ]


def _unpaired(first: Method, second: Method, seeds: Sequence[int]) -> list[str]:
    """The runs whose seeds are not among `seeds`, those that both methods have."""
    return [str(method.runs[seed].run) for method in (first, second) for seed in sorted({*method.runs} - {*seeds})]


def _adjusted(
    systems: Sequence[System],
    rows: Sequence[tuple[Rows, Rows]],
    metric: MetricName,
    seeds: Sequence[list[int]],
) -> list[Compared]:
    """The comparisons with the first system: their sentences, and p adjusted for the number of comparisons."""
    means = [mean["all"] for _, mean in rows]
    adjusted = holm([1.0 if mean.p is None else mean.p for mean in means])
    compared = []
    for system, (languages, of_groups), mean, p, shared in zip(systems[1:], rows, means, adjusted, seeds, strict=True):
        comparison = Comparison(
            system.name,
            systems[0].name,
            METRICS[metric],
            seeds=len(shared) or 1,
            mean=mean.difference,
            low=mean.low,
            high=mean.high,
            p=p,
            adjusted=len(rows) > 1,
            higher=max(mean.system, mean.baseline),
        )
        text = sentence(comparison)
        compared.append(
            Compared(system=system, languages=languages, means=of_groups, holm=p, sentence=text, seeds=shared)
        )
    return compared


def _facts(evaluation: Evaluation) -> RunFacts:
    return RunFacts(run=str(evaluation.run), training_seed=evaluation.recipe.seed, made_from=evaluation.made_from())


def _check_references(evaluations: Sequence[Evaluation]) -> None:
    """Raises ConfigError unless all runs have the test sets of the first. Translates runs without translations."""
    way_out = "compare runs over the same test sets"
    first, *others = evaluations
    expected = {name: texts.references for name, texts in first.lines().items()}
    for other in others:
        references = {name: texts.references for name, texts in other.lines().items()}
        if set(references) != set(expected):
            its, ours = ", ".join(references), ", ".join(expected)
            raise ConfigError(f"{other.run} translates {its}; {first.run} translates {ours}: {way_out}")
        for name, lines in references.items():
            if lines != expected[name]:
                pairs = zip(lines, expected[name], strict=False)
                differs = next((i for i, (line, other_line) in enumerate(pairs, start=1) if line != other_line), None)
                where = f"line {differs}" if differs else f"{len(lines):,} lines and {len(expected[name]):,}"
                raise ConfigError(
                    f"{other.run}: the references of {name} are not those of {first.run} ({where}): {way_out}"
                )


# --- methods ----------------------------------------------------------------------------------------------------------


def group_by_method(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Groups runs whose recipes differ only in name, seed and work folder: they are runs of one method."""
    groups: list[tuple[dict[str, object], list[Evaluation]]] = []  # settings of any type
    for evaluation in evaluations:
        settings = evaluation.recipe.model_dump(exclude={"name", "seed", "work"})
        group = next((members for known, members in groups if known == settings), None)
        if group is None:
            groups.append((settings, [evaluation]))
        else:
            group.append(evaluation)
    return [members for _, members in groups]


def _methods(groups: Sequence[Sequence[Evaluation]]) -> list[Method]:
    """The methods with their names. ConfigError if one has a seed twice or shares no seed with the first."""
    names = [_name(members) for members in groups]
    methods = []
    for name, members in zip(names, groups, strict=True):
        unique = name if names.count(name) == 1 else str(members[0].run)
        methods.append(Method(unique, _by_seed(members)))
    first = methods[0]
    for method in methods[1:]:
        if not method.shared(first):
            raise ConfigError(
                f"{method.name} has {_seeds(method)}, {first.name} has {_seeds(first)}: methods are paired by seed;"
                " give runs of both with the same seed"
            )
    return methods


def _by_seed(members: Sequence[Evaluation]) -> dict[int, Evaluation]:
    runs: dict[int, Evaluation] = {}
    for evaluation in members:
        seed = evaluation.recipe.seed
        if seed in runs:
            raise ConfigError(
                f"{evaluation.run} has the same method and the same seed ({seed}) as {runs[seed].run}: their recipes"
                " differ at most in name; give only one of the two"
            )
        runs[seed] = evaluation
    return runs


def _seeds(method: Method) -> str:
    return f"seed{'' if len(method.runs) == 1 else 's'} {', '.join(map(str, sorted(method.runs)))}"


def _name(members: Sequence[Evaluation]) -> str:
    """The common name of the runs without `.SEED`: from their folders, else their recipes, else the first run's."""
    folders, recipes = [name_of(run.run) for run in members], [run.recipe.name for run in members]
    for names in (folders, recipes):
        without_seed = [name.removesuffix(f".{run.recipe.seed}") for name, run in zip(names, members, strict=True)]
        if len(set(without_seed)) == 1:
            return without_seed[0]
    return f"{without_seed[0]} ({len(members)} runs)"


def _scores(run: Evaluation, metric: MetricName) -> dict[str, float]:
    scorer = metric_named(metric)
    return {
        lang: float(scorer.corpus_score(texts.translations, [texts.references]).score)
        for lang, texts in run.lines().items()
    }


def _over_seeds(
    ours: Mapping[int, Mapping[str, float]], theirs: Mapping[int, Mapping[str, float]], groups: Groups
) -> tuple[dict[str, OverSeeds], dict[str, OverSeeds]]:
    """The rows of languages and of means, from the scores of each seed."""

    def row(langs: Sequence[str]) -> OverSeeds:
        system, baseline = (
            {seed: fmean(scores[lang] for lang in langs) for seed, scores in by_seed.items()}
            for by_seed in (ours, theirs)
        )
        return over_seeds(system, baseline)

    languages = {lang: row([lang]) for lang in next(iter(theirs.values()))}
    return languages, {name: row(langs) for name, langs in groups.items() if langs}
