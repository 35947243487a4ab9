"""How often each admitted language is drawn: by size, by fixed share, by competence, by both, by excess loss."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.languages import check_complete, check_known, check_names, is_number
from cclm.curriculum.situation import Situation


@dataclass(frozen=True)
class Temperature:
    """By size, flattened: tau = 1 is proportional, `math.inf` uniform; the languages' shares to the power 1/tau.

    `Temperature([(0, 5), (5000, 1)])` cools down: tau is 5 from the start and 1 from step 5,000.
    """

    tau: float | Sequence[tuple[int, float]] = 1.0

    def __post_init__(self) -> None:
        try:
            steps = [step for step, _ in self.schedule]
        except TypeError:
            steps = []
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise ValueError(f"Temperature: a schedule is (step, tau) pairs, rising from step 0; got {self.tau!r}")
        for _, tau in self.schedule:
            if not is_number(tau) or not tau > 0:
                raise ValueError(f"Temperature: tau must be above 0 (math.inf is uniform); got {tau!r}")

    @property
    def schedule(self) -> list[tuple[int, float]]:
        """From which step on which tau holds."""
        if isinstance(self.tau, Sequence) and not isinstance(self.tau, str):
            return [(step, tau) for step, tau in self.tau]
        return [(0, self.tau)]

    def weights(self, now: Situation) -> dict[str, float]:
        """Sizes to the power 1/tau."""
        tau = next(tau for step, tau in reversed(self.schedule) if step <= now.step)
        largest = max(now.sizes[lang] for lang in now.admitted)
        return {lang: (now.sizes[lang] / largest) ** (1 / tau) for lang in now.admitted}  # Eq. 3, 4, 5


@dataclass(frozen=True)
class FixedWeights:
    """Shares given by hand, over those admitted: `FixedWeights({"tur": 2, "aze": 1})`."""

    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        check_names(self.shares, "FixedWeights")
        for lang, share in self.shares.items():
            if not is_number(share) or not math.isfinite(share) or share <= 0:
                raise ValueError(f"FixedWeights: {lang} has {share!r}; a weight is a number above 0")

    def weights(self, now: Situation) -> dict[str, float]:
        """The given shares."""
        check_known(self.shares, now.languages, "FixedWeights")
        check_complete(self.shares, now.languages, "FixedWeights")
        return {lang: float(self.shares[lang]) for lang in now.admitted}


@dataclass(frozen=True)
class UniMax:
    """As uniform as a cap on repetition allows (Chung et al. 2023): no language is seen more than `max_repeats` times.

    `budget` is the length of training, in passes over the whole data.
    """

    budget: float
    max_repeats: float

    def __post_init__(self) -> None:
        for name, value in (("budget", self.budget), ("max_repeats", self.max_repeats)):
            if not is_number(value) or not math.isfinite(value) or value <= 0:
                raise ValueError(f"UniMax: {name} must be a number above 0; got {value!r}")

    def weights(self, now: Situation) -> dict[str, float]:
        """What each language gets of the budget, the smallest served first."""
        left = self.budget * sum(now.sizes.values())
        allotted: dict[str, float] = {}
        for served, lang in enumerate(sorted(now.languages, key=lambda lang: (now.sizes[lang], lang))):
            allotted[lang] = min(left / (len(now.languages) - served), self.max_repeats * now.sizes[lang])
            left -= allotted[lang]
        return {lang: allotted[lang] for lang in now.admitted}


@dataclass(frozen=True)
class InverseCompetence:
    """The paper's sampler: the less competent the model is in a language, the more of it. Uniform until measured.

    `exponent` sharpens (1 is the paper's, 0 uniform); `floor` is the least share that an admitted language gets.
    """

    exponent: float = 1.0
    floor: float = 0.0

    needs: ClassVar[frozenset[str]] = frozenset({"benchmark"})

    def __post_init__(self) -> None:
        if not is_number(self.exponent) or not math.isfinite(self.exponent):
            raise ValueError(f"InverseCompetence: exponent must be a finite number; got {self.exponent!r}")
        if not is_number(self.floor) or not 0 <= self.floor <= 1:
            raise ValueError(f"InverseCompetence: floor must lie between 0 and 1; got {self.floor!r}")

    def weights(self, now: Situation) -> dict[str, float]:
        """1 / c to the power of the exponent; a language not measured yet gets what the others get on average."""
        if self.floor * len(now.languages) > 1:
            raise ValueError(f"InverseCompetence: {len(now.languages)} languages cannot all get {self.floor}")
        excess = {lang: now.dev_loss[lang] - now.benchmark[lang] for lang in now.admitted if lang in now.dev_loss}
        bits = {lang: self.exponent * value for lang, value in excess.items()}
        top = max(bits.values(), default=0.0)
        # Eq. 15: 1 / c = 2^(L - L*). The largest is made 1, so that no difference in loss can overflow.
        weights = {lang: math.exp2(value - top) for lang, value in bits.items()}
        average = math.fsum(weights.values()) / len(weights) if weights else 1.0
        weights |= {lang: average for lang in now.admitted if lang not in weights}
        total = math.fsum(weights.values())
        rest = 1 - len(weights) * self.floor
        return {lang: self.floor + rest * weights[lang] / total for lang in now.admitted}


@dataclass(frozen=True)
class SizeAndCompetence:
    """By size, flattened as in `Temperature(tau)`, and more of the languages in which the model is not competent yet.

    The weights are size^(1/tau) x min(1, c)^-strength: a language that has reached its reference loss L* is drawn by
    its size alone. `strength` 0 is `Temperature(tau)`. Made for L* of a multilingual training, with which 1/c alone is
    nearly uniform.
    """

    tau: float = 2.0
    strength: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"benchmark"})

    def __post_init__(self) -> None:
        if not is_number(self.tau) or not self.tau > 0:
            raise ValueError(f"SizeAndCompetence: tau must be above 0 (math.inf is uniform); got {self.tau!r}")
        if not is_number(self.strength) or not 0 <= self.strength < math.inf:
            raise ValueError(f"SizeAndCompetence: strength must be a number of at least 0; got {self.strength!r}")

    def weights(self, now: Situation) -> dict[str, float]:
        """Sizes to the power 1/tau times the factor of competence; a language not measured yet gets the mean factor."""
        # min(1, c)^-b = 2^(b max(0, L - L*)). The largest is made 1, so that no difference in loss can overflow.
        measured = [lang for lang in now.admitted if lang in now.dev_loss]
        bits = {lang: self.strength * max(0.0, now.dev_loss[lang] - now.benchmark[lang]) for lang in measured}
        top = max(bits.values(), default=0.0)
        factors = {lang: math.exp2(value - top) for lang, value in bits.items()}
        mean = math.fsum(factors.values()) / len(factors) if factors else 1.0
        sizes = Temperature(self.tau).weights(now)
        return {lang: size * factors.get(lang, mean) for lang, size in sizes.items()}


@dataclass(frozen=True)
class ChiSquare:
    """Distributionally robust: more of what the model does worst relative to the benchmark (Zhou et al. 2021, IBR).

    The worst-case mixture within chi-square distance `rho` of the proportional one. It listens to the training
    loss (`loss="train"`: an average over the rounds of an epoch, `ema` the weight of the newest) or to the dev
    loss; the weights change every `epoch` rounds and are proportional before that. No language falls below
    `floor` times its proportional share.
    """

    rho: float = 0.05
    loss: Literal["train", "dev"] = "train"
    floor: float = 0.2
    ema: float = 0.1
    epoch: int = 1

    def __post_init__(self) -> None:
        if self.loss not in ("train", "dev"):
            raise ValueError(f"ChiSquare: loss must be one of 'train', 'dev'; got {self.loss!r}")
        if not is_number(self.rho) or not math.isfinite(self.rho) or self.rho <= 0:
            raise ValueError(f"ChiSquare: rho must be a number above 0; got {self.rho!r}")
        if not is_number(self.floor) or not 0 <= self.floor < 1:
            raise ValueError(f"ChiSquare: floor must lie between 0 and 1; got {self.floor!r}")
        if not is_number(self.ema) or not 0 < self.ema <= 1:
            raise ValueError(f"ChiSquare: ema must be above 0 and at most 1; got {self.ema!r}")
        if isinstance(self.epoch, bool) or not isinstance(self.epoch, int) or self.epoch < 1:
            raise ValueError(f"ChiSquare: epoch must be a whole number of rounds; got {self.epoch!r}")

    @property
    def needs(self) -> frozenset[str]:
        """The benchmark as baseline, and the loss that it listens to."""
        return frozenset({"benchmark", "train_loss"} if self.loss == "train" else {"benchmark"})

    def weights(self, now: Situation) -> dict[str, float]:
        """Proportional shares times the ratio that the last epoch gave; 1 for a language not measured in it."""
        losses = self._losses(now)
        if losses and now.signals and now.round % self.epoch == 0:
            now.memory["ratio"] = self._ratios(losses, now)
            now.memory["loss"] = {}  # each epoch starts its average anew
        ratio = now.memory.get("ratio", {})
        return {lang: now.sizes[lang] * ratio.get(lang, 1.0) for lang in now.admitted}

    def _losses(self, now: Situation) -> dict[str, float]:
        if self.loss == "dev":
            return {lang: now.dev_loss[lang] for lang in sorted(now.admitted) if lang in now.dev_loss}
        averages: dict[str, float] = now.memory.setdefault("loss", {})
        for lang, loss in now.signals.get("train_loss", {}).items():
            averages[lang] = averages.get(lang, loss) * (1 - self.ema) + loss * self.ema
        return {lang: averages[lang] for lang in sorted(now.admitted) if lang in averages}

    def _ratios(self, losses: dict[str, float], now: Situation) -> dict[str, float]:
        excess = np.array([loss - now.benchmark[lang] for lang, loss in losses.items()])
        if np.all(excess < 0):  # better than the benchmark everywhere: compare the losses themselves
            excess = np.array(list(losses.values()))
        sizes = np.array([now.sizes[lang] for lang in losses], dtype=np.float64)
        prior = sizes / sizes.sum()
        shares = np.maximum(worst_case(excess, prior, rho=self.rho, floor=self.floor), prior.min())
        return dict(zip(losses, (shares / shares.sum() / prior).tolist(), strict=True))


def worst_case(
    excess: NDArray[np.float64], prior: NDArray[np.float64], *, rho: float, floor: float
) -> NDArray[np.float64]:
    """The mixture q ~ prior x (excess - eta)+ whose chi-square distance from the prior is rho, eta by bisection."""

    def mixture(eta: float) -> NDArray[np.float64]:
        raw = prior * np.maximum(excess - eta, 0)
        floored = np.maximum(raw / raw.sum(), floor * prior)
        q: NDArray[np.float64] = floored / floored.sum()
        return q

    def distance(q: NDArray[np.float64]) -> float:
        return float((prior * (q / prior - 1) ** 2).sum() / 2)

    highest, spread = float(excess.max()), float(np.ptp(excess))
    if spread == 0:
        return prior
    # At `low` the mixture is all but the prior, at `high` it is the single worst language.
    low, high = highest - 1e6 * spread, highest
    for _ in range(100):
        eta = (low + high) / 2
        if eta == highest or distance(mixture(eta)) > rho:
            high = eta
        else:
            low = eta
    return mixture(low)
