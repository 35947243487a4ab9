"""The rewards of MultiDDS and MultiDDS-S: how well a language's training gradient agrees with the dev gradients.

As in the released code: each gradient is of a few fresh sentences, with dropout, over all parameters, and every pair of
languages gets training sentences of its own (n + n x n passes for n languages). `once` takes one gradient per language
instead (n + n passes, and n gradients in memory): the same expectation, other noise. The released code announces a
look-ahead step along the training gradient but never takes it; neither do we.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import torch

from cclm.data.batches import Batch, Batches
from cclm.model.interface import TranslationModel
from cclm.model.random import seed_dropout
from cclm.rng import key, uniform
from cclm.signals import fault
from cclm.training.device import Device
from cclm.training.validation import MeasurementSettings

MOST_TOKENS = 1200
"""Tokens, padding included, of the sentences that a gradient is taken of; sentences beyond that are left out."""

Gradient = list[torch.Tensor]


class Rewards:
    """Measures gradient cosines on the live model, which it leaves unchanged."""

    def __init__(
        self,
        train: dict[str, Batches],
        dev: dict[str, Batches],
        how: MeasurementSettings,
        *,
        sentences: int,
        once: bool,
    ) -> None:
        self._train, self._dev, self._how = train, dev, how
        self._sentences, self._once = sentences, once

    def signals(
        self, needs: Collection[str], model: TranslationModel, step: int, admitted: Sequence[str], *, scale: float
    ) -> dict[str, object]:
        """The signals that a round needs. `scale` is the loss scale of fp16; cosines do not depend on it."""
        found: dict[str, object] = {}
        if "gradient_cosine" in needs:
            found["gradient_cosine"] = self.separate(model, step, admitted, scale)
        if "summed_gradient_cosine" in needs:
            found["summed_gradient_cosine"] = self.summed(model, step, admitted, scale)
        return found

    def separate(
        self, model: TranslationModel, step: int, admitted: Sequence[str], scale: float = 1.0
    ) -> dict[str, dict[str, float]]:
        """MultiDDS-S: the cosine of each training language's gradient with that of each dev language by itself."""
        kept = self._kept(model, step, admitted, scale) if self._once else {}
        rows: list[list[float]] = []
        for number, of_dev in enumerate(self._dev):
            self._how.poll_at(number)
            row = [0.0] * len(admitted)
            if self._how.ranks.takes(number):
                dev = self._gradient(model, step, ("dev", of_dev), self._dev[of_dev], scale)
                for place, lang in enumerate(admitted):
                    mine = kept or {lang: self._fresh(model, step, lang, of_dev, scale)}
                    row[place] = cosine(mine[lang], dev, self._how.device)
            rows.append(row)
        summed = self._how.ranks.sum(rows)
        return {
            lang: {of_dev: row[place] for of_dev, row in zip(self._dev, summed, strict=True)}
            for place, lang in enumerate(admitted)
        }

    def summed(
        self, model: TranslationModel, step: int, admitted: Sequence[str], scale: float = 1.0
    ) -> dict[str, float]:
        """MultiDDS: one cosine per training language, with the sum of the gradients of all dev languages."""
        of_all = self._of_all_dev(model, step, "all", scale) if self._once else None
        rows: list[list[float]] = []
        for number, lang in enumerate(admitted):
            self._how.poll_at(number)
            row = [0.0]
            if self._how.ranks.takes(number):
                mine = self._fresh(model, step, lang, "all", scale)
                theirs = of_all or self._of_all_dev(model, step, lang, scale)
                row = [cosine(mine, theirs, self._how.device)]
            rows.append(row)
        return {lang: row[0] for lang, row in zip(admitted, self._how.ranks.sum(rows), strict=True)}

    def _kept(self, model: TranslationModel, step: int, admitted: Sequence[str], scale: float) -> dict[str, Gradient]:
        return {lang: self._fresh(model, step, lang, "once", scale) for lang in admitted}

    def _fresh(self, model: TranslationModel, step: int, lang: str, purpose: str, scale: float) -> Gradient:
        return self._gradient(model, step, ("train", lang, purpose), self._train[lang], scale)

    def _of_all_dev(self, model: TranslationModel, step: int, purpose: str, scale: float) -> Gradient:
        drawn = [(("dev", name, purpose), batches) for name, batches in self._dev.items()]
        return self._accumulated(model, step, drawn, scale)

    def _gradient(
        self, model: TranslationModel, step: int, purpose: tuple[str, ...], batches: Batches, scale: float
    ) -> Gradient:
        return self._accumulated(model, step, [(purpose, batches)], scale)

    def _accumulated(
        self, model: TranslationModel, step: int, drawn: Iterable[tuple[tuple[str, ...], Batches]], scale: float
    ) -> Gradient:
        """The gradient of the summed loss of a few sentences from each of these sets, as a list over parameters."""
        model.train()
        for purpose, batches in drawn:
            fault("reward")
            drawing = key(self._how.seed, "reward", step, *purpose)
            seed_dropout(drawing, self._how.device.torch)
            batch = self._sample(batches, drawing)
            loss = self._how.device.losses(model, batch, self._how.smoothing).smoothed
            (loss * (scale / MOST_TOKENS)).backward()  # type: ignore[no-untyped-call]
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        model.zero_grad(set_to_none=True)
        return found

    def _sample(self, batches: Batches, drawing: int) -> Batch:
        """A few sentences, drawn with replacement; the last ones are left out if they are too long together."""
        numbers = [int(uniform(drawing, i) * batches.sentences) for i in range(self._sentences)]
        while True:
            batch = batches.of(np.array(numbers, dtype=np.int64))
            if len(numbers) == 1 or max(batch.source.size, batch.target_output.size) <= MOST_TOKENS:
                return batch
            numbers.pop()


def cosine(first: Gradient, second: Gradient, device: Device) -> float:
    """The cosine of two gradients, all parameters concatenated; 0 where one of them is zero."""
    pairs = ((first, second), (first, first), (second, second))
    across, *squares = map(sum, device.numbers([device.dot(*pair) for pair in pairs]))
    lengths = [square**0.5 for square in squares]
    return across / (lengths[0] * lengths[1]) if all(lengths) else 0.0
