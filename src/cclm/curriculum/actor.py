"""The reward-driven sampler of MultiDDS, MultiDDS-S and MultiUAT: logits, trained by Adam towards P ~ reward."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.languages import is_number
from cclm.curriculum.situation import Situation

Vector = NDArray[np.float64]

SIGNALS = {
    "multidds": "summed_gradient_cosine",  # one cosine per language, with the sum of the dev gradients
    "multidds-s": "gradient_cosine",  # train language x dev language; the reward is the mean over dev languages
    "multiuat": "uncertainty",
}
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ALL = slice(None)
FIT_STEPS = 20_000
"""Maximum number of steps of the fit to the sizes; the paper's eight languages need 7,865."""


@dataclass(frozen=True)
class RewardActor:
    """Softmax over one logit per language, trained on a reward; the defaults are those of the released MultiDDS.

    The logits are first fitted to the sizes, so that sampling starts proportional. Every `every` rounds it takes
    `inner_steps` steps of Adam on -sum_i R_i log P_i with the reward R frozen, the moments carried over. Its
    fixed point is P = R / sum R.
    """

    reward: Literal["multidds", "multidds-s", "multiuat"] = "multidds-s"
    learning_rate: float = 1e-4
    inner_steps: int = 200
    every: int = 10

    def __post_init__(self) -> None:
        if self.reward not in SIGNALS:
            raise ValueError(f"RewardActor: reward must be one of {', '.join(map(repr, SIGNALS))}; got {self.reward!r}")
        if not is_number(self.learning_rate) or not math.isfinite(self.learning_rate) or self.learning_rate <= 0:
            raise ValueError(f"RewardActor: learning_rate must be a number above 0; got {self.learning_rate!r}")
        for name, value in (("inner_steps", self.inner_steps), ("every", self.every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"RewardActor: {name} must be a whole number of at least 1; got {value!r}")

    @property
    def needs(self) -> frozenset[str]:
        """The signal that the reward is made of."""
        return frozenset({SIGNALS[self.reward]})

    def weights(self, now: Situation) -> dict[str, float]:
        """The softmax of the logits, which are trained whenever there is a reward."""
        if not now.memory:
            now.memory.update(_fit_to(tuple(now.sizes[lang] for lang in now.languages)).state())
        logits = _Logits(now.memory)
        admitted = sorted(now.admitted)
        here = np.isin(now.languages, admitted)
        if SIGNALS[self.reward] in now.signals:
            rewards = self._rewards(now)
            for _ in range(self.inner_steps if rewards.any() else 0):
                shares = _softmax(logits.values[here])
                # Gradient of -sum_i R_i log softmax(x)_i. A language not admitted keeps its logit and moments.
                logits.descend(shares * rewards.sum() - rewards, self.learning_rate, here)
            now.memory.update(logits.state())
        shares = _softmax(logits.values[here])
        return dict(zip(admitted, shares.tolist(), strict=True))

    def _rewards(self, now: Situation) -> Vector:
        """The reward R of each admitted language: if not measured now, its last one, or else the mean of the others."""
        known = now.memory.setdefault("rewards", {})
        for lang, signal in now.signals[SIGNALS[self.reward]].items():
            cosines = list(signal.values()) if isinstance(signal, Mapping) else [signal]
            if cosines:
                known[lang] = math.fsum(cosines) / len(cosines)
        admitted = sorted(now.admitted)
        usable = [known[lang] for lang in admitted if lang in known]
        mean = math.fsum(usable) / len(usable) if usable else 0.0
        return np.array([known.get(lang, mean) for lang in admitted])


class _Logits:
    """A vector under Adam, as torch computes it (defaults: betas 0.9 and 0.999, epsilon 1e-8)."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.values: Vector = np.array(state["logits"], dtype=np.float64)
        self.first: Vector = np.array(state["first_moment"], dtype=np.float64)
        self.second: Vector = np.array(state["second_moment"], dtype=np.float64)
        self.steps = int(state["adam_steps"])

    @classmethod
    def zeros(cls, count: int) -> "_Logits":
        zeros = [0.0] * count
        return cls({"logits": zeros, "first_moment": zeros, "second_moment": zeros, "adam_steps": 0})

    def descend(self, gradient: Vector, learning_rate: float, where: NDArray[np.bool_] | slice = ALL) -> None:
        self.steps += 1
        first = self.first[where] = BETA1 * self.first[where] + (1 - BETA1) * gradient
        second = self.second[where] = BETA2 * self.second[where] + (1 - BETA2) * gradient * gradient
        step = learning_rate / (1 - BETA1**self.steps)
        scale = np.sqrt(second) / math.sqrt(1 - BETA2**self.steps) + EPSILON
        self.values[where] -= step * first / scale

    def state(self) -> dict[str, Any]:
        return {
            "logits": self.values.tolist(),
            "first_moment": self.first.tolist(),
            "second_moment": self.second.tolist(),
            "adam_steps": self.steps,
        }


@lru_cache(maxsize=64)  # a study builds many curricula over the same data, and a fit takes thousands of steps
def _fit_to(sizes: tuple[int, ...]) -> _Logits:
    """Logits whose softmax is proportional to the sizes: from zero, by Adam on the squared error, as released."""
    target = np.array(sizes) / sum(sizes)
    logits = _Logits.zeros(len(sizes))
    # Released: a mean squared error below 1e-6, with 8 languages. Shares shrink as 1/n, their squares as 1/n^2.
    tolerance = 1e-6 * (8 / len(sizes)) ** 2
    for _ in range(FIT_STEPS):
        shares = _softmax(logits.values)
        error = shares - target
        if error @ error < tolerance * len(error):
            return logits
        slope = 2 * error / len(error)
        logits.descend(shares * (slope - slope @ shares), 1e-3)
    logits.values = np.log(target)  # hundreds of languages: descent would take minutes, and its limit is known
    return logits


def _softmax(logits: Vector) -> Vector:
    powers = np.exp(logits - logits.max())
    shares: Vector = powers / powers.sum()
    return shares
