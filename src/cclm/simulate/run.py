"""Assumed learning curves: the dev loss of a language falls with the text seen of it and of related languages."""

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


class LearningCurves:
    """Dev losses of all languages, falling as a power law of experience towards a plateau each.

    A step spent on a language counts as one step of experience for it, and as a share of a step for every other:
    for an LRL its similarity to that HRL, otherwise (and at least) `learning.transfer`, for what all languages share.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._languages = sorted(scenario.sizes)
        self._noise = scenario.learning.sentence_sd / math.sqrt(scenario.curriculum.dev_sample)
        self._transfer = self._transfer_matrix()
        self._plateaus = np.array([scenario.plateaus[lang] for lang in self._languages])
        self._experience = np.zeros(len(self._languages))

    def train(self, weights: dict[str, float], steps: int) -> None:
        """Lets so many steps pass, each language drawn as often as its weight says on average."""
        drawn = np.array([weights.get(lang, 0.0) for lang in self._languages])
        self._experience += steps * (self._transfer @ drawn)

    def losses(self) -> dict[str, float]:
        """The true dev losses of now."""
        learning = self._scenario.learning
        still_to_learn = (1 + self._experience / learning.pace) ** -learning.exponent
        losses = self._plateaus + (learning.start - self._plateaus) * still_to_learn
        return dict(zip(self._languages, losses.tolist(), strict=True))

    def probe(self, step: int) -> dict[str, float]:
        """The dev losses as a sample of `dev_sample` sentences would show them: with noise."""
        seed = self._scenario.seed
        normal = NormalDist()
        return {
            lang: max(0.0, loss + self._noise * normal.inv_cdf(uniform(key(seed, "probe", step, lang), 0) or 0.5))
            for lang, loss in self.losses().items()
        }

    def _transfer_matrix(self) -> NDArray[np.float64]:
        graph = self._scenario.graph
        place = {lang: i for i, lang in enumerate(self._languages)}
        matrix = np.full((len(place), len(place)), self._scenario.learning.transfer)
        np.fill_diagonal(matrix, 1.0)
        for lrl, row in graph.similarity.items():
            for hrl, similarity in row.items():
                matrix[place[lrl], place[hrl]] = max(similarity, self._scenario.learning.transfer)
        return matrix


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
