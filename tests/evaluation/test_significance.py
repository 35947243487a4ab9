"""Paired t intervals, Holm's method and the sentence: compared with SciPy and with worked examples."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from cclm.evaluation.scores import metric_named
from cclm.evaluation.statistics import (
    Comparison,
    holm,
    over_seeds,
    paired_t,
    sentence,
    t_cdf,
    t_quantile,
    t_two_sided,
)

FREEDOM = [1, 2, 3, 4, 7, 9.5, 29, 100, 1000]
DIFFERENCES = [0.31, -0.12, 0.88, 0.45, 0.27]


@pytest.mark.parametrize("freedom", FREEDOM)
def test_students_t_equals_scipys(freedom: float) -> None:
    for t in (0.0, 1e-9, 1e-4, 0.3, -0.7, 1.0, 1.96, -2.776, 12.7, 400.0, -1e6):
        assert t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), abs=1e-9)
        assert t_two_sided(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9, abs=1e-300)
    for probability in (1e-6, 0.025, 0.3, 0.5, 0.51, 0.9, 0.975, 0.9995, 1 - 1e-9):
        expected = stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-7 if probability > 0.9999 else 1e-9)


@pytest.mark.parametrize("probability", [0.0, 1.0, -0.1, math.nan])
def test_a_quantile_needs_a_probability(probability: float) -> None:
    with pytest.raises(ValueError, match="a quantile needs a probability between 0 and 1; got"):
        t_quantile(probability, 4)


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_a_paired_t_interval_equals_scipys(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    first, second = rng.normal(20, 2, seeds), rng.normal(19.5, 2, seeds)
    expected = stats.ttest_rel(first, second)
    low, high = expected.confidence_interval(0.95)
    found = paired_t(list(first - second))
    assert (found.t, found.p) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert (found.mean, found.sd) == pytest.approx((np.mean(first - second), np.std(first - second, ddof=1)))
    assert found.n == seeds


def test_one_seed_has_no_interval() -> None:
    found = paired_t([0.5])
    assert (found.mean, found.n) == (0.5, 1)
    assert {found.sd, found.low, found.high, found.t, found.p} == {None}


def test_equal_differences_have_an_interval_without_width() -> None:
    same = paired_t([0.1] * 3)  # their float mean and deviation are not exact; the interval is
    assert (same.mean, same.sd, same.low, same.high, same.t, same.p) == (0.1, 0.0, 0.1, 0.1, None, 0.0)
    assert paired_t([0.0, 0.0]).p == 1.0


@pytest.mark.parametrize("differences", [[], [0.1, math.nan], [math.inf]])
def test_invalid_differences_are_refused(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="needs one or more finite differences; got"):
        paired_t(differences)


def test_holm_on_a_worked_example() -> None:
    # In order: 0.01 x 4 = 0.04, 0.02 x 3 = 0.06, 0.022 x 2 = 0.044 raised to 0.06, 0.5 x 1.
    assert holm([0.02, 0.5, 0.01, 0.022]) == pytest.approx([0.06, 0.5, 0.04, 0.06])
    assert holm([0.4, 0.9, 0.6]) == [1.0, 1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_rejects_what_its_steps_reject() -> None:
    """Holm's textbook procedure: compare p values in ascending order with level / (number left), until one fails."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p_values = list(rng.beta(0.4, 1.5, size=rng.integers(1, 7)))
        rejected, order = set(), np.argsort(p_values)
        for rank, i in enumerate(order):
            if p_values[i] > 0.05 / (len(p_values) - rank):
                break
            rejected.add(i)
        assert {i for i, p in enumerate(holm(p_values)) if p <= 0.05} == rejected


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_holm_refuses_invalid_probabilities(p: float) -> None:
    with pytest.raises(ValueError, match="a p value is between 0 and 1; got"):
        holm([0.5, p])


def test_about_five_percent_of_studies_without_a_difference_find_one() -> None:
    rng = np.random.default_rng(7)
    rejected = sum(paired_t(list(rng.normal(0, 0.4, 5))).p < 0.05 for _ in range(200))
    assert 4 <= rejected <= 16
    # A normal interval, in place of Student's, would not do: five seeds are few.
    rng = np.random.default_rng(7)
    normal = NormalDist().inv_cdf(0.975)
    assert sum(abs(paired_t(list(rng.normal(0, 0.4, 5))).t) > normal for _ in range(200)) > 16


