"""The simulation: the loop of Algorithm 1 with learning curves in the place of a model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cclm.curriculum import Curriculum
from cclm.errors import ConfigError
from cclm.simulate.curves import LearningCurves
from cclm.simulate.scenario import Scenario

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The grid that the paper searches."""


@dataclass(frozen=True)
class Outcome:
    """What a simulated run did: one record a round, the first before training, and what each language got."""

    rounds: list[dict[str, Any]]
    steps_on: dict[str, float]
    """Steps' worth of draws that each language got."""

    @property
    def admissions(self) -> dict[str, dict[str, Any]]:
        """When and why each language was admitted."""
        admissions: dict[str, dict[str, Any]] = self.rounds[-1]["admissions"]
        return admissions


def simulate(scenario: Scenario, progress: Callable[[int], object] = lambda step: None) -> Outcome:
    """Runs the curriculum over the scenario's learning curves; `progress` is told every step reached."""
    _check_needs(scenario)
    curriculum, curves = scenario.build(), LearningCurves(scenario)
    rounds = [curriculum.explain()]
    steps_on = dict.fromkeys(scenario.sizes, 0.0)
    every = scenario.curriculum.every
    for step in range(every, scenario.max_steps + 1, every):
        curves.train(curriculum.weights, every)
        for lang, weight in curriculum.weights.items():
            steps_on[lang] += every * weight
        _observe(curriculum, curves, step)
        if scenario.second_phase is not None and step >= scenario.second_phase:
            curriculum.admit_remaining()
        rounds.append(curriculum.explain())
        progress(step)
    return Outcome(rounds, steps_on)


def _observe(curriculum: Curriculum, curves: LearningCurves, step: int) -> None:
    measured = {"train_loss": curves.losses()} if "train_loss" in curriculum.needs else {}
    curriculum.observe(step=step, dev_loss=curves.probe(step), **measured)


def _check_needs(scenario: Scenario) -> None:
    """Refuses methods whose signal no learning curve can stand in for: gradients need a model."""
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
