"""What a validation comes down to: one number to stop by, one to select by, and the event in the log."""

import math

from cclm.formats.log import Validation, Worst
from cclm.training.dev_loss import DevLoss


def metric_over(metric: str, found: dict[str, DevLoss], dev_sizes: dict[str, int]) -> float:
    """The value that stopping or selection goes by: a loss, or the mean BLEU."""
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
    """The plain mean over languages."""
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
