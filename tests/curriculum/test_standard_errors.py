"""Standard errors of dev losses: how they reach competence, gates, logs and saved states; and that none are needed."""

import json
import math
from typing import Any

import numpy as np
import pytest

from cclm import AllAtOnce, CompetenceGate, Curriculum, InverseCompetence, LanguageGraph, Temperature
from cclm.curriculum.competence import hrls_evaluated_avg, hrls_evaluated_avg_se

GRAPH = LanguageGraph(["h1", "h2"], ["l1", "l2"], {"l1": {"h1": 0.6, "h2": 0.2}, "l2": {"h1": 0.0, "h2": 0.5}})
SIZES = {"h1": 1000, "h2": 500, "l1": 10, "l2": 20}
BENCHMARK = dict.fromkeys(SIZES, 4.0)
LOSSES = {"h1": 4.2, "h2": 4.1, "l1": 6.0, "l2": 7.0}
ERRORS = {"h1": 0.1, "h2": 0.2, "l1": 0.3, "l2": 0.4}


def curriculum(**gate: Any) -> Curriculum:
    return Curriculum(CompetenceGate(GRAPH, **gate), InverseCompetence(), sizes=SIZES, benchmark=BENCHMARK)


def test_the_error_of_a_competence_is_its_derivative_times_that_of_the_loss() -> None:
    learner = curriculum()
    learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
    step = 1e-6
    for lang, error in learner.competence_se.items():
        derivative = (2 ** (4.0 - LOSSES[lang]) - 2 ** (4.0 - LOSSES[lang] - step)) / step
        assert error == pytest.approx(derivative * ERRORS[lang], rel=1e-4)
    assert learner.explain()["dev_loss_se"] == ERRORS
    assert learner.explain()["competence_se"] == learner.competence_se


def test_the_error_of_an_average_of_hrls_agrees_with_a_simulation() -> None:
    chance = np.random.default_rng(1)
    competence, errors = {"h1": 0.8, "h2": 0.5}, {"h1": 0.1, "h2": 0.04}
    drawn = [
        hrls_evaluated_avg(GRAPH, {hrl: chance.normal(competence[hrl], errors[hrl]) for hrl in competence})
        for _ in range(4000)
    ]
    for lrl, error in hrls_evaluated_avg_se(GRAPH, errors).items():
        assert error == pytest.approx(np.std([values[lrl] for values in drawn]), rel=0.05)


@pytest.mark.parametrize(("aggregate", "hrls"), [("avg", {"h1": 0.75, "h2": 0.25}), ("max", {"h1": 1.0})])
def test_a_confident_gate_waits_until_the_threshold_is_surely_reached(aggregate: Any, hrls: dict[str, float]) -> None:
    """l1 of the graph: ready by the mean of h1 and h2, or by h1 alone."""
    competence = {hrl: 2 ** (4.0 - LOSSES[hrl]) for hrl in hrls}
    ready = sum(share * competence[hrl] for hrl, share in hrls.items())
    error = math.sqrt(sum((share * competence[hrl] * math.log(2) * ERRORS[hrl]) ** 2 for hrl, share in hrls.items()))
    for confidence, expected in ((0.0, True), (0.99, True), (1.01, False)):
        threshold = ready - error
        learner = curriculum(aggregate=aggregate, threshold=threshold, confidence=confidence)
        admitted = learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
        assert ("l1" in admitted) == expected, confidence
    unsure = curriculum(aggregate=aggregate, threshold=ready - error, confidence=1.01)
    assert "l1" in unsure.observe(step=1, dev_loss=LOSSES)  # without errors it is the paper's gate


def test_an_admission_tells_the_margin() -> None:
    learner = curriculum(threshold=0.5, confidence=2.0)
    learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
    facts = learner.explain()["admissions"]["l1"]
    assert facts["reason"].startswith(f"HRLs-evaluated competence {facts['hrls_competence']:.3f} - 0.1")


def test_smoothing_lowers_the_error_and_the_first_one_is_taken_as_it_is() -> None:
    learner = Curriculum(AllAtOnce(), Temperature(1), sizes=SIZES, smoothing=0.5)
    learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
    assert learner.explain()["dev_loss_se"] == ERRORS
    learner.observe(step=2, dev_loss=LOSSES, dev_loss_se=ERRORS)
    assert learner.explain()["dev_loss_se"]["h1"] == pytest.approx(0.1 * math.sqrt(0.5))
    assert "competence_se" not in learner.explain()  # no L*, no competence


def test_errors_are_saved_and_restored() -> None:
    learner, other = curriculum(confidence=1.0), curriculum(confidence=1.0)
    learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
    other.load_state_dict(json.loads(json.dumps(learner.state_dict())))
    assert other.explain() == learner.explain()
    with pytest.raises(ValueError, match=r"state of another curriculum: gate was .*confidence=1.0\), here it is"):
        curriculum().load_state_dict(learner.state_dict())


def test_without_errors_nothing_tells_of_them() -> None:
    learner = curriculum()
    learner.observe(step=1, dev_loss=LOSSES)
    assert not {"dev_loss_se", "competence_se"} & {*learner.explain(), *learner.state_dict()}
    assert repr(CompetenceGate(GRAPH)) == f"CompetenceGate(graph={GRAPH!r}, aggregate='avg', threshold=0.9)"


def test_an_error_that_is_not_finite_or_not_measured_any_more_is_unknown() -> None:
    learner = curriculum()
    learner.observe(step=1, dev_loss=LOSSES, dev_loss_se=ERRORS)
    learner.observe(step=2, dev_loss=LOSSES, dev_loss_se={"h1": math.inf, "h2": 0.1})
    assert learner.explain()["dev_loss_se"] == {"h2": 0.1}
    assert learner.explain()["refused"] == {"dev_loss_se": {"h1": 1}}
    learner.observe(step=3, dev_loss={**LOSSES, "h2": math.nan})
    assert learner.explain()["dev_loss_se"] == {"h2": 0.1}  # its last good loss still counts


@pytest.mark.parametrize("confidence", [-1.0, math.nan, math.inf, "2"])
def test_a_confidence_that_is_no_number_of_standard_errors_is_refused(confidence: Any) -> None:
    with pytest.raises(ValueError, match="confidence must be a finite number of at least 0; got"):
        CompetenceGate(GRAPH, confidence=confidence)


def test_the_shares_of_hrls_as_a_table_are_those_of_the_matrix() -> None:
    assert GRAPH.shares_by_lrl() == {
        "l1": {"h1": pytest.approx(0.75), "h2": pytest.approx(0.25)},
        "l2": {"h1": 0.0, "h2": 1.0},
    }
