"""What is special to a device: which one it is, in which precision it computes, how batches get there."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cclm.data.batches import Batch
from cclm.errors import TrainingError
from cclm.model.loss import Losses, losses
from cclm.model.transformer import Transformer
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

    def tensors(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Source, target input and target output on this device."""
        arrays = (batch.source, batch.target_input, batch.target_output)
        source, target_input, target_output = (
            torch.from_numpy(array).to(self.torch, non_blocking=True) for array in arrays
        )
        return source, target_input, target_output

    def losses(self, model: Transformer, batch: Batch, smoothing: float) -> Losses:
        """The summed losses of a batch, ready for the backward pass."""
        source, target_input, target_output = self.tensors(batch)
        with self.autocast():
            logits = model(source, target_input)
        return losses(logits, target_output, smoothing)

    @property
    def emulates(self) -> bool:
        """Whether this processor can round to half precision, but not multiply in it."""
        return self.torch.type == "cpu" and self.precision in HALVES and _best_precision(self.torch) == "fp32"

    def products(self) -> AbstractContextManager[object]:
        """For a whole training: matrix products in half precision are fast even where they are emulated."""
        return Widened() if self.emulates else nullcontext()  # type: ignore[no-untyped-call]

    @property
    def first_scale(self) -> float:
        """What losses are multiplied by at first. In fp16 small gradients would underflow to zero without it."""
        return FIRST_SCALE if self.precision == "fp16" else 1.0


class Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiplies half-precision matrices in float32 and rounds the result, as processors with bf16 do.

    On processors without such instructions torch's own product runs at a tenth to a hundredth of the speed of float32.
    """

    PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every operation."""
        kwargs = kwargs or {}
        if func in self.PRODUCTS and args[0].dtype in HALVES.values():
            return func(*(operand.float() for operand in args), **kwargs).to(args[0].dtype)
        return func(*args, **kwargs)


def device_of(name: str, precision: str = "auto") -> Device:
    """The device and precision that a recipe asks for; `auto` takes the best that this machine has.

    Each rank on a machine with several GPUs takes its own GPU.
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
    """Half precision only where the hardware multiplies in it: emulated, it is far slower than fp32."""
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else "fp32"
