"""Tests whether two systems differ: paired bootstrap over sentences, paired t-test over seeds, Holm's correction."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from cclm.evaluation.scores import metric_named, sacrebleu_seed
from cclm.formats.scores import MetricName

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
    """The differences between a system and the baseline: in each language, and on average over each group.

    Sentences are resampled within each language, the same ones for both systems. The score of a resample is a corpus
    score, and the mean over a group is taken in each resample. The interval therefore covers the choice of test
    sentences, not the choice of seeds or languages. Groups without languages are omitted.
    """
    _check(system, baseline, references, samples)
    languages, resampled = {}, {}
    for lang, lines in references.items():
        scorer = metric_named(metric)
        texts = [list(system[lang]), list(baseline[lang])]
        stats = [_statistics_of(metric, tuple(text), tuple(lines)) for text in texts]
        resampled[lang] = _differences(scorer, stats, draws(lang, len(lines), samples, seed))
        by_sacrebleu = _sacrebleu_p(texts, list(lines), metric, min(samples, SACREBLEU_SAMPLES), seed)
        scores = [_score(scorer, statistics.sum(axis=0)) for statistics in stats]
        languages[lang] = _difference(scores[0], scores[1], resampled[lang], by_sacrebleu)
    means = {}
    for name, members in groups.items():
        group = [lang for lang in languages if lang in members]
        if group:
            ours = float(np.mean([languages[lang].system for lang in group]))
            theirs = float(np.mean([languages[lang].baseline for lang in group]))
            means[name] = _difference(ours, theirs, np.mean([resampled[lang] for lang in group], axis=0))
    return languages, means


@lru_cache(maxsize=512)
def _statistics_of(metric: MetricName, text: tuple[str, ...], references: tuple[str, ...]) -> NDArray[Any]:
    """The counts of each sentence from which SacreBLEU computes a corpus score: their resamples are those of the
    sentences. They are kept, because an arm of a study is compared with several others."""
    return np.array(metric_named(metric)._extract_corpus_statistics(list(text), [list(references)]))


def draws(lang: str, sentences: int, samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The sentence indices of each resample of a language; they do not depend on other languages."""
    generator = np.random.default_rng([seed, *lang.encode()])
    return (generator.integers(sentences, size=sentences) for _ in range(samples))


def _differences(
    scorer: Metric, stats: Sequence[NDArray[Any]], drawn: Iterator[NDArray[np.int64]]
) -> NDArray[np.float64]:
    """System minus baseline in every resample, from sums of sentence statistics, which determine a corpus score."""
    sentences, width = stats[0].shape
    both = np.hstack(stats).astype(float)  # integers are exact as floats, and float products are faster
    sums = (np.bincount(numbers, minlength=sentences) @ both for numbers in drawn)
    return np.array([_score(scorer, row[:width]) - _score(scorer, row[width:]) for row in sums])


def _score(scorer: Metric, sums: NDArray[Any]) -> float:
    return float(scorer._compute_score_from_stats([int(value) for value in sums]).score)


def _difference(
    system: float, baseline: float, resampled: NDArray[np.float64], p_sacrebleu: float | None = None
) -> Difference:
    """p is twice the share of resamples on the other side of 0: below 0.05 if the interval excludes 0."""
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
    (result,) = (column[1] for name, column in results.items() if name != "System")
    return float(result.p_value)  # type: ignore[union-attr,arg-type]


def _check(system: Lines, baseline: Lines, references: Lines, samples: int) -> None:
    if samples < 2:
        raise ValueError(f"a bootstrap needs at least 2 resamples; got {samples}")
    if not references:
        raise ValueError("no language to compare")
    for name, texts in (("system", system), ("baseline", baseline)):
        if set(texts) != set(references):
            raise ValueError(f"the {name} has {', '.join(texts)}; the references have {', '.join(references)}")
        for lang, lines in references.items():
            if len(texts[lang]) != len(lines) or not lines:
                raise ValueError(f"{lang}: {len(texts[lang])} lines of the {name} for {len(lines)} references")


LEVEL = 0.05
"""The significance level of tests; intervals have a coverage of 1 - LEVEL."""
FEW = 5
"""With fewer seeds than this, a significant difference is called a hint."""
NO_SCORE = 0.05
"""Scores below this are displayed as 0.0. Two systems that both score so allow no conclusion."""


