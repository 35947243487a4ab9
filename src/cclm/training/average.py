"""Averages of the weights of a model over its training. They are validated, selected and exported; training goes on
with the weights themselves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EARLY = 10
"""The decay of the exponential average is at most (1 + t) / (EARLY + t) at step t: the first weights are noise."""


class Average:
    """The average over the last validations (`last`), or an exponential moving average over the steps (`ema`).

    average = Average(model, ema=0.999)
    average.add_step(step)          # after each update
    with average.in_use():          # the model computes with the average here
        validate(model)
    """

    def __init__(self, model: nn.Module, *, last: int | None = None, ema: float | None = None) -> None:
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._last, self._ema = last, ema
        self._average = self._copy()
        self._window: dict[int, dict[str, Tensor]] = {}  # by the step of the validation, oldest first

    def _copy(self) -> dict[str, Tensor]:
        return {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def add_step(self, step: int) -> None:
        """Adds the weights to an exponential average; called after each update."""
        if self._ema is not None:
            share = 1 - min(self._ema, (1 + step) / (EARLY + step))
            torch._foreach_lerp_(list(self._average.values()), list(self._parameters.values()), share)

    @torch.no_grad()
    def add_validation(self, step: int) -> None:
        """Adds the weights to an average over validations. A validation that is repeated on resume counts once."""
        if self._last is None or step in self._window:
            return
        self._window[step] = self._copy()
        for old in list(self._window)[: -self._last]:
            del self._window[old]
        for name, average in self._average.items():
            average.copy_(torch.stack([weights[name] for weights in self._window.values()]).mean(dim=0))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The model has the averaged weights inside this context."""
        own = {name: parameter.data for name, parameter in self._parameters.items()}
        try:
            for name, parameter in self._parameters.items():
                parameter.data = self._average[name]
            yield
        finally:
            for name, parameter in self._parameters.items():
                parameter.data = own[name]

    def state(self) -> dict[str, Tensor]:
        """The average by parameter name, and for `last` the weights that it consists of as `NAME@STEP`."""
        window = {f"{name}@{step}": kept for step, weights in self._window.items() for name, kept in weights.items()}
        return self._average | window

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restores a saved state. An empty one, of a run without an average so far, begins with the model's weights."""
        self._average = (
            self._copy() if not saved else {name: saved[name].to(own) for name, own in self._average.items()}
        )
        self._window = {}
        for label in saved:
            name, at, step = label.rpartition("@")
            if at:
                self._window.setdefault(int(step), {})[name] = saved[label].to(self._average[name])
        self._window = dict(sorted(self._window.items()))
