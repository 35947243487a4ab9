"""What is special to a device: which one it is, in which precision it computes, how batches get there."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cclm.data.batches import Batch
from cclm.errors import TrainingError
from cclm.model.interface import TranslationModel
from cclm.model.loss import Losses, losses
from cclm.training.torchrun import local_rank

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
GROWTH = 2000
"""Updates in a row without an overflow before the loss scale is doubled."""
FIRST_SCALE = 2.0**16
WIDE = 256
"""Model width from which `auto` is bf16 on a CPU that multiplies in bf16.

benchmarks/precision.py, avx512_bf16, one thread, 500 tokens per batch: fp32 takes 1.1 times as long as bf16 at width
96, 1.3 at 128, 1.5 at 256. In whole trainings of narrow models bf16 is slower all the same: 60 steps of the phrasebook
at width 96 took 8.0 s of processor time in bf16 and 6.2 s in fp32. Hence a width with a clear gain. Two threads, and
whole trainings at this width, have not been measured.
"""


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

    def losses(self, model: TranslationModel, batch: Batch, smoothing: float) -> Losses:
        """The summed losses of a batch, ready for the backward pass."""
        source, target_input, target_output = self.tensors(batch)
        with self.autocast():
            logits = model(source, target_input)
        return losses(logits, target_output, smoothing, batch.pad)

    @property
    def emulates(self) -> bool:
        """Whether this processor can round to half precision, but not multiply in it."""
        return self.torch.type == "cpu" and self.precision in HALVES and not _multiplies_in_half(self.torch)

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


def device_of(name: str, precision: str = "auto", *, width: int | None = None) -> Device:
    """The device and precision that a recipe asks for; `auto` chooses by this machine and by the width of the model.

    Each rank on a machine with several GPUs takes its own GPU.
    """
    device = _torch_device(name)
    return Device(device, _auto_precision(device, width) if precision == "auto" else precision)


def _torch_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        probe = torch.ones(1, device=f"cuda:{local_rank()}" if name == "cuda" else name)
        probe.item()  # the device `meta` has tensors, but no numbers
        return probe.device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise TrainingError(f"training.device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None


def refuse_missing(name: str) -> None:
    """Refuses a device that is not there, without using it: a process that only starts others must leave it to them."""
    kind, _, index = name.partition(":")
    if kind == "cuda" and (index.isdigit() or not index):
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= there:
            raise TrainingError(
                f"training.device {name!r} cannot be used here: torch {torch.__version__} finds"
                f" {there or 'no'} CUDA device{'s' if there != 1 else ''}; set training.device to auto or cpu"
            )
    elif kind == "mps":
        if not torch.backends.mps.is_available():
            raise TrainingError(
                f"training.device {name!r} cannot be used here: torch {torch.__version__} finds no Metal device;"
                " set training.device to auto or cpu"
            )
    else:
        _torch_device(name)


def _auto_precision(device: torch.device, width: int | None) -> str:
    """A fixed rule: nothing is timed, so that every process of a run chooses the same."""
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    is_wide = width is None or width >= WIDE
    return "bf16" if is_wide and _multiplies_in_half(device) else "fp32"


def _multiplies_in_half(device: torch.device) -> bool:
    """Whether the hardware multiplies in half precision: emulated, that is far slower than fp32."""
    if device.type != "cpu":
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
