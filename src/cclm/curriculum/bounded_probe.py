"""Dev losses at a bounded cost: a few sentences of some languages per round, compared with what is remembered of them.

The loss of a sentence differs far more from the loss of other sentences than from its own loss some steps ago. So the
last loss of every dev sentence is remembered, and a sample measures by how much a language has *changed*. The first
round measures everything, as a validation does. Every other one has a budget of tokens, however many languages there
are: languages take turns, by need. A language whose turn has not come moves with the mean of the others, and its
standard error grows.

    probe = BoundedProbe({"aze": tokens_of_each_dev_sentence, ...}, seed=1)
    memory = probe.start()
    choice = probe.choose(memory, step=100, budget=5000, weights=curriculum.weights)
    measured = {lang: bits(lang, indices) for lang, indices in choice.sentences.items()}   # of each sentence
    memory, found = probe.update(memory, choice, measured)
    curriculum.observe(step=100, dev_loss=found.dev_loss, dev_loss_se=found.dev_loss_se)

Everything is a value: `choose` and `update` change nothing. Losses are in bits.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cclm.rng import key, shuffled, shuffled_many

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

VISIT = 8
"""The least number of sentences that are worth measuring of a language: fewer tell little about their own error."""
FLOOR = 1 / 3
"""The part of the budget that all languages share alike; the rest goes to those that decide something."""
NEW = 0.5
"""The weight of the newest round in how much the changes of languages differ."""


@dataclass(frozen=True)
class Memory:
    """What is remembered between rounds, per language."""

    losses: Mapping[str, Numbers]
    """The last loss of each dev sentence in bits, moved by the mean change of its language since then."""
    errors: Mapping[str, float]
    """The standard error of the mean loss, in bits per token; infinite before the first measurement."""
    credits: Mapping[str, float]
    """The number of sentences that a language has saved up for its next visit."""
    spread: float = 0.0
    """How much the change of a language differs from the mean of others within a round: a standard deviation, in bits
    per token."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The languages of which nothing is remembered yet."""
        return tuple(lang for lang, error in self.errors.items() if math.isinf(error))


@dataclass(frozen=True)
class Choice:
    """The sentences to measure in a round."""

    sentences: dict[str, Indices]
    """Indices of dev sentences, ascending, of each language that is visited."""
    credits: dict[str, float]
    """The credits that remain."""


@dataclass(frozen=True)
class Estimate:
    """What a round has found."""

    dev_loss: dict[str, float]
    """Bits per token of every language; NaN where a measured loss was not finite."""
    dev_loss_se: dict[str, float]
    """The standard error of each."""


