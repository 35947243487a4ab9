"""Everything that depends on the device: its choice, its precision, and how batches get there.

On a GPU the host only queues work: as long as it never asks for a result, it stays ahead and the GPU never idles. So
whatever depends on the data of a batch is computed here with NumPy, and results are read in groups with `numbers`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cclm.data.batches import Batch
from cclm.errors import TrainingError
from cclm.model.interface import TranslationModel
from cclm.model.loss import Losses, half_losses, losses_in_chunks, packed_losses
from cclm.training.torchrun import local_rank

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
GROWTH = 2000
"""Updates in a row without an overflow before the loss scale is doubled."""
FIRST_SCALE = 2.0**16
WIDE = 128
"""Model width from which `auto` is bf16 on a CPU that multiplies in bf16.

benchmarks/precision.py, avx512_bf16, 500 tokens per batch: with one thread fp32 takes 1.3 times as long as bf16 at
width 96, 1.4 times at 128 and 2.0 at 256; with two threads 1.1, 1.2 and 1.8 times. On processors that multiply in bf16
at half that speed, narrower models gained nothing. The number of threads plays no part: see `_auto_precision`.
"""
MOST_LOGITS = 1 << 27
"""Logits that a GPU computes at once. Those of 4,800 tokens and 64,000 symbols are 1.2 GB in float32."""
WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""The environment variable with which cuBLAS computes the same bytes every time."""


class Inputs(NamedTuple):
    """A batch on a device."""

    source_BS: Tensor
    target_input_BT: Tensor
    target_N: Tensor
    """The tokens to predict, without padding."""
    rows_N: Tensor | None
    """Their positions in the flattened batch; None if the model computes them."""


@dataclass(frozen=True)
class Device:
    """A device and the precision that it computes in: fp32, bf16 or fp16."""

    torch: torch.device
    precision: str
    deterministic: bool = False
    """Whether a GPU computes the same bytes every time; a CPU always does."""
    tf32: bool = True
    """Whether an NVIDIA GPU rounds the factors of float32 products to TF32."""

    @property
    def is_gpu(self) -> bool:
        """Whether this is a CUDA GPU: work is queued there, and reading a result waits for it."""
        return self.torch.type == "cuda"

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in half precision, where that is asked for."""
        half = HALVES.get(self.precision)
        return torch.autocast(self.torch.type, dtype=half, enabled=half is not None)

    def inputs(self, batch: Batch) -> Inputs:
        """A batch on this device. It is sent to a GPU asynchronously: in one piece, from pinned memory."""
        is_real_BT = batch.target_output != batch.pad
        target_N = batch.target_output[is_real_BT]
        if not self.is_gpu:
            source, target_input, target = (
                torch.from_numpy(array).to(self.torch) for array in (batch.source, batch.target_input, target_N)
            )
            return Inputs(source, target_input, target, None)
        arrays = (batch.source, batch.target_input, target_N, np.flatnonzero(is_real_BT))
        pinned = torch.from_numpy(np.concatenate([array.ravel() for array in arrays])).pin_memory()
        parts = torch.split(pinned.to(self.torch, non_blocking=True), [array.size for array in arrays])
        return Inputs(*(part.view(array.shape) for part, array in zip(parts, arrays, strict=True)))

    def losses(self, model: TranslationModel, batch: Batch, smoothing: float) -> Losses:
        """The summed losses of a batch, ready for the backward pass."""
        source, target_input, target, rows = self.inputs(batch)
        if rows is not None and len(target) * model.symbols > MOST_LOGITS:
            with self.autocast():
                states = model.states(source, target_input, rows)
            at_once = max(1, MOST_LOGITS // model.symbols)
            return losses_in_chunks(partial(self._logits, model), states, target, smoothing, rows=at_once)
        half = None if self.is_gpu else HALVES.get(self.precision)
        if half:
            with self.autocast():
                states = model.states(source, target_input, rows)
            return half_losses(states, *model.output(), target, smoothing, half)
        with self.autocast():
            logits = model(source, target_input, rows)
        return packed_losses(logits, target, smoothing, overwrite=True)

    def _logits(self, model: TranslationModel, states: Tensor) -> Tensor:
        with self.autocast():
            return model.logits(states)

    def numbers(self, tensors: Sequence[Tensor]) -> list[list[float]]:
        """The numbers of several tensors, read with a single wait."""
        if not tensors:
            return []
        exact = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
        read = torch.cat([tensor.detach().flatten().to(exact) for tensor in tensors]).cpu().tolist()
        ends = np.cumsum([tensor.numel() for tensor in tensors]).tolist()
        return [read[end - tensor.numel() : end] for end, tensor in zip(ends, tensors, strict=True)]

    def dot(self, first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        """(n,): numbers whose sum is the scalar product of two lists of tensors, such as gradients."""
        if not self.is_gpu:
            return torch.stack([(a * b).sum(dtype=torch.float64) for a, b in zip(first, second, strict=True)])
        products = torch._foreach_mul(list(first), list(second))
        return torch.cat([product.flatten() for product in products]).sum(dtype=torch.float64)[None]

    @property
    def emulates(self) -> bool:
        """Whether this processor can round to half precision, but not multiply in it."""
        return self.torch.type == "cpu" and self.precision in HALVES and not _multiplies_in_half(self.torch)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Sets how torch computes on this device, for a whole training, and restores the earlier settings on exit."""
        if self.emulates:
            with Widened():  # type: ignore[no-untyped-call]
                yield
        elif self.is_gpu:
            with _gpu_settings(self):
                yield
        else:
            yield

    @property
    def first_scale(self) -> float:
        """The initial loss scale. In fp16, small gradients would underflow to zero without it."""
        return FIRST_SCALE if self.precision == "fp16" else 1.0


