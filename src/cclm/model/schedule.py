"""The learning rate: a linear warm-up from zero, then decay with the inverse square root of the step."""

import math


def learning_rate(step: int, *, peak: float, warmup: int) -> float:
    """The rate of update number `step`, counted from 1: peak * min(step / warmup, sqrt(warmup / step)).

    It reaches `peak` at step `warmup` and half of it at 4 * `warmup`. It depends on the step alone: neither admissions
    nor resuming change it. Without warm-up there is nothing to decay from:
    `warmup=0` means `peak` throughout.
    """
    if step < 1:
        raise ValueError(f"learning_rate: steps count from 1; got {step}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0; got {warmup}")
    if warmup == 0:
        return peak
    return peak * min(step / warmup, math.sqrt(warmup / step))
