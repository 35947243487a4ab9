"""Every setting of a gate or sampler that cannot be is refused, with the value and what would do."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from worked_example import SIZES, curriculum, graph

from cclm import (
    AllAtOnce,
    ChiSquare,
    CompetenceGate,
    FixedWeights,
    InverseCompetence,
    RewardActor,
    SizeAndCompetence,
    StepGate,
    Temperature,
    UniMax,
)

CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: CompetenceGate(graph(), aggregate="mean"), "aggregate must be one of 'max', 'avg'; got 'mean'"),
    (lambda: CompetenceGate(graph(), threshold=math.nan), "threshold must be a number of at least 0; got nan"),
    (lambda: CompetenceGate(graph(), threshold="high"), "threshold must be a number of at least 0; got 'high'"),
    (lambda: CompetenceGate(graph(), threshold=True), "threshold must be a number of at least 0; got True"),
    (lambda: CompetenceGate(graph(), threshold=-0.1), "threshold must be a number of at least 0; got -0.1"),
    (lambda: StepGate({"aze": -5}), "StepGate: step of aze is -5"),
    (lambda: StepGate({"aze": 1.5}), "StepGate: step of aze is 1.5"),
    (lambda: Temperature(0), "Temperature: tau must be above 0"),
    (lambda: Temperature(math.nan), "Temperature: tau must be above 0"),
    (lambda: Temperature("hot"), "Temperature: tau must be above 0"),
    (lambda: Temperature([(0, 5), (100, -1)]), "Temperature: tau must be above 0"),
    (lambda: Temperature([]), "Temperature: a schedule is"),
    (lambda: Temperature([(100, 5)]), "Temperature: a schedule is"),
    (lambda: Temperature([(0, 5), (9, 1), (5, 2)]), "Temperature: a schedule is"),
    (lambda: Temperature([5, 1]), "Temperature: a schedule is"),
    (lambda: FixedWeights({"tur": 0}), "FixedWeights: tur has 0"),
    (lambda: FixedWeights({"tur": math.inf}), "FixedWeights: tur has inf"),
    (lambda: FixedWeights({"tur rus": 1}), "FixedWeights: 'tur rus' is no language name"),
    (lambda: curriculum(sampler=FixedWeights({"tur": 1})), "FixedWeights: nothing for aze, bel, ces"),
    (lambda: curriculum(sampler=FixedWeights(SIZES | {"xyz": 1})), "FixedWeights: unknown language xyz"),
    (lambda: UniMax(0, 5), "UniMax: budget must be a number above 0; got 0"),
    (lambda: UniMax(5, math.inf), "UniMax: max_repeats must be a number above 0; got inf"),
    (lambda: InverseCompetence(exponent=math.inf), "exponent must be a finite number; got inf"),
    (lambda: InverseCompetence(floor=-0.1), "floor must lie between 0 and 1; got -0.1"),
    (lambda: curriculum(sampler=InverseCompetence(floor=0.2)), "8 languages cannot all get 0.2"),
    (lambda: SizeAndCompetence(tau=0), "SizeAndCompetence: tau must be above 0"),
    (lambda: SizeAndCompetence(tau=[(0, 5)]), "SizeAndCompetence: tau must be above 0"),
    (lambda: SizeAndCompetence(strength=-1), "SizeAndCompetence: strength must be a number of at least 0; got -1"),
    (
        lambda: SizeAndCompetence(strength=math.inf),
        "SizeAndCompetence: strength must be a number of at least 0; got inf",
    ),
    (
        lambda: curriculum(gate=AllAtOnce(), sampler=SizeAndCompetence(), benchmark=None),
        r"\(L\*\) for SizeAndCompetence: nothing for",
    ),
    (lambda: ChiSquare(loss="test"), "loss must be one of 'train', 'dev'; got 'test'"),
    (lambda: ChiSquare(rho=0), "rho must be a number above 0; got 0"),
    (lambda: ChiSquare(floor=1), "floor must lie between 0 and 1; got 1"),
    (lambda: ChiSquare(ema=0), "ema must be above 0 and at most 1; got 0"),
    (lambda: ChiSquare(epoch=0), "epoch must be a whole number of rounds; got 0"),
    (lambda: curriculum(gate=AllAtOnce(), sampler=ChiSquare(), benchmark=None), r"\(L\*\) for ChiSquare: nothing for"),
    (lambda: RewardActor(reward="fame"), "reward must be one of 'multidds', 'multidds-s', 'multiuat'; got 'fame'"),
    (lambda: RewardActor(learning_rate=0), "learning_rate must be a number above 0; got 0"),
    (lambda: RewardActor(inner_steps=0), "inner_steps must be a whole number of at least 1; got 0"),
    (lambda: RewardActor(every=1.5), "every must be a whole number of at least 1; got 1.5"),
]


@pytest.mark.parametrize(("make", "message"), CASES)
def test_what_cannot_be_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
