"""From the curriculum section of a recipe to the objects it names."""

from typing import Any

import pytest
from worked_example import BENCHMARK, SIZES, graph

from cclm.curriculum import Curriculum
from cclm.errors import ConfigError
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.section import check


def built(content: dict[str, Any], **changes: Any) -> Curriculum:
    section = check(CurriculumSection, content, "x")
    return section.build(graph(), **{"sizes": SIZES, "benchmark": BENCHMARK} | changes)


def parts(content: dict[str, Any]) -> tuple[str, str]:
    identity = built(content).state_dict()["curriculum"]
    return identity["gate"], identity["sampler"]


def test_the_default_is_the_papers_method() -> None:
    gate, sampler = parts({})
    assert "CompetenceGate" in gate
    assert "aggregate='avg', threshold=0.9" in gate
    assert sampler == "InverseCompetence(exponent=1.0, floor=0.0)"


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ({"name": "all"}, "AllAtOnce()"),
        ({"name": "step", "steps": {"aze": 500}}, "StepGate(steps={'aze': 500})"),
        ({"threshold": 0.5, "aggregate": "max"}, "aggregate='max', threshold=0.5"),
    ],
)
def test_every_gate_can_be_named(gate: dict[str, Any], expected: str) -> None:
    assert expected in parts({"gate": gate})[0]


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        ({"name": "temperature", "tau": 5}, "Temperature(tau=5.0)"),
        ({"name": "temperature", "tau": [[0, 5], [100, 1]]}, "Temperature(tau=[(0, 5.0), (100, 1.0)])"),
        ({"name": "fixed", "weights": dict.fromkeys(SIZES, 1)}, "FixedWeights(shares={"),
        ({"name": "unimax", "budget": 40, "max_repeats": 100}, "UniMax(budget=40.0, max_repeats=100.0)"),
        ({"exponent": 2}, "InverseCompetence(exponent=2.0, floor=0.0)"),
        ({"name": "size-and-competence", "tau": 3}, "SizeAndCompetence(tau=3.0, strength=1.0)"),
        ({"name": "chi-square", "loss": "dev"}, "ChiSquare(rho=0.05, loss='dev', floor=0.2, ema=0.1, epoch=1)"),
        ({"name": "multidds"}, "RewardActor(reward='multidds', learning_rate=0.0001, inner_steps=200, every=10)"),
        ({"name": "multidds-s", "every": 1}, "RewardActor(reward='multidds-s'"),
    ],
)
def test_every_sampler_can_be_named(sampler: dict[str, Any], expected: str) -> None:
    assert expected in parts({"sampler": sampler})[1]


def test_what_the_library_refuses_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"curriculum: threshold must be a number of at least 0; got -1\.0"):
        built({"gate": {"threshold": -1}})
    with pytest.raises(ConfigError, match=r"curriculum: benchmark losses \(L\*\) for CompetenceGate: nothing for"):
        built({}, benchmark=None)
    with pytest.raises(ConfigError, match="curriculum: the competence gate needs a language graph"):
        CurriculumSection().build(None, sizes=SIZES, benchmark=None)
