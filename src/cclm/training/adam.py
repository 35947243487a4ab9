"""Adam with the paper's constants; its state is stored by parameter name."""

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETA1, BETA2, EPSILON = 0.9, 0.98, 1e-8
STATE = ("exp_avg", "exp_avg_sq", "step")


class Adam:
    """torch's fused Adam update without `torch.optim.Optimizer`, whose first step imports a compiler (2 s).

    optimizer = Adam(model)
    loss.backward()
    optimizer.step(rate=0.001)
    """

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._state: dict[str, dict[str, Tensor]] = {
            name: {
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
                "step": torch.zeros((), device=parameter.device),
            }
            for name, parameter in self._parameters.items()
        }

    def step(self, rate: float, skip: Tensor | None = None) -> None:
        """Updates every parameter that has a gradient.

        If `skip`, a tensor on the device of the parameters, is 1, nothing changes: a GPU skips a step without the host.
        """
        moved = {name: parameter for name, parameter in self._parameters.items() if parameter.grad is not None}
        averages, squares, steps = ([self._state[name][what] for name in moved] for what in STATE)
        with torch.no_grad():
            adam(
                list(moved.values()),
                [parameter.grad for parameter in moved.values() if parameter.grad is not None],
                averages,
                squares,
                [],
                steps,
                fused=True,
                found_inf=skip,
                amsgrad=False,
                beta1=BETA1,
                beta2=BETA2,
                lr=rate,
                weight_decay=0.0,
                eps=EPSILON,
                maximize=False,
            )

    def zero_grad(self) -> None:
        """Frees the gradients, so that the next backward pass writes new ones instead of adding to them."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """A copy of the state, as `NAME:exp_avg`, `NAME:exp_avg_sq` and `NAME:step`."""
        return {f"{name}:{what}": kept.clone() for name, own in self._state.items() for what, kept in own.items()}

    def load_state(self, saved: dict[str, Tensor]) -> None:
        """Restores a saved state."""
        for label, tensor in saved.items():
            name, _, what = label.rpartition(":")
            self._state[name][what].copy_(tensor)
