"""Dev losses: of a sample, for the curriculum's probes, and of whole sets, for validation. Bits a target token."""

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from cclm.data.batches import Batch, Batches
from cclm.model.loss import losses
from cclm.model.transformer import Transformer
from cclm.rng import key, shuffled_many
from cclm.training.device import Device
from cclm.training.faults import fault
from cclm.training.ranks import ALONE, Ranks


@dataclass(frozen=True)
class DevLoss:
    """Means over target tokens, in bits: with label smoothing as in training, and without. BLEU where asked for."""

    smoothed: float
    nll: float
    bleu: float | None = None


Bleu = Callable[[Transformer, Callable[[], None]], dict[str, float]]
"""Translates the dev sets and gives the BLEU of each task; what it is given beside the model may raise."""


def tensors(batch: Batch, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source, target input and target output on the device."""
    arrays = (batch.source, batch.target_input, batch.target_output)
    source, target_input, target_output = (torch.from_numpy(array).to(device, non_blocking=True) for array in arrays)
    return source, target_input, target_output


class Evaluator:
    """Measures the model on dev sets. Dropout is off; `poll` is asked between batches and may raise.

    The batches of all languages are numbered and dealt out to the ranks; every rank then knows every loss.
    """

    def __init__(
        self,
        dev: dict[str, Batches],
        *,
        seed: int,
        smoothing: float,
        device: Device,
        poll: Callable[[], None],
        bleu: Bleu | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self._dev, self._seed, self._smoothing = dev, seed, smoothing
        self._device, self._poll, self._bleu, self._ranks = device, poll, bleu, ranks

    def probe(self, model: Transformer, step: int, sample: int) -> dict[str, DevLoss]:
        """The losses on `sample` sentences of each task, or all it has; another draw at every step."""
        return self._losses(
            model,
            {
                name: batches.in_batches(self._drawn(name, step, sample, batches.sentences))
                for name, batches in self._dev.items()
            },
            "probe",
        )

    def validate(self, model: Transformer) -> dict[str, DevLoss]:
        """The losses on the whole dev sets, with their BLEU where it is asked for."""
        found = self._losses(model, {name: batches.in_order() for name, batches in self._dev.items()}, "validation")
        scores = self._scores(model)
        return {name: replace(loss, bleu=scores.get(name)) for name, loss in found.items()}

    def _scores(self, model: Transformer) -> dict[str, float]:
        """BLEU of each task, where it is asked for. The first rank translates; the others keep asking if it does."""
        if self._bleu is None:
            return {}
        scores: dict[str, float] = {}
        if self._ranks.first:
            scores = self._bleu(model, self._busy)
            self._ranks.largest(0)
        else:
            while self._ranks.largest(0):
                self._poll()
        told: dict[str, float] = json.loads(self._ranks.told(json.dumps(scores)))
        return told

    def _busy(self) -> None:
        fault("bleu")
        self._ranks.largest(1)
        self._poll()

    def _drawn(self, name: str, step: int, sample: int, size: int) -> np.ndarray:
        positions = np.arange(min(sample, size))
        return np.sort(shuffled_many(positions, size, key(self._seed, "probe", step, name)))

    @torch.no_grad()
    def _losses(self, model: Transformer, dev: dict[str, Iterable[Batch]], place: str) -> dict[str, DevLoss]:
        model.eval()
        names: list[str] = []
        rows: list[tuple[float, float, int]] = []
        for name, batch in ((name, batch) for name, batches in dev.items() for batch in batches):
            number = len(rows)
            fault(place)
            if number % self._ranks.world == 0:
                self._poll()  # every rank is here once a round
            names.append(name)
            rows.append(self._sums(model, batch) if self._ranks.takes(number) else (0.0, 0.0, 0))
        sums = {name: [0.0, 0.0, 0.0] for name in dev}
        for name, row in zip(names, self._ranks.sum(rows), strict=True):
            sums[name] = [before + more for before, more in zip(sums[name], row, strict=True)]
        return {
            name: DevLoss(smoothed / tokens / math.log(2), nll / tokens / math.log(2))
            for name, (smoothed, nll, tokens) in sums.items()
        }

    def _sums(self, model: Transformer, batch: Batch) -> tuple[float, float, int]:
        source, target_input, target_output = tensors(batch, self._device.torch)
        with self._device.autocast():
            logits = model(source, target_input)
        found = losses(logits, target_output, self._smoothing)
        return found.smoothed.item(), found.nll.item(), batch.target_tokens
