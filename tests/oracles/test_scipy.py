"""Draws and optimisation against SciPy's statistics and solver."""

from collections import Counter

import numpy as np
import pytest
from scipy import optimize, stats
from worked_example import BENCHMARK, LOSS, SIZES, curriculum

from cclm.curriculum import draw_language
from cclm.curriculum.samplers import worst_case
from cclm.rng import key, shuffled, uniform


def test_the_languages_drawn_follow_the_weights() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS)
    counts = Counter(draw_language(7, index, ccl_m.distribution) for index in range(50_000))
    expected = [50_000 * ccl_m.weights[lang] for lang in ccl_m.admitted]
    assert stats.chisquare([counts[lang] for lang in ccl_m.admitted], expected).pvalue > 1e-4


def test_uniform_numbers_are_uniform_and_uncorrelated() -> None:
    numbers = np.array([uniform(key(11, "language"), index) for index in range(50_000)])
    assert stats.kstest(numbers, "uniform").pvalue > 1e-4
    assert stats.pearsonr(numbers[:-1], numbers[1:]).pvalue > 1e-4


@pytest.mark.slow
def test_all_orders_of_four_are_equally_likely() -> None:
    orders = Counter(tuple(shuffled(i, 4, key(seed, "example")) for i in range(4)) for seed in range(12_000))
    assert len(orders) == 24
    assert stats.chisquare(list(orders.values())).pvalue > 1e-4


def test_the_chi_square_mixture_is_the_worst_case_that_a_solver_finds() -> None:
    # Without the floor: maximise q.v over the simplex within chi-square distance rho of p.
    languages = sorted(SIZES)
    excess = np.array([LOSS[lang] - BENCHMARK[lang] for lang in languages])
    sizes = np.array([SIZES[lang] for lang in languages], dtype=float)
    prior = sizes / sizes.sum()
    solution = optimize.minimize(
        lambda q: -(q @ excess),
        prior,
        method="SLSQP",
        bounds=[(0, 1)] * 8,
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": lambda q: 0.05 - (prior * (q / prior - 1) ** 2).sum() / 2},
        ],
        options={"ftol": 1e-10, "maxiter": 1000},
    )
    ours = worst_case(excess, prior, rho=0.05, floor=0.0)
    assert solution.success
    np.testing.assert_allclose(ours @ excess, -solution.fun, rtol=1e-6)
