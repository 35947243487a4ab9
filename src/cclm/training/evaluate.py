"""Dev losses: of a sample, for the curriculum's probes, and of whole sets, for validation. Bits a target token."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from cclm.chance import key, shuffled_many
from cclm.data.batches import Batch, Batches
from cclm.model.loss import losses
from cclm.model.transformer import Transformer


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
    """Measures the model on dev sets. Dropout is off; `poll` is asked between batches and may raise."""

    def __init__(
        self,
        dev: dict[str, Batches],
        *,
        seed: int,
        smoothing: float,
        device: torch.device,
        poll: Callable[[], None],
        bleu: Bleu | None,
    ) -> None:
        self._dev, self._seed, self._smoothing = dev, seed, smoothing
        self._device, self._poll, self._bleu = device, poll, bleu

    def probe(self, model: Transformer, step: int, sample: int) -> dict[str, DevLoss]:
        """The losses on `sample` sentences of each task, or all it has; another draw at every step."""
        return {
            name: self._loss(model, batches.in_batches(self._drawn(name, step, sample, batches.sentences)))
            for name, batches in self._dev.items()
        }

    def validate(self, model: Transformer) -> dict[str, DevLoss]:
        """The losses on the whole dev sets, with their BLEU where it is asked for."""
        found = {name: self._loss(model, batches.in_order()) for name, batches in self._dev.items()}
        scores = self._bleu(model, self._poll) if self._bleu else {}
        return {name: replace(loss, bleu=scores.get(name)) for name, loss in found.items()}

    def _drawn(self, name: str, step: int, sample: int, size: int) -> np.ndarray:
        positions = np.arange(min(sample, size))
        return np.sort(shuffled_many(positions, size, key(self._seed, "probe", step, name)))

    @torch.no_grad()
    def _loss(self, model: Transformer, batches: Iterable[Batch]) -> DevLoss:
        model.eval()
        smoothed = nll = 0.0
        tokens = 0
        for batch in batches:
            self._poll()
            source, target_input, target_output = tensors(batch, self._device)
            found = losses(model(source, target_input), target_output, self._smoothing)
            smoothed, nll = smoothed + found.smoothed.item(), nll + found.nll.item()
            tokens += batch.target_tokens
        return DevLoss(smoothed / tokens / math.log(2), nll / tokens / math.log(2))
