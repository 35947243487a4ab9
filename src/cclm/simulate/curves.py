"""Assumed learning curves: the dev loss of a language falls with the text seen of it and of related languages."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
