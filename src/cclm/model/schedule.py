"""Learning-rate schedules: linear warm-up from zero, then decay with the inverse square root, or annealing to zero."""

import math
from dataclasses import dataclass

NAMES = ("inverse-sqrt", "linear", "cosine", "wsd")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step. It depends on the step and, if training was stopped early, on when.

    Schedule("linear", peak=2e-4, warmup=4000, steps=100_000).rate(50_000)

    `inverse-sqrt` reaches `peak` at step `warmup` and half of `peak` at step 4 * `warmup`; with `warmup=0` it is
    constant. The others anneal: they would reach zero one step after the last one. `linear` and `cosine` fall from the
    end of warm-up on; `wsd` (warm-up, stable, decay) stays at `peak` and falls linearly over the last `decay` steps.
    """

    name: str
    peak: float
    warmup: int
    steps: int = 1
    """The last step; `inverse-sqrt` has none."""
    decay: int = 1
    """Number of steps of the decay that ends `wsd`, and every annealing training that is stopped early."""

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"a schedule is one of {', '.join(NAMES)}; got {self.name!r}")
        if self.warmup < 0:
            raise ValueError(f"warmup must be at least 0; got {self.warmup}")
        if self.decay < 1:
            raise ValueError(f"decay must be at least 1 step; got {self.decay}")

    @property
    def anneals(self) -> bool:
        """Whether the rate falls to zero in the end."""
        return self.name != "inverse-sqrt"

    @property
    def decay_start(self) -> int | None:
        """The last step of `wsd` at the full rate. A longer training is the same up to here. None for the others."""
        return max(self.warmup, self.steps - self.decay, 0) if self.name == "wsd" else None

    def rate(self, step: int, stopped: tuple[int, int] | None = None) -> float:
        """The learning rate of a step, counted from 1.

        `stopped` are the first and the last step of the decay of a training that is stopped early: from the rate of the
        first it falls linearly.
        """
        if step < 1:
            raise ValueError(f"step must be at least 1; got {step}")
        if stopped is not None and step > stopped[0]:
            return self.rate(stopped[0]) * _left(step, *stopped)
        if self.name == "inverse-sqrt":
            return self.peak * min(step / self.warmup, math.sqrt(self.warmup / step)) if self.warmup else self.peak
        if step <= self.warmup:
            return self.peak * step / self.warmup
        left = _left(step, self.warmup if self.decay_start is None else self.decay_start, self.steps)
        return self.peak * (0.5 - 0.5 * math.cos(math.pi * left) if self.name == "cosine" else left)


def _left(step: int, first: int, last: int) -> float:
    """How much of a decay is left: 1 up to its first step, 0 after its last one."""
    return min(1.0, max(0.0, (last + 1 - step) / max(1, last + 1 - first)))
