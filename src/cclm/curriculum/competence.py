"""The two competencies of the paper, each one function. Losses are in bits per target token."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.graph import LanguageGraph


def likelihood_score(loss: float) -> float:
    """The probability of the right token, as a geometric mean: 1 is perfect."""
    return math.exp2(-loss)  # Eq. 11


def self_evaluated(loss: float, benchmark: float) -> float:
    """How well a language has been learned: 1 is as well as by its bitext model, more is better."""
    return math.exp2(benchmark - loss)  # Eq. 12: s / s*, without two underflows on the way


def self_evaluated_se(competence: float, loss_se: float) -> float:
    """The standard error of a competence, given that of its loss."""
    return competence * math.log(2) * loss_se  # d/dL 2^(L* - L); L* counts as exact


def hrls_evaluated_max(graph: LanguageGraph, competence: Mapping[str, float]) -> dict[str, float]:
    """Whether each LRL is ready: the competence of the HRL most similar to it.

    An LRL whose HRL has not been measured yet is absent.
    """
    nearest = graph.nearest  # ties: the first HRL declared
    return {lrl: competence[nearest[lrl]] for lrl in graph.low_resource if nearest[lrl] in competence}  # Eq. 13


def hrls_evaluated_avg(graph: LanguageGraph, competence: Mapping[str, float]) -> dict[str, float]:
    """Whether each LRL is ready: the competence of all HRLs, weighted by their similarity to it.

    An LRL with a similar HRL that has not been measured yet is absent.
    """
    shares = graph.shares  # HRL x LRL, e_ij / sum_k e_kj
    return _summed(graph, shares, competence)  # Eq. 14


def hrls_evaluated_avg_se(graph: LanguageGraph, competence_se: Mapping[str, float]) -> dict[str, float]:
    """The standard error of `hrls_evaluated_avg`; the HRLs are measured independently of each other."""
    squares = {hrl: error**2 for hrl, error in competence_se.items()}
    return {lrl: math.sqrt(total) for lrl, total in _summed(graph, graph.shares**2, squares).items()}


def _summed(graph: LanguageGraph, shares: NDArray[np.float64], values: Mapping[str, float]) -> dict[str, float]:
    """For each LRL the sum over HRLs of share x value. LRLs that need the value of an HRL that has none are absent."""
    # An HRL without a measurement gives NaN if its share is above 0, and 0 otherwise.
    measured = np.array([values.get(hrl, math.nan) for hrl in graph.canonical_hrls])
    terms = np.multiply(shares, measured[:, None], out=np.zeros_like(shares), where=shares > 0)
    # Rows are added one after the other, in canonical order: no result depends on the declared one.
    sums = dict(zip(graph.canonical_lrls, terms.sum(axis=0).tolist(), strict=True))
    return {lrl: sums[lrl] for lrl in graph.low_resource if not math.isnan(sums[lrl])}