@dataclass(frozen=True)
class Interval:
    """The mean of paired differences with its 95 % t interval; with a single difference, all but `mean` are None."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    t: float | None
    p: float | None
    n: int


@dataclass(frozen=True)
class OverSeeds:
    """Two mean scores and the mean difference, system minus baseline, with its 95 % t interval and two-sided p.

    With a single seed there is no interval and no p. `differences` has the difference of each seed, with the seed as
    a string, as in JSON.
    """

    baseline: float
    system: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    differences: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """A difference between two systems: the score of `first` minus that of `second`.

    With several seeds, the interval comes from `paired_t`; with one seed, from a bootstrap of test sentences, or it is
    None. `p` is two-sided, and `adjusted` by `holm` if there are several comparisons. The interval is not adjusted.
    """

    first: str
    second: str
    metric: str
    seeds: int
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    adjusted: bool = False
    higher: float | None = None
    """The higher of the two scores, if known."""


def over_seeds(system: Mapping[int, float], baseline: Mapping[int, float]) -> OverSeeds:
    """The difference between a system and the baseline, paired by seed. Seeds that only one has are ignored."""
    shared = [seed for seed in system if seed in baseline]
    if not shared:
        raise ValueError(f"no seed in common: the system has {sorted(system)}, the baseline {sorted(baseline)}")
    differences = {str(seed): system[seed] - baseline[seed] for seed in shared}
    interval = paired_t(list(differences.values()))
    theirs, ours = (math.fsum(scores[seed] for seed in shared) / len(shared) for scores in (baseline, system))
    return OverSeeds(theirs, ours, interval.mean, interval.low, interval.high, interval.p, differences)


def paired_t(differences: Sequence[float]) -> Interval:
    """The mean of paired differences, one per seed, with its 95 % interval and the two-sided p of "no difference".

    If all differences are equal there is no variance to estimate: the interval has no width, t is None, and p is 1 if
    they are 0, otherwise 0.
    """
    values = [float(value) for value in differences]
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"a paired t interval needs one or more finite differences; got {values}")
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return Interval(mean, None, None, None, None, None, n)
    if min(values) == max(values):
        value = values[0]
        return Interval(value, 0.0, value, value, None, 0.0 if value else 1.0, n)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    error = sd / math.sqrt(n)
    half = t_quantile(1 - LEVEL / 2, n - 1) * error
    return Interval(mean, sd, mean - half, mean + half, mean / error, t_two_sided(mean / error, n - 1), n)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted for multiple comparisons by Holm's method, in the same order.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none is smaller than the one before it, and
    none is above 1.
    """
    if wrong := [p for p in p_values if not 0 <= p <= 1]:
        raise ValueError(f"a p value is between 0 and 1; got {wrong[0]}")
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


def sentence(comparison: Comparison) -> str:
    """The conclusion from a comparison as a sentence; part of results.json, so its wording is fixed."""
    if comparison.higher is not None and comparison.higher < NO_SCORE:
        return (
            f"{comparison.first} and {comparison.second} both score 0.0 {comparison.metric}: no conclusion is possible"
        )
    numbers = f"{comparison.mean:+.2f} {comparison.metric}"
    if comparison.low is None or comparison.high is None or comparison.p is None:
        systems = f"{comparison.first} against {comparison.second}"
        return f"{systems}: {numbers} on one seed, without an interval; it licenses no claim"
    adjusted = " after Holm" if comparison.adjusted else ""
    numbers += f" [{comparison.low:+.2f}, {comparison.high:+.2f}], {_probability(comparison.p)}{adjusted}"
    if comparison.seeds == 1:
        words = _detected(comparison) if comparison.p < LEVEL else _undetected(comparison)
        return (
            f"on these test sentences, {words}: {numbers}; this is one seed, and a bootstrap of its sentences licenses"
            " no claim about the method"
        )
    numbers += f", {comparison.seeds} seeds"
    if comparison.p < LEVEL:
        hint = f"; with fewer than {FEW} seeds, a hint and no more" if comparison.seeds < FEW else ""
        return f"{_detected(comparison)}: {numbers}{hint}"
    return f"{_undetected(comparison)}: {numbers}; gains above {max(0.0, comparison.high):.2f} can be excluded"


def _detected(comparison: Comparison) -> str:
    return f"{comparison.first} scores {'higher' if comparison.mean > 0 else 'lower'} than {comparison.second}"


def _undetected(comparison: Comparison) -> str:
    return f"no difference detected between {comparison.first} and {comparison.second}"


def _probability(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


# --- Student's t distribution -----------------------------------------------------------------------------------------
# Implemented here because SciPy is a dependency of 100 MB for two functions. The tests compare with SciPy.

TERMS = 300
"""Terms of the continued fraction, which converges after about the square root of the degrees of freedom."""


def t_cdf(t: float, freedom: float) -> float:
    """The probability of at most `t` with `freedom` degrees of freedom."""
    within = _incomplete_beta(t * t / (freedom + t * t), freedom / (freedom + t * t), 0.5, freedom / 2)
    return 0.5 + math.copysign(within / 2, t)


def t_two_sided(t: float, freedom: float) -> float:
    """The probability of a value at least as far from 0 as `t`."""
    return _incomplete_beta(freedom / (freedom + t * t), t * t / (freedom + t * t), freedom / 2, 0.5)


@cache
def t_quantile(probability: float, freedom: float) -> float:
    """The t below which a value lies with this probability, by bisection."""
    if not 0 < probability < 1:
        raise ValueError(f"a quantile needs a probability between 0 and 1; got {probability}")
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < probability:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if t_cdf(middle, freedom) < probability else (low, middle)
    return high


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised I_x(a, b). `rest` is 1 - x, a separate argument: near x = 1 the subtraction loses its digits."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # on this side the fraction converges slowly
        return 1 - _incomplete_beta(rest, x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(scale) / (a * _continued_fraction(x, a, b))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), from the inside out; the coefficients are those of DLMF 8.17.22."""
    value = 1.0
    for k in range(TERMS, 0, -1):
        m = k // 2
        above = -(a + m) * (a + b + m) if k % 2 else m * (b - m)
        value = 1 + above * x / ((a + k - 1) * (a + k)) / value
    return value
