"""Runs as methods: those whose recipes differ in name and seed alone are one, and methods are paired by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean
from typing import Any

from cclm.errors import ConfigError
from cclm.evaluation.bootstrap import SAMPLES, paired_bootstrap
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import MetricName, metric_named
from cclm.evaluation.seeds import over_seeds

Rows = dict[str, dict[str, Any]]
"""Two scores and their difference, with interval and p: of each language, or of each mean over languages."""


@dataclass(frozen=True)
class Method:
    """The runs of one method, by seed."""

    name: str
    runs: Mapping[int, Evaluation]

    def shared(self, other: "Method") -> list[int]:
        """The seeds that both have."""
        return sorted(self.runs.keys() & other.runs.keys())


def grouped(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """The runs of each method together, in the order of their first ones."""
    groups: list[tuple[dict[str, Any], list[Evaluation]]] = []
    for evaluation in evaluations:
        settings = evaluation.recipe.model_dump(exclude={"name", "seed", "work"})
        same = next((members for known, members in groups if known == settings), None)
        if same is None:
            groups.append((settings, [evaluation]))
        else:
            same.append(evaluation)
    return [members for _, members in groups]


def methods_of(groups: Sequence[Sequence[Evaluation]]) -> list[Method]:
    """The methods by name; refused where a seed is there twice, or none is shared with the first."""
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
                f"{evaluation.run} is the same method with the same seed ({seed}) as {runs[seed].run}: their recipes"
                " differ in name at most; give one of the two"
            )
        runs[seed] = evaluation
    return runs


def _seeds(method: Method) -> str:
    return f"seed{'' if len(method.runs) == 1 else 's'} {', '.join(map(str, sorted(method.runs)))}"


def _name(members: Sequence[Evaluation]) -> str:
    """What the runs are called but for their seeds: their folders, else their recipes, else the first and how many."""
    for called in ([one.run.resolve().name for one in members], [one.recipe.name for one in members]):
        bare = [name.removesuffix(f".{one.recipe.seed}") for name, one in zip(called, members, strict=True)]
        if len(set(bare)) == 1:
            return bare[0]
    return f"{bare[0]} ({len(members)} runs)"


def differences(
    methods: Sequence[Method], groups: Mapping[str, Sequence[str]], *, metric: MetricName, samples: int
) -> list[tuple[list[int], Rows, Rows]]:
    """Every other method against the first: the seeds that both have, and the rows of languages and of means.

    Over several seeds they are of the paired t-test; of a single one, of the bootstrap of its sentences.
    """
    first, *others = methods
    scores = cache(lambda run: _scores(run, metric))
    found = []
    for method in others:
        seeds = method.shared(first)
        if len(seeds) == 1:
            rows = over_sentences(method.runs[seeds[0]], first.runs[seeds[0]], groups, metric=metric, samples=samples)
        else:
            ours, theirs = ({seed: scores(each.runs[seed]) for seed in seeds} for each in (method, first))
            rows = _over_seeds(ours, theirs, groups)
        found.append((seeds, *rows))
    return found


def _scores(run: Evaluation, metric: MetricName) -> dict[str, float]:
    scorer = metric_named(metric)
    lines = run.lines().items()
    return {lang: float(scorer.corpus_score(ours, [references]).score) for lang, (ours, references, _) in lines}


def _over_seeds(
    ours: Mapping[int, Mapping[str, float]],
    theirs: Mapping[int, Mapping[str, float]],
    groups: Mapping[str, Sequence[str]],
) -> tuple[Rows, Rows]:
    def row(langs: Sequence[str]) -> dict[str, Any]:
        system, baseline = (
            {seed: fmean(scores[lang] for lang in langs) for seed, scores in each.items()} for each in (ours, theirs)
        )
        return asdict(over_seeds(system, baseline))

    languages = {lang: row([lang]) for lang in next(iter(theirs.values()))}
    return languages, {name: row(langs) for name, langs in groups.items() if langs}


def over_sentences(
    ours: Evaluation,
    theirs: Evaluation,
    groups: Mapping[str, Sequence[str]],
    *,
    metric: MetricName,
    samples: int = SAMPLES,
) -> tuple[Rows, Rows]:
    """Two runs on the same test sentences, which are resampled."""
    lines, baseline = ours.lines(), {lang: texts[0] for lang, texts in theirs.lines().items()}
    system, references = ({lang: texts[side] for lang, texts in lines.items()} for side in (0, 1))
    both = paired_bootstrap(system, baseline, references, groups=groups, metric=metric, samples=samples)
    languages, means = ({name: asdict(found) for name, found in part.items()} for part in both)
    return languages, means
