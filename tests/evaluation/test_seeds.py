"""Two methods over seeds: paired as SciPy pairs them, by the seeds that both have."""

import numpy as np
import pytest
from scipy import stats

from cclm.evaluation.seeds import over_seeds


def test_differences_over_seeds_are_scipys_paired_t_test() -> None:
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


def test_a_seed_that_only_one_has_is_left_out() -> None:
    found = over_seeds({1: 10.0, 2: 12.0, 5: 90.0}, {2: 11.0, 1: 9.5, 7: 0.0})
    assert (found.baseline, found.system, found.difference) == (10.25, 11.0, 0.75)
    assert found.differences == {"1": 0.5, "2": 1.0}


def test_one_seed_has_no_interval() -> None:
    found = over_seeds({1: 10.0}, {1: 9.0})
    assert (found.difference, found.low, found.high, found.p) == (1.0, None, None, None)


def test_no_seed_in_common_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no seed in common: the system has \[1, 2\], the baseline \[3\]"):
        over_seeds({2: 1.0, 1: 1.0}, {3: 1.0})
