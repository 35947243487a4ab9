"""A pretended GPU: torch takes the path of CUDA, and the numbers are computed on the CPU.

Tensors say that they are on `cuda:0` and carry a CPU tensor with their numbers. Operations that mix devices are
refused, as CUDA refuses them. Kernel launches, host waits and copies are counted. It shows that the path runs, computes
the same numbers and does not wait; it says nothing about speed, memory or the kernels of a real GPU.

A program imports this module before torch: the library beside it must be loaded first.

    from pretended_gpu import counts, gpu
    with gpu():
        train(...)
    print(counts.waits)
"""

import contextlib
import ctypes
import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SOURCE = Path(__file__).with_suffix(".cpp")


def library() -> Path:
    """The compiled library, made once per installed torch and version of its source. It finds torch by its path."""
    torch_folder = Path(sysconfig.get_paths()["purelib"]) / "torch"
    version = (torch_folder / "version.py").read_bytes()
    name = hashlib.sha256(SOURCE.read_bytes() + version + bytes(torch_folder)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"cclm-pretended-gpu-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    built = folder / f"{name}.so"
    if not built.exists():
        staged = folder / f"{name}.{os.getpid()}"
        includes = [f"-I{torch_folder / 'include'}", f"-I{torch_folder / 'include/torch/csrc/api/include'}"]
        libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch_folder / 'lib'}"]
        command = ["g++", "-shared", "-fPIC", "-O0", "-std=c++20", *includes, str(SOURCE), *libraries, "-o", staged]
        subprocess.run(command, check=True)
        staged.replace(built)
    return built


assert "torch" not in sys.modules, "import pretended_gpu before torch"
ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)

import torch  # noqa: E402
import torch.cuda.amp.common  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

aten = torch.ops.aten
DEVICE = torch.device("cuda", 0)
COPIES = (aten._to_copy.default, aten.copy_.default)
WITH_INDICES = (aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default)
"""CUDA copies indices that are on the CPU itself."""
WAITING = {"nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim", "unique_consecutive"}
"""Operations whose result the host must know: its shape, or its value."""
NO_KERNEL = {
    "alias", "as_strided", "detach", "empty", "empty_like", "empty_strided", "expand", "is_same_size", "lift_fresh",
    "new_empty", "new_empty_strided", "permute", "select", "slice", "split", "split_with_sizes", "squeeze", "t",
    "transpose", "unbind", "unsqueeze", "view", "_unsafe_view", "_reshape_alias", "_local_scalar_dense", "allreduce_",
}  # fmt: skip


class Counts:
    """What the device was asked to do: kernels by name, waits and copies by the place in our code."""

    def __init__(self) -> None:
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.pageable: Counter[str] = Counter()
        self.pinned: Counter[str] = Counter()

    def clear(self) -> None:
        for counter in vars(self).values():
            counter.clear()

    def wait(self, what: str) -> None:
        self.waits[f"{what} {place()}"] += 1
        if sync_debug_mode == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)


counts = Counts()
sync_debug_mode = "default"


def set_sync_debug_mode(mode: str) -> None:
    global sync_debug_mode
    sync_debug_mode = mode


def place() -> str:
    """The innermost line of cclm that led here."""
    for frame in reversed(traceback.extract_stack()):
        if "/cclm/" in frame.filename:
            return f"{frame.filename.rpartition('/cclm/')[2]}:{frame.name}"
    return "elsewhere"


class OnGpu(torch.Tensor):
    """A tensor on the pretended GPU."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, numbers: torch.Tensor) -> "OnGpu":
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, numbers.size(), strides=numbers.stride(), storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype, layout=numbers.layout, device=DEVICE,
        )  # fmt: skip
        made.numbers = numbers
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnGpu({self.numbers})"

    def untyped_storage(self) -> torch.UntypedStorage:
        raise NotImplementedError  # safetensors then asks for `data_ptr`

    def data_ptr(self) -> int:
        return self.numbers.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Factories(TorchDispatchMode):
    """Sees operations without a tensor on the GPU, too: those that create one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.partition("::")[2]
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_gpu = [tensor for tensor in tensors if isinstance(tensor, OnGpu)]
    target = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
    if not on_gpu and (target != "cuda" or name in ("_pin_memory", "is_pinned")):
        return func(*args, **kwargs)
    _refuse_mixed(func, args, [tensor for tensor in tensors if not isinstance(tensor, OnGpu)], on_gpu)
    _count(func, name, args, target, bool(on_gpu))
    inner_args, inner = tree_map_only(OnGpu, lambda tensor: tensor.numbers, (args, kwargs))
    if target is not None:
        inner = {**inner, "device": torch.device("cpu")}
    result = _computed(func, inner_args, inner)
    if func is aten._local_scalar_dense.default:
        return result
    if func in COPIES and (target == "cpu" or (func is aten.copy_.default and not isinstance(args[0], OnGpu))):
        return args[0] if func is aten.copy_.default else result.clone()
    wrapped = tree_map_only(torch.Tensor, lambda tensor: tensor if isinstance(tensor, OnGpu) else OnGpu(tensor), result)
    if not on_gpu or func is aten._to_copy.default or name == "allreduce_":
        return wrapped
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _refuse_mixed(func: Any, args: Any, on_cpu: list[torch.Tensor], on_gpu: list[OnGpu]) -> None:
    """As CUDA: a CPU tensor beside one on the GPU must be a single number, an index, or one end of a copy."""
    if not on_gpu or func in COPIES or (func in WITH_INDICES and isinstance(args[0], OnGpu)):
        return
    if any(tensor.dim() > 0 for tensor in on_cpu):
        raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu: {func}")