def test_about_five_percent_of_studies_on_resampled_sentences_find_a_difference() -> None:
    """The outputs of both systems are sampled from the same translations: any difference is due to chance."""
    rng, scorer = np.random.default_rng(11), metric_named("chrf")
    words = ["the", "cat", "sat", "on", "a", "mat", "today", "and", "slept"]
    references = [" ".join(rng.choice(words, 8)) for _ in range(60)]
    hypotheses = [" ".join(w for w in line.split() if rng.random() < 0.8) for line in references]
    stock = np.array(scorer._extract_corpus_statistics(hypotheses, [references]))

    def corpus() -> float:
        return scorer._compute_score_from_stats(stock[rng.integers(60, size=60)].sum(axis=0).tolist()).score

    rejected = sum(paired_t([corpus() - corpus() for _ in range(5)]).p < 0.05 for _ in range(200))
    assert 4 <= rejected <= 16


def test_the_sentence_states_the_conclusion() -> None:
    def told(seeds: int, *numbers: float) -> str:
        return sentence(Comparison("ccl-m", "uniform", "chrF", seeds, *numbers))

    assert told(5, 1.2, 0.4, 2.0, 0.012) == (
        "ccl-m scores higher than uniform: +1.20 chrF [+0.40, +2.00], p = 0.012, 5 seeds"
    )
    assert told(3, -1.2, -2.0, -0.4, 0.0002) == (
        "ccl-m scores lower than uniform: -1.20 chrF [-2.00, -0.40], p < 0.001, 3 seeds;"
        " with fewer than 5 seeds, a hint and no more"
    )
    assert told(5, -0.1, -0.9, 0.7, 0.741) == (
        "no difference detected between ccl-m and uniform: -0.10 chrF [-0.90, +0.70], p = 0.741, 5 seeds;"
        " gains above 0.70 can be excluded"
    )
    assert told(5, 0.0, 0.0, 0.0, 1.0, False, 0.01) == (
        "ccl-m and uniform both score 0.0 chrF: no conclusion is possible"
    )
    # An adjusted p may be large where the interval leaves 0 out.
    assert told(5, -0.5, -0.9, -0.1, 0.06).endswith("gains above 0.00 can be excluded")


def test_one_seed_licenses_no_claim_about_a_method() -> None:
    no_claim = "this is one seed, and a bootstrap of its sentences licenses no claim about the method"
    found = sentence(Comparison("ccl-m", "uniform", "BLEU", 1, 1.2, 0.4, 2.0, 0.003))
    assert found == (
        f"on these test sentences, ccl-m scores higher than uniform: +1.20 BLEU [+0.40, +2.00], p = 0.003; {no_claim}"
    )
    found = sentence(Comparison("ccl-m", "uniform", "BLEU", 1, 0.2, -0.4, 0.8, 0.5))
    assert found.startswith("on these test sentences, no difference detected between ccl-m and uniform: +0.20 BLEU")
    assert found.endswith(no_claim)
    assert sentence(Comparison("ccl-m", "uniform", "BLEU", 1, 0.2)) == (
        "ccl-m against uniform: +0.20 BLEU on one seed, without an interval; it licenses no claim"
    )


# --- over seeds


def test_differences_over_seeds_equal_scipys_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    baseline = dict(zip((3, 1, 8, 4), map(float, rng.normal(20, 2, 4)), strict=True))
    system = {seed: score + float(rng.normal(0.5, 0.3)) for seed, score in baseline.items()}
    found = over_seeds(system, baseline)
    expected = stats.ttest_rel(list(system.values()), list(baseline.values()))
    interval = expected.confidence_interval()
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, expected.pvalue))
    assert found.baseline == pytest.approx(np.mean(list(baseline.values())))
    assert found.system - found.baseline == pytest.approx(found.difference)
    assert found.differences == {str(seed): system[seed] - baseline[seed] for seed in (3, 1, 8, 4)}


def test_seeds_that_only_one_system_has_are_ignored() -> None:
    found = over_seeds({1: 10.0, 2: 12.0, 5: 90.0}, {2: 11.0, 1: 9.5, 7: 0.0})
    assert (found.baseline, found.system, found.difference) == (10.25, 11.0, 0.75)
    assert found.differences == {"1": 0.5, "2": 1.0}


def test_methods_with_one_seed_have_no_interval() -> None:
    found = over_seeds({1: 10.0}, {1: 9.0})
    assert (found.difference, found.low, found.high, found.p) == (1.0, None, None, None)


def test_systems_without_a_common_seed_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no seed in common: the system has \[1, 2\], the baseline \[3\]"):
        over_seeds({2: 1.0, 1: 1.0}, {3: 1.0})
