"""Runs the curriculum on assumed learning curves, which fall with training on a language and on related ones."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum import Curriculum
from cclm.errors import ConfigError
from cclm.rng import key, uniform
from cclm.simulate.scenario import Scenario

DEV_SAMPLE = 256
"""The sentences of a probe, where a scenario does not set `dev_sample`. The bounded probe is not simulated."""


class LearningCurves:
    """Dev losses of all languages, which fall towards a plateau as a power law of experience.

    A step on a language adds one step of experience to it, and part of a step to every other language: for an LRL its
    similarity to the trained HRL, but at least `learning.transfer`, which all languages share.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._languages = sorted(scenario.sizes)
        self._noise = scenario.learning.sentence_sd / math.sqrt(scenario.curriculum.dev_sample or DEV_SAMPLE)
        self._transfer = self._transfer_matrix()
        self._plateaus = np.array([scenario.plateaus[lang] for lang in self._languages])
        self._experience = np.zeros(len(self._languages))

    def train(self, weights: dict[str, float], steps: int) -> None:
        """Trains for `steps` steps, with each language drawn in proportion to its weight."""
        drawn = np.array([weights.get(lang, 0.0) for lang in self._languages])
        self._experience += steps * (self._transfer @ drawn)

    def losses(self) -> dict[str, float]:
        """The current dev losses, without measurement noise."""
        learning = self._scenario.learning
        remaining = (1 + self._experience / learning.pace) ** -learning.exponent
        losses = self._plateaus + (learning.start - self._plateaus) * remaining
        return dict(zip(self._languages, losses.tolist(), strict=True))

    def probe(self, step: int) -> dict[str, float]:
        """The current dev losses with the noise of a sample of `dev_sample` sentences."""
        seed = self._scenario.seed
        normal = NormalDist()
        return {
            lang: max(0.0, loss + self._noise * normal.inv_cdf(uniform(key(seed, "probe", step, lang), 0) or 0.5))
            for lang, loss in self.losses().items()
        }

    def _transfer_matrix(self) -> NDArray[np.float64]:
        graph = self._scenario.graph
        index = {lang: i for i, lang in enumerate(self._languages)}
        matrix = np.full((len(index), len(index)), self._scenario.learning.transfer)
        np.fill_diagonal(matrix, 1.0)
        for lrl, row in graph.similarity.items():
            for hrl, similarity in row.items():
                matrix[index[lrl], index[hrl]] = max(similarity, self._scenario.learning.transfer)
        return matrix


THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The thresholds that the paper compares."""


class Admission(TypedDict):
    """When and why a language was admitted."""

    step: int
    reason: str
    hrls_competence: NotRequired[float]
    """Present if the competence gate admitted the language by its threshold."""


class Round(TypedDict):
    """The result of `Curriculum.explain` after one round; only the keys used here are typed."""

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
    """The result of a simulation: one record per round, the first one before training, and steps per language."""

    rounds: list[Round]
    steps_on: dict[str, float]
    """The number of steps spent on each language, as expected from the weights."""

    @property
    def admissions(self) -> dict[str, Admission]:
        """The step and the reason of each language's admission."""
        return self.rounds[-1]["admissions"]


def simulate(scenario: Scenario, progress: Callable[[int], object] = lambda step: None) -> Outcome:
    """Runs the curriculum over the scenario's learning curves; `progress` is called with the step after each round."""
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
    """Raises ConfigError for methods that need gradients: a simulation has no model."""
    name = scenario.curriculum.sampler.name
    if name in ("multidds", "multidds-s"):
        raise ConfigError(f"{name} needs gradients of a model, and a simulation has no model; choose another sampler")


def compare_thresholds(
    scenario: Scenario, thresholds: Iterable[float] = THRESHOLDS, progress: Callable[[int], object] = lambda step: None
) -> dict[float, Outcome]:
    """Simulates the scenario at each threshold; empty if its gate has no threshold."""
    if scenario.curriculum.gate.name != "competence":
        return {}
    outcomes = {}
    for threshold in thresholds:
        gate = scenario.curriculum.gate.model_copy(update={"threshold": threshold})
        curriculum = scenario.curriculum.model_copy(update={"gate": gate})
        outcomes[threshold] = simulate(scenario.model_copy(update={"curriculum": curriculum}), progress)
    return outcomes
