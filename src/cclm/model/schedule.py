"""The learning-rate schedule: linear warm-up from zero, then decay with the inverse square root of the step."""

import math


def learning_rate(step: int, *, peak: float, warmup: int) -> float:
    """The learning rate of a step, counted from 1: peak * min(step / warmup, sqrt(warmup / step)).

    It reaches `peak` at step `warmup` and half of `peak` at step 4 * `warmup`. It depends on the step only: admissions
    and resuming do not change it. With `warmup=0` the rate is constant.
    """
    if step < 1:
        raise ValueError(f"step must be at least 1; got {step}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0; got {warmup}")
    if warmup == 0:
        return peak
    return peak * min(step / warmup, math.sqrt(warmup / step))
