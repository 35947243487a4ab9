"""The bounded probe during training: decides the budget of a round, and computes the losses of the chosen sentences.

`cclm.curriculum.bounded_probe` chooses the sentences and estimates the dev losses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.bounded_probe import BoundedProbe, Memory
from cclm.data.batches import Batches
from cclm.model.interface import TranslationModel
from cclm.signals import fault
from cclm.training.dev_sentences import Losses, MixedBatch, mixed_batches, sentence_losses
from cclm.training.validation import DevLoss, MeasurementSettings

FORWARD = 3
"""Evaluating this many tokens costs as much as training on one: a backward pass costs twice a forward pass."""
PREFIX = "losses/"


@dataclass(frozen=True)
class Found:
    """The dev losses of a round."""

    dev_loss: Mapping[str, float]
    dev_loss_se: Mapping[str, float] | None = None
    """Their standard errors. The paper's probe does not compute them."""
    memory: Memory | None = None
    """What the bounded probe remembers after this round."""


@dataclass(frozen=True)
class FoundAll:
    """The losses on the whole dev sets, and what the probe remembers of them."""

    dev_losses: dict[str, DevLoss]
    memory: Memory


class DevProbe:
    """Measures a few dev sentences of some languages per round, and estimates the dev loss of all.

    `share` is the cost of rounds, as a fraction of the cost of training; `budget` is the number of tokens per batch.
    `measure` does not change `memory`: the caller assigns the memory that it returns, once the round is over.
    """

    def __init__(
        self, dev: dict[str, Batches], how: MeasurementSettings, bounded: BoundedProbe, *, share: float, budget: int
    ) -> None:
        self._dev, self._how, self._bounded = dev, how, bounded
        self._share, self._budget = share, budget
        self.memory = bounded.start()

    def measure(self, model: TranslationModel, step: int, trained: int, weights: Mapping[str, float]) -> Found:
        """Measures a round. Its budget follows from `share` and `trained`, the target tokens since the last round.

        The first round measures all sentences.
        """
        if len(self.memory.unknown) == len(self._dev):  # the first round: too much to gather in memory
            memory = self._all(model, "probe").memory
            estimate = self._bounded.estimate(memory)
            return Found(estimate.dev_loss, estimate.dev_loss_se, memory)
        budget = FORWARD * self._share * trained
        choice = self._bounded.choose(self.memory, step=step, budget=budget, weights=weights)
        batches = mixed_batches(self._dev, choice.sentences, self._budget)
        sizes = {name: len(indices) for name, indices in choice.sentences.items()}
        found = self._losses(model, batches, sizes, "probe")
        smoothed = {name: losses[:, 0] for name, losses in found.items()}
        memory, estimate = self._bounded.update(self.memory, choice, smoothed)
        return Found(estimate.dev_loss, estimate.dev_loss_se, memory)

    def measure_all(self, model: TranslationModel) -> FoundAll:
        """Measures all dev sentences, for a validation."""
        return self._all(model, "validation")

    def _all(self, model: TranslationModel, place: str) -> FoundAll:
        """All sentences, in the batches of each task."""
        sizes = {name: batches.sentences for name, batches in self._dev.items()}
        firsts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        batches = (
            MixedBatch(batch, firsts[name] + batch.indices)
            for name, dev in self._dev.items()
            for batch in dev.in_order()
        )
        found = self._losses(model, batches, sizes, place)
        means = {name: losses.sum(axis=0) / self._dev[name].target_tokens.sum() for name, losses in found.items()}
        dev_losses = {name: DevLoss(float(smoothed), float(nll)) for name, (smoothed, nll) in means.items()}
        smoothed = {name: losses[:, 0] for name, losses in found.items()}
        return FoundAll(dev_losses, self._bounded.refresh(self.memory, smoothed))

    def _losses(
        self, model: TranslationModel, batches: Iterable[MixedBatch], sizes: Mapping[str, int], place: str
    ) -> dict[str, Losses]:
        """The losses of all sentences in these batches, which are dealt out to the ranks."""
        model.eval()
        how, rows = self._how, np.zeros((sum(sizes.values()), 2))
        for number, mixed in enumerate(batches):
            fault(place)
            how.poll_at(number)
            if how.ranks.takes(number):
                rows[mixed.rows] = sentence_losses(how.device, model, mixed.batch, how.smoothing)
        if how.ranks.world > 1:
            rows = np.array(how.ranks.sum(rows.tolist()))
        # A round of few training tokens may measure no language at all.
        return dict(zip(sizes, np.split(rows, np.cumsum(list(sizes.values()))), strict=False))

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The memory as arrays, for a checkpoint."""
        memory = self.memory
        per_language = {"errors": memory.errors, "credits": memory.credits}
        return {
            **{PREFIX + name: np.ascontiguousarray(losses) for name, losses in memory.losses.items()},
            **{what: np.array([values[name] for name in self._dev]) for what, values in per_language.items()},
            "spread": np.array([memory.spread]),
        }

    def load_state(self, saved: Mapping[str, NDArray[np.float64]]) -> None:
        """Restores what `state` returned; empty, it restores an empty memory. ValueError if it is of other dev sets."""
        if not saved:
            self.memory = self._bounded.start()
            return
        losses = {name: saved[PREFIX + name] for name in self._dev}
        for name, dev in self._dev.items():
            if losses[name].shape != (dev.sentences,):
                raise ValueError(f"{len(losses[name])} dev sentences of {name}; its dev set has {dev.sentences}")
        errors, credits = (dict(zip(self._dev, saved[what].tolist(), strict=True)) for what in ("errors", "credits"))
        self.memory = Memory(losses, errors, credits, float(saved["spread"][0]))
