"""The simulation: the loop of Algorithm 1 with learning curves in the place of a model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NotRequired, TypedDict, cast

from cclm.curriculum import Curriculum
from cclm.errors import ConfigError
from cclm.simulate.curves import LearningCurves
from cclm.simulate.scenario import Scenario

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The grid that the paper searches."""


class Admission(TypedDict):
    """When and why a language was admitted."""

    step: int
    reason: str
    hrls_competence: NotRequired[float]
    """Present if the competence gate admitted the language by its threshold."""


class Round(TypedDict):
    """One round as `Curriculum.explain` describes it; it has more keys than these."""

    step: int
    round: int
    admitted: list[str]
    waiting: list[str]
    weights: dict[str, float]
    competence: dict[str, float]
    hrls_competence: dict[str, float]
    admissions: dict[str, Admission]


@dataclass(frozen=True)
class Outcome:
    """What a simulated run did: one record per round, the first before training, and the steps per language."""

    rounds: list[Round]
    steps_on: dict[str, float]
    """Steps' worth of draws that each language got."""

    @property
    def admissions(self) -> dict[str, Admission]:
        """When and why each language was admitted."""
        return self.rounds[-1]["admissions"]


def simulate(scenario: Scenario, progress: Callable[[int], object] = lambda step: None) -> Outcome:
    """Runs the curriculum over the scenario's learning curves; `progress` is called with every step reached."""
    _check_needs(scenario)
    curriculum, curves = scenario.build(), LearningCurves(scenario)
    rounds = [_round(curriculum)]
    steps_on = dict.fromkeys(scenario.sizes, 0.0)
    every = scenario.curriculum.every
    for step in range(every, scenario.max_steps + 1, every):
        curves.train(curriculum.weights, every)
        for lang, weight in curriculum.weights.items():
            steps_on[lang] += every * weight
        _observe(curriculum, curves, step)
        if scenario.second_phase is not None and step >= scenario.second_phase:
            curriculum.admit_remaining()
        rounds.append(_round(curriculum))
        progress(step)
    return Outcome(rounds, steps_on)


def _round(curriculum: Curriculum) -> Round:
    return cast(Round, curriculum.explain())


def _observe(curriculum: Curriculum, curves: LearningCurves, step: int) -> None:
    measured = {"train_loss": curves.losses()} if "train_loss" in curriculum.needs else {}
    curriculum.observe(step=step, dev_loss=curves.probe(step), **measured)


def _check_needs(scenario: Scenario) -> None:
    """Refuses methods that need gradients of a model, which no learning curve can replace."""
    name = scenario.curriculum.sampler.name
    if name in ("multidds", "multidds-s"):
        raise ConfigError(f"{name} is driven by gradients of a model; there is none in a simulation")


def compare_thresholds(
    scenario: Scenario, thresholds: Iterable[float] = THRESHOLDS, progress: Callable[[int], object] = lambda step: None
) -> dict[float, Outcome]:
    """The same scenario at each threshold; empty where the gate has none."""
    if scenario.curriculum.gate.name != "competence":
        return {}
    outcomes = {}
    for threshold in thresholds:
        gate = scenario.curriculum.gate.model_copy(update={"threshold": threshold})
        curriculum = scenario.curriculum.model_copy(update={"gate": gate})
        outcomes[threshold] = simulate(scenario.model_copy(update={"curriculum": curriculum}), progress)
    return outcomes