@contextmanager
def _gpu_settings(device: Device) -> Iterator[None]:
    products, memory = torch.backends.cuda.matmul, torch.utils.deterministic
    deterministic = torch.are_deterministic_algorithms_enabled()
    precision, cudnn = products.fp32_precision, torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    fills = memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        products.fp32_precision = "tf32" if device.tf32 else "ieee"
        # cuDNN plans its attention anew for every shape, which takes about a second, and batches have many shapes.
        torch.backends.cuda.enable_cudnn_sdp(False)
        if device.deterministic:
            os.environ.setdefault(*WORKSPACE)
            torch.use_deterministic_algorithms(True)
            memory.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # nothing reads such memory
        yield
    finally:
        products.fp32_precision = precision
        torch.backends.cuda.enable_cudnn_sdp(cudnn)
        torch.use_deterministic_algorithms(deterministic)
        memory.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


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


def device_of(
    name: str, precision: str = "auto", *, width: int | None = None, deterministic: bool = False, tf32: bool = True
) -> Device:
    """The device and precision that a recipe asks for; `auto` chooses by this machine and by the width of the model.

    Each rank on a machine with several GPUs takes its own GPU.
    """
    device = _torch_device(name)
    precision = _auto_precision(device, width) if precision == "auto" else precision
    return Device(device, precision, deterministic=deterministic, tf32=tf32)


def _torch_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        probe = torch.ones(1, device=_own_gpu() if name == "cuda" else name)
        probe.item()  # the device `meta` has tensors, but no numbers
        return probe.device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise TrainingError(f"training.device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None


def _own_gpu() -> str:
    """The GPU of this rank. SLURM may show each task one GPU alone, which is number 0 for all of them."""
    return f"cuda:{local_rank() % max(1, torch.cuda.device_count())}"


def why_no_gpu() -> str:
    """The likely reason why torch finds no GPU on this machine."""
    version = torch.__version__
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {version} was built without CUDA: install a build with it (https://pytorch.org)"
    if not list(Path("/dev").glob("nvidia[0-9]*")):
        return f"torch {version} finds no GPU, and there is no /dev/nvidia0: no driver, or a container without GPUs"
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    return f"torch {version} cannot use the GPU: its driver may be too old for CUDA {torch.version.cuda}"


def refuse_missing(name: str) -> None:
    """Raises TrainingError for a missing device. CUDA stays uninitialised, for the processes that this one starts."""
    kind, _, index = name.partition(":")
    if kind == "cuda" and (index.isdigit() or not index):
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(index or 0) >= there:
            reason = f"torch finds {there} GPU{'s' if there > 1 else ''}, counted from 0" if there else why_no_gpu()
            raise TrainingError(
                f"training.device {name!r} cannot be used here: {reason}; or set training.device to auto or cpu"
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
    """A fixed rule: nothing is timed, so that every process of a run chooses the same.

    The number of threads does not count either. It differs between processes that must agree: a training on its own has
    one thread per core, those for L*, studies and sweeps have one. bf16 gains from `WIDE` on with either.
    """
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    is_wide = width is None or width >= WIDE
    return "bf16" if is_wide and _multiplies_in_half(device) else "fp32"


def _multiplies_in_half(device: torch.device) -> bool:
    """Whether the hardware multiplies in half precision: emulated, that is far slower than fp32."""
    if device.type != "cpu":
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