class BoundedProbe:
    """Chooses dev sentences within a budget, and estimates the dev loss of every language from them.

    `tokens` has the number of target tokens of each dev sentence. `vouching` says which languages decide about the
    admission of which: for each candidate the shares of the languages whose competence counts, such as those of
    `LanguageGraph.shares`.
    """

    def __init__(
        self,
        tokens: Mapping[str, Iterable[int]],
        *,
        seed: int = 1,
        vouching: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self._tokens = {lang: np.array(list(counts), dtype=np.float64) for lang, counts in tokens.items()}
        for lang, counts in self._tokens.items():
            if not len(counts) or not counts.min() > 0:
                raise ValueError(
                    f"dev set of {lang}: every sentence needs at least 1 target token, and it at least one"
                )
        self._seed = seed
        self._languages = sorted(self._tokens)
        self._means = {lang: float(counts.mean()) for lang, counts in self._tokens.items()}
        self._candidates = sorted(vouching or {})
        self._vouching = np.array(  # candidates x languages
            [[shares.get(lang, 0.0) for lang in self._tokens] for _, shares in sorted((vouching or {}).items())]
        )

    def start(self) -> Memory:
        """Nothing is remembered yet. Credits differ, so that languages do not all have their turn at once."""
        count = len(self._languages)
        order = key(self._seed, "probe", "turns")
        credits = {lang: VISIT * shuffled(i, count, order) / count for i, lang in enumerate(self._languages)}
        return Memory(
            losses={lang: np.zeros(len(counts)) for lang, counts in self._tokens.items()},
            errors=dict.fromkeys(self._tokens, math.inf),
            credits={lang: credits[lang] for lang in self._tokens},
        )

    def choose(self, memory: Memory, *, step: int, budget: float, weights: Mapping[str, float]) -> Choice:
        """The sentences of this round, of `budget` target tokens in all; all sentences of a language that is unknown.

        `weights` are the sampling weights of the languages that take part; all others wait.
        """
        needs = self._needs(weights)
        saved = {
            lang: min(memory.credits[lang] + budget * needs[lang] / self._means[lang], float(len(counts)))
            for lang, counts in self._tokens.items()
        }
        sizes = self._sizes(saved, budget)
        credits = {lang: saved[lang] - sizes.get(lang, 0) for lang in self._tokens}
        for lang in memory.unknown:
            sizes[lang], credits[lang] = len(self._tokens[lang]), memory.credits[lang]
        return Choice({lang: self._draw(lang, step, size) for lang, size in sizes.items()}, credits)

    def _needs(self, weights: Mapping[str, float]) -> dict[str, float]:
        """The part of the budget that each language gets: what decides an admission or a weight needs more.

        Neither the threshold nor the competence counts: runs of a sweep, which differ in these, share their probes.
        """
        deciding = _to_one(np.array([weights.get(lang, 0.0) for lang in self._tokens]))
        waiting = [lang not in weights for lang in self._candidates]
        if any(waiting):
            deciding = (deciding + _to_one(self._vouching[waiting].sum(axis=0))) / 2
        needs = FLOOR / len(deciding) + (1 - FLOOR) * deciding
        return dict(zip(self._tokens, needs.tolist(), strict=True))

    def _sizes(self, saved: Mapping[str, float], budget: float) -> dict[str, int]:
        """How many sentences of which languages are measured: the largest credits first, until the budget is spent."""
        least = {lang: min(VISIT, len(counts)) for lang, counts in self._tokens.items()}
        ready = sorted((lang for lang in self._languages if saved[lang] >= least[lang]), key=lambda lang: -saved[lang])
        sizes: dict[str, int] = {}
        left = budget
        for lang in ready:
            size = min(int(saved[lang]), int(left / self._means[lang]))
            if size < least[lang] and sizes:
                break
            sizes[lang] = max(size, least[lang])  # however small the budget is: credits have been saved for it
            left -= sizes[lang] * self._means[lang]
        return sizes

    def _draw(self, lang: str, step: int, size: int) -> Indices:
        positions = np.arange(size, dtype=np.int64)
        return np.sort(shuffled_many(positions, len(self._tokens[lang]), key(self._seed, "probe", step, lang)))

    def update(self, memory: Memory, choice: Choice, measured: Mapping[str, Numbers]) -> tuple[Memory, Estimate]:
        """The memory after a round, and the dev losses; `measured` has the losses of the chosen sentences."""
        visited = [lang for lang in choice.sentences if np.isfinite(measured[lang]).all()]
        changes = {lang: self._change(memory, lang, choice.sentences[lang], measured[lang]) for lang in visited}
        mean, spread = self._pooled({lang: changes[lang] for lang in changes.keys() - set(memory.unknown)}, memory)
        losses, errors = dict(memory.losses), dict(memory.errors)
        for lang, counts in self._tokens.items():
            change, error = changes.get(lang, (mean, memory.errors[lang] + spread))
            losses[lang] = memory.losses[lang] + change * counts
            if lang in changes:
                losses[lang][choice.sentences[lang]] = measured[lang]
            errors[lang] = error
        after = Memory(losses, errors, choice.credits, spread)
        return after, self.estimate(after, unknown=choice.sentences.keys() - changes.keys())

    def _change(self, memory: Memory, lang: str, chosen: Indices, measured: Numbers) -> tuple[float, float]:
        """By how much the loss of a language has changed since it was remembered, and the standard error of that.

        A ratio estimate of a sample without replacement: no error is left once all sentences are measured.
        """
        counts, size = self._tokens[lang][chosen], len(chosen)
        differences = measured - memory.losses[lang][chosen]
        change = float(differences.sum() / counts.sum())
        rest = 1 - size / len(self._tokens[lang])
        if not rest:
            return change, 0.0
        squares = float(((differences - change * counts) ** 2).sum())
        return change, math.sqrt(rest * squares / ((size - 1) * size)) / float(counts.mean())

    def _pooled(self, changes: Mapping[str, tuple[float, float]], memory: Memory) -> tuple[float, float]:
        """The mean change of the languages that were visited, and by how much their changes differ."""
        if not changes:
            return 0.0, memory.spread
        found = np.array([changes[lang] for lang in sorted(changes)])
        mean = float(found[:, 0].mean())
        if len(found) < 2:
            return mean, memory.spread
        total = float(found[:, 0].var(ddof=1))
        # By what a further language deviates: variance between languages, without the samples' noise, and of the mean.
        variance = max(0.0, total - float((found[:, 1] ** 2).mean())) + total / len(found)
        older = memory.spread**2 or variance
        return mean, math.sqrt(NEW * variance + (1 - NEW) * older)

    def refresh(self, memory: Memory, measured: Mapping[str, Numbers]) -> Memory:
        """The memory after all dev sentences were measured, as by a validation."""
        good = {lang: losses for lang, losses in measured.items() if np.isfinite(losses).all()}
        return replace(memory, losses={**memory.losses, **good}, errors={**memory.errors, **dict.fromkeys(good, 0.0)})

    def estimate(self, memory: Memory, unknown: Iterable[str] = ()) -> Estimate:
        """The dev losses as they are remembered; NaN for those that are `unknown`, here or in memory."""
        known = {lang: float(memory.losses[lang].sum() / counts.sum()) for lang, counts in self._tokens.items()}
        return Estimate({**known, **dict.fromkeys((*unknown, *memory.unknown), math.nan)}, dict(memory.errors))


def _to_one(parts: Numbers) -> Numbers:
    """The parts divided by their sum; equal parts if they are all zero."""
    total = math.fsum(parts.tolist())
    return parts / total if total else np.full(len(parts), 1 / len(parts))
