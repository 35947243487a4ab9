"""Two systems on the same test sentences: a paired bootstrap per language, and of the means over languages."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from cclm.evaluation.scores import MetricName, metric_named, sacrebleu_seed

SAMPLES, SEED = 2000, 12345
SACREBLEU_SAMPLES = 1000
"""SacreBLEU's default, and our limit: it holds the statistics of all resamples in memory at once."""

Lines = Mapping[str, Sequence[str]]
"""The lines of each language."""


@dataclass(frozen=True)
class Difference:
    """Two scores and their difference, system minus baseline, with a 95 % percentile interval and a two-sided p.

    `p_sacrebleu` comes from SacreBLEU's own paired bootstrap, which exists for single languages only. It compares
    absolute differences with their mean and so in effect tests one side: usually it is half of `p`.
    """

    baseline: float
    system: float
    difference: float
    low: float
    high: float
    p: float
    p_sacrebleu: float | None = None


def paired_bootstrap(
    system: Lines,
    baseline: Lines,
    references: Lines,
    *,
    groups: Mapping[str, Collection[str]],
    metric: MetricName = "bleu",
    samples: int = SAMPLES,
    seed: int = SEED,
) -> tuple[dict[str, Difference], dict[str, Difference]]:
    """How a system differs from the baseline: in each language, and in the mean over each group of languages.

    The sentences are resampled within each language, independently per language, the same ones for both systems. The
    score of a resample is a corpus score, and the mean over a group is taken in each resample. So the interval is about
    other test sentences from the same source; it says nothing about other seeds or other languages. A group without
    languages is left out.
    """
    _check(system, baseline, references, samples)
    languages, resampled = {}, {}
    for lang, lines in references.items():
        scorer = metric_named(metric)
        texts = [list(system[lang]), list(baseline[lang])]
        stats = [np.array(scorer._extract_corpus_statistics(text, [list(lines)])) for text in texts]
        resampled[lang] = _differences(scorer, stats, draws(lang, len(lines), samples, seed))
        by_sacrebleu = _sacrebleu_p(texts, list(lines), metric, min(samples, SACREBLEU_SAMPLES), seed)
        scores = [_score(scorer, each.sum(axis=0)) for each in stats]
        languages[lang] = _difference(scores[0], scores[1], resampled[lang], by_sacrebleu)
    means = {}
    for name, members in groups.items():
        inside = [lang for lang in languages if lang in members]
        if inside:
            ours = float(np.mean([languages[lang].system for lang in inside]))
            theirs = float(np.mean([languages[lang].baseline for lang in inside]))
            means[name] = _difference(ours, theirs, np.mean([resampled[lang] for lang in inside], axis=0))
    return languages, means


def draws(lang: str, sentences: int, samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The indices of the sentences in each resample of a language; they do not depend on the other languages."""
    generator = np.random.default_rng([seed, *lang.encode()])
    return (generator.integers(sentences, size=sentences) for _ in range(samples))


def _differences(
    scorer: Metric, stats: Sequence[NDArray[Any]], drawn: Iterator[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """System minus baseline in every resample: a corpus score is a function of sums over sentences."""
    sentences, width = stats[0].shape
    both = np.hstack(stats).astype(float)  # integers, exact as floats; matrix products of floats are fast
    sums = (np.bincount(numbers, minlength=sentences) @ both for numbers in drawn)
    return np.array([_score(scorer, row[:width]) - _score(scorer, row[width:]) for row in sums])


def _score(scorer: Metric, sums: NDArray[Any]) -> float:
    return float(scorer._compute_score_from_stats([int(value) for value in sums]).score)


def _difference(
    system: float, baseline: float, resampled: NDArray[np.float64], p_sacrebleu: float | None = None
) -> Difference:
    """p is twice the share of resamples beyond 0: below 0.05 if the interval excludes 0."""
    low, high = np.quantile(resampled, [0.025, 0.975])
    beyond = min(np.sum(resampled <= 0), np.sum(resampled >= 0))
    p = min(1.0, 2 * (float(beyond) + 1) / (len(resampled) + 1))
    return Difference(baseline, system, system - baseline, float(low), float(high), p, p_sacrebleu)


def _sacrebleu_p(
    texts: Sequence[list[str]], references: list[str], metric: MetricName, samples: int, seed: int
) -> float:
    system, baseline = texts
    if system == baseline:
        return 1.0  # SacreBLEU gives equal systems the smallest possible p
    named: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", system)]
    metrics: dict[str, Metric] = {metric: metric_named(metric)}
    with sacrebleu_seed(seed):
        _, results = PairedTest(named, metrics, [references], test_type="bs", n_samples=samples)()
    (found,) = (column[1] for name, column in results.items() if name != "System")
    return float(found.p_value)  # type: ignore[union-attr,arg-type]


def _check(system: Lines, baseline: Lines, references: Lines, samples: int) -> None:
    if samples < 2:
        raise ValueError(f"a bootstrap needs at least 2 resamples; got {samples}")
    if not references:
        raise ValueError("there is no language to compare")
    for name, texts in (("system", system), ("baseline", baseline)):
        if set(texts) != set(references):
            raise ValueError(f"the {name} has {', '.join(texts)}; the references have {', '.join(references)}")
        for lang, lines in references.items():
            if len(texts[lang]) != len(lines) or not lines:
                raise ValueError(f"{lang}: {len(texts[lang])} lines of the {name} for {len(lines)} references")