def _count(func: Any, name: str, args: Any, target: str | None, has_gpu: bool) -> None:
    if name not in NO_KERNEL:
        counts.kernels[name] += 1
    if func is aten._local_scalar_dense.default or name in WAITING:
        counts.wait(name)
    if func is aten.index.Tensor and any(i is not None and i.dtype == torch.bool for i in args[1]):
        counts.wait("index by mask")
    if func not in COPIES:
        return
    to, source = (args[0], args[1]) if func is aten.copy_.default else (None, args[0])
    to_gpu = isinstance(to, OnGpu) if to is not None else target == "cuda"
    if has_gpu and not to_gpu and (to is not None or target == "cpu"):
        counts.wait("copy to the host")
    elif to_gpu and not isinstance(source, OnGpu) and source.dim() > 0:
        (counts.pinned if source.is_pinned() else counts.pageable)[place()] += 1


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on the numbers. Some kernels of CUDA convert half precision themselves, those of CPUs do not."""
    if func in (aten._softmax.default, aten._log_softmax.default) and args[2]:
        return func(args[0].float(), args[1], False)
    if func is aten._softmax_backward_data.default and args[3] == torch.float16:
        return func(*args[:3], torch.float32).half()
    return func(*args, **kwargs)


class _FusedAttention(torch.autograd.Function):
    """Attention as one kernel forward and one backward."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, causal: bool, rate: float) -> Any:
        counts.kernels["attention"] += 1
        if mask is not None and mask.dtype == torch.bool:
            counts.kernels["attention's conversion of a boolean mask"] += 3  # zeros, not, masked_fill
        with torch.enable_grad():
            ctx.inputs = [tensor.numbers.detach().float().requires_grad_() for tensor in (query, key, value)]
            q, k, v = ctx.inputs
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            if mask is not None:
                hidden = torch.zeros(()).masked_fill(~mask.numbers, -torch.inf) if mask.dtype == torch.bool else None
                scores = scores + (mask.numbers if hidden is None else hidden)
            if causal:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
            weights = scores.softmax(-1)
            ctx.output = (weights * (torch.rand(weights.shape) >= rate) / (1 - rate) if rate else weights) @ v
        ctx.dtype = query.dtype
        return OnGpu(ctx.output.detach().to(query.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        counts.kernels["attention backward"] += 1
        with torch.enable_grad():
            found = torch.autograd.grad(ctx.output, ctx.inputs, gradient.numbers.float())
        return (*(OnGpu(tensor.to(ctx.dtype)) for tensor in found), None, None, None)


class _Attention(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and isinstance(args[0], OnGpu):
            mask = kwargs.get("attn_mask")
            if mask is not None and mask.dtype not in (torch.bool, args[0].dtype):
                raise RuntimeError(f"Expected attn_mask dtype to be bool or to match query dtype, but got {mask.dtype}")
            rest = (kwargs.get("is_causal", False), kwargs.get("dropout_p", 0.0))
            return _FusedAttention.apply(*args[:3], mask, *rest)
        return func(*args, **kwargs)


@contextlib.contextmanager
def gpu(count: int = 1) -> Iterator[Counts]:
    """torch has CUDA inside this context. Its collective operations go through gloo."""
    torch.cuda._lazy_init = lambda: None  # type: ignore[assignment]
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_available = lambda: True  # type: ignore[assignment]
    torch.cuda.device_count = lambda: count  # type: ignore[assignment]
    torch.cuda.is_initialized = lambda: True  # type: ignore[assignment]
    torch.cuda.is_bf16_supported = lambda including_emulation=True: True  # type: ignore[assignment]
    torch.cuda.manual_seed_all = lambda seed: None  # type: ignore[assignment]
    torch.cuda.set_device = lambda device: None
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.set_sync_debug_mode = set_sync_debug_mode
    torch.cuda.max_memory_allocated = lambda device=None: 0
    torch.cuda.get_device_properties = lambda device=None: SimpleNamespace(
        name="pretended", total_memory=16_000_000_000, major=8, minor=0
    )
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    new_group = dist.new_group
    dist.new_group = lambda *ranks, backend=None, **options: new_group(*ranks, backend="gloo", **options)
    with _Factories(), _Attention():  # type: ignore[no-untyped-call]
        yield counts
