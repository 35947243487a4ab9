"""Dev losses in bits per target token, for probes and validations, and the metrics of stopping and selection."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from cclm.data.batches import Batch, Batches
from cclm.formats.log import Validation, Worst
from cclm.model.interface import TranslationModel
from cclm.rng import key, shuffled_many
from cclm.signals import fault
from cclm.training.device import Device
from cclm.training.ranks import ALONE, Ranks


@dataclass(frozen=True)
class DevLoss:
    """Mean loss per target token in bits: with label smoothing as in training, and without. BLEU if it is measured."""

    smoothed: float
    nll: float
    bleu: float | None = None


Bleu = Callable[[TranslationModel, Callable[[], None]], dict[str, float]]
"""Translates the dev sets and returns the BLEU of each task. It calls the given function between batches."""


@dataclass(frozen=True)
class MeasurementSettings:
    """The settings that all measurements on the model during training share.

    `poll` is called between batches, at the same places on every rank, and may raise.
    """

    seed: int
    smoothing: float
    device: Device
    poll: Callable[[], None]
    ranks: Ranks = ALONE

    def poll_at(self, number: int) -> None:
        """Calls `poll` for every piece of work that the first rank takes, so that all ranks poll at the same places."""
        if number % self.ranks.world == 0:
            self.poll()


class Evaluator:
    """Measures the model on dev sets, without dropout.

    The batches of all languages are numbered and dealt out to the ranks; every rank then knows every loss.
    """

    def __init__(self, dev: dict[str, Batches], how: MeasurementSettings, bleu: Bleu | None = None) -> None:
        self._dev, self._how, self._bleu = dev, how, bleu

    def probe(self, model: TranslationModel, step: int, sample: int) -> dict[str, DevLoss]:
        """The losses on `sample` sentences of each task, or all it has; another sample at every step."""
        return self._losses(
            model,
            {
                name: batches.in_batches(self._sample(name, step, sample, batches.sentences))
                for name, batches in self._dev.items()
            },
            "probe",
        )

    def validate(self, model: TranslationModel, found: dict[str, DevLoss] | None = None) -> dict[str, DevLoss]:
        """The losses on the whole dev sets, unless they were already `found`; with BLEU where it is asked for."""
        if found is None:
            found = self._losses(model, {name: batches.in_order() for name, batches in self._dev.items()}, "validation")
        scores = self._scores(model)
        return {name: replace(loss, bleu=scores.get(name)) for name, loss in found.items()}

    def _scores(self, model: TranslationModel) -> dict[str, float]:
        """BLEU of each task, where it is asked for.

        The first rank translates alone. The others ask it in a loop whether it still does: a rank that waited in one
        long call would not answer signals.
        """
        if self._bleu is None:
            return {}
        scores: dict[str, float] = {}
        ranks = self._how.ranks
        if ranks.first:
            scores = self._bleu(model, self._still_translating)
            ranks.largest(0)
        else:
            while ranks.largest(0):
                self._how.poll()
        of_first: dict[str, float] = json.loads(ranks.broadcast(json.dumps(scores)))
        return of_first

    def _still_translating(self) -> None:
        fault("bleu")
        self._how.ranks.largest(1)
        self._how.poll()

    def _sample(self, name: str, step: int, sample: int, size: int) -> np.ndarray:
        positions = np.arange(min(sample, size))
        return np.sort(shuffled_many(positions, size, key(self._how.seed, "probe", step, name)))

    @torch.no_grad()
    def _losses(self, model: TranslationModel, dev: dict[str, Iterable[Batch]], place: str) -> dict[str, DevLoss]:
        model.eval()
        names: list[str] = []
        rows: list[tuple[float, float, int]] = []
        for name, batch in ((name, batch) for name, batches in dev.items() for batch in batches):
            number = len(rows)
            fault(place)
            self._how.poll_at(number)
            names.append(name)
            rows.append(self._sums(model, batch) if self._how.ranks.takes(number) else (0.0, 0.0, 0))
        sums = {name: [0.0, 0.0, 0.0] for name in dev}
        for name, row in zip(names, self._how.ranks.sum(rows), strict=True):
            sums[name] = [before + more for before, more in zip(sums[name], row, strict=True)]
        return {
            name: DevLoss(smoothed / tokens / math.log(2), nll / tokens / math.log(2))
            for name, (smoothed, nll, tokens) in sums.items()
        }

    def _sums(self, model: TranslationModel, batch: Batch) -> tuple[float, float, int]:
        found = self._how.device.losses(model, batch, self._how.smoothing)
        (smoothed,), (nll,) = self._how.device.numbers([found.smoothed, found.nll])
        return smoothed, nll, batch.target_tokens


def metric_over(metric: str, found: dict[str, DevLoss], dev_sizes: dict[str, int]) -> float:
    """The value of the metric that decides stopping or selection: a loss, or the mean BLEU."""
    if metric == "bleu":
        return mean_bleu(found)
    smoothed = {name: loss.smoothed for name, loss in found.items()}
    if metric == "weighted":
        return weighted(smoothed, dev_sizes)
    if metric == "macro":
        return math.fsum(smoothed.values()) / len(smoothed)
    return max(smoothed.values())  # worst


def better(metric: str, value: float, best: float | None) -> bool:
    """Whether a value beats the best one so far: a loss by being lower, BLEU by being higher."""
    if best is None or not math.isfinite(value):
        return math.isfinite(value)
    return value > best if metric == "bleu" else value < best


def mean_bleu(found: dict[str, DevLoss]) -> float:
    """The mean of BLEU over languages, without weights."""
    scores = [loss.bleu for loss in found.values() if loss.bleu is not None]
    return math.fsum(scores) / len(scores)


def weighted(losses: dict[str, float], dev_sizes: dict[str, int]) -> float:
    """The paper's selection metric: the mean over all dev sentences."""
    total = sum(dev_sizes[name] for name in losses)
    return math.fsum(dev_sizes[name] * loss for name, loss in losses.items()) / total


def validation_event(step: int, found: dict[str, DevLoss], dev_sizes: dict[str, int]) -> Validation:
    """The event of a validation."""
    smoothed = {name: loss.smoothed for name, loss in found.items()}
    worst = max(smoothed, key=lambda name: smoothed[name])
    event = Validation(
        step=step,
        dev_loss={**smoothed},
        nll={name: loss.nll for name, loss in found.items()},
        weighted=weighted(smoothed, dev_sizes),
        macro=metric_over("macro", found, dev_sizes),
        worst=Worst(language=worst, loss=smoothed[worst]),
    )
    bleu = {name: loss.bleu for name, loss in found.items() if loss.bleu is not None}
    return event.model_copy(update={"bleu": bleu, "mean_bleu": mean_bleu(found)}) if bleu else event
