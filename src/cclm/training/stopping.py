"""Numbers that a validation comes down to: per language, weighted as in the paper, macro, worst."""

import math
from typing import Any

from cclm.training.errors import TrainingError
from cclm.training.evaluate import DevLoss


def metric_over(metric: str, found: dict[str, DevLoss], dev_sizes: dict[str, int]) -> float:
    """The value that stopping or selection goes by; lower is better."""
    smoothed = {name: loss.smoothed for name, loss in found.items()}
    if metric == "weighted":
        return weighted(smoothed, dev_sizes)
    if metric == "macro":
        return math.fsum(smoothed.values()) / len(smoothed)
    if metric == "worst":
        return max(smoothed.values())
    raise TrainingError(f"training.stop_on and select_on: {metric!r} is not there yet; use weighted, macro or worst")


def weighted(losses: dict[str, float], dev_sizes: dict[str, int]) -> float:
    """The paper's selection metric: the mean over all dev sentences."""
    total = sum(dev_sizes[name] for name in losses)
    return math.fsum(dev_sizes[name] * loss for name, loss in losses.items()) / total


def validated(found: dict[str, DevLoss], dev_sizes: dict[str, int]) -> dict[str, Any]:
    """What a validation event says."""
    smoothed = {name: loss.smoothed for name, loss in found.items()}
    worst = max(smoothed, key=lambda name: smoothed[name])
    return {
        "dev_loss": smoothed,
        "nll": {name: loss.nll for name, loss in found.items()},
        "weighted": weighted(smoothed, dev_sizes),
        "macro": metric_over("macro", found, dev_sizes),
        "worst": {"language": worst, "loss": smoothed[worst]},
    }
