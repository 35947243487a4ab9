"""What is special to a device: which one it is, and in which precision it computes."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cclm.errors import TrainingError
from cclm.training.ranks import local_rank

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
GROWTH = 2000
"""Updates in a row without an overflow before the loss scale is doubled."""
FIRST_SCALE = 2.0**16


@dataclass(frozen=True)
class Device:
    """Where a training computes, and how exactly: fp32, bf16 or fp16."""

    torch: torch.device
    precision: str

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in half precision, where that is asked for."""
        half = HALVES.get(self.precision)
        return torch.autocast(self.torch.type, dtype=half, enabled=half is not None)

    @property
    def emulates(self) -> bool:
        """Whether this processor can round to half precision, but not multiply in it."""
        return self.torch.type == "cpu" and self.precision in HALVES and _best_precision(self.torch) == "fp32"

    def products(self) -> AbstractContextManager[object]:
        """Makes the matrix products of a training, forward and backward, fast here too."""
        return Widened() if self.emulates else nullcontext()  # type: ignore[no-untyped-call]

    @property
    def first_scale(self) -> float:
        """What losses are multiplied by at first: small gradients would be zero in fp16, and only there."""
        return FIRST_SCALE if self.precision == "fp16" else 1.0


class Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiplies half-precision matrices in float32 and rounds what comes out, as processors with bf16 do.

    Without such instructions torch multiplies number by number, at a tenth to a hundredth of the speed of float32.
    """

    PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every operation."""
        kwargs = kwargs or {}
        if func in self.PRODUCTS and args[0].dtype in HALVES.values():
            return func(*(operand.float() for operand in args), **kwargs).to(args[0].dtype)
        return func(*args, **kwargs)


def device_of(name: str, precision: str = "auto") -> Device:
    """The device and precision that a recipe asks for; `auto` takes the best that is there.

    Of several ranks on a machine with GPUs each takes its own.
    """
    device = _torch_device(name)
    return Device(device, _best_precision(device) if precision == "auto" else precision)


def _torch_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=f"cuda:{local_rank()}" if name == "cuda" else name).device
    except (RuntimeError, AssertionError) as error:
        raise TrainingError(f"training.device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None


def _best_precision(device: torch.device) -> str:
    """Half precision only where the hardware multiplies in it: elsewhere it is emulated, far slower than fp32."""
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else "fp32"
