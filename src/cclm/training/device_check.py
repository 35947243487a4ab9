"""Whether training works on a device: its numbers compared with the CPU's, a step, and the speed. Needs no data."""

import copy
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cclm.data.batches import Batch
from cclm.data.vocabulary import BOS, EOS, PAD, SPECIALS
from cclm.errors import TrainingError
from cclm.model.transformer import Shape, Transformer
from cclm.recipe.schema import TrainingSection
from cclm.training.adam import Adam
from cclm.training.device import Device, device_of, why_no_gpu

STEPS = 3
"""Updates whose losses are compared. After more of them rounding alone makes losses differ."""
SMALL = 128
"""Tokens per batch in checks that repeat the computation on a CPU."""
OF_CPU = 1024
"""Tokens per batch whose speed is measured on a CPU, at most: a large model takes seconds for more."""
CLOSE, CLOSE_IN_HALF = 1e-3, 3e-2
"""Largest relative difference of losses and gradients: between devices in fp32, and of half precision to fp32."""
SECONDS = 1.5
"""How long a speed is measured."""
LENGTH = 24
"""Tokens of the longest sentences of the random batches."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Speed:
    """Target tokens per second with these settings."""

    batch_tokens: int
    accumulate: int
    tokens_per_second: float


@dataclass(frozen=True)
class DeviceReport:
    """The results of all checks of a device, and its speed."""

    device: str
    hardware: str
    precision: str
    versions: dict[str, str | None]
    parameters: int
    checks: list[Check] = field(default_factory=list)
    speeds: list[Speed] = field(default_factory=list)
    peak_memory: int | None = None
    """Bytes on a GPU; None on a CPU."""

    @property
    def passed(self) -> bool:
        """Whether every check has passed."""
        return all(check.passed for check in self.checks)


def check_device(name: str, settings: TrainingSection, shape: Shape) -> DeviceReport:
    """Tries out a device with the settings of a recipe and a model of this shape; takes about ten seconds."""
    refuse_without_gpu(name)
    device = device_of(
        name, settings.precision, width=shape.width, deterministic=settings.deterministic, tf32=settings.tf32
    )
    exact = replace(shape, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    trial = _Trial(device, Transformer(exact, 1), random_batch(SMALL, exact), settings)
    tries: dict[str, Callable[[], tuple[bool, str]]] = {
        "agreement with the CPU in fp32": trial.agrees,
        f"agreement of {device.precision} with fp32": trial.agrees_in_precision,
        "a step that is not finite is skipped": trial.skips,
        "the same bytes twice": trial.repeats,
        "the host does not wait for the GPU": trial.waits,
    }
    report = DeviceReport(
        device=str(device.torch),
        hardware=_hardware(device),
        precision=device.precision,
        versions=_versions(),
        parameters=sum(parameter.numel() for parameter in trial.model.parameters()),
        checks=[Check(title, *_tried(attempt)) for title, attempt in tries.items()],
    )
    if report.passed:
        report.speeds.extend(_speeds(device, shape, settings))
    peak = torch.cuda.max_memory_allocated(device.torch) if device.is_gpu else None
    return replace(report, peak_memory=peak)


def refuse_without_gpu(name: str) -> None:
    """Refuses `cuda` where there is none, and says why there may be none."""
    if not name.startswith("cuda") or torch.cuda.is_available():
        return
    raise TrainingError(f"--device {name}: {why_no_gpu()}; `cclm doctor --device cpu` tries the CPU")


def _tried(attempt: Callable[[], tuple[bool, str]]) -> tuple[bool, str]:
    try:
        return attempt()
    except (RuntimeError, NotImplementedError) as error:  # whatever torch raises is a finding
        return False, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


@dataclass(frozen=True)
class _Trial:
    """The checks of a device, with one model and one batch."""

    device: Device
    model: Transformer
    batch: Batch
    settings: TrainingSection

    def agrees(self) -> tuple[bool, str]:
        """Losses and the first gradient in fp32, without TF32."""
        full = replace(self.device, precision="fp32", tf32=False)
        here, there = self._losses(full), self._cpu_losses
        apart = max(abs(a - b) / b for a, b in zip(here, there, strict=True))
        turned = self._gradient_difference(full)
        found = f"losses of {STEPS} steps differ by {apart:.1e}, the gradient by {turned:.1e} (allowed: {CLOSE:.0e})"
        return apart <= CLOSE and turned <= CLOSE, found

    def agrees_in_precision(self) -> tuple[bool, str]:
        """The same in the precision of the training; the loss must fall, too."""
        here, there = self._losses(self.device), self._cpu_losses
        apart = max(abs(a - b) / b for a, b in zip(here, there, strict=True))
        found = f"losses of {STEPS} steps differ by {apart:.1e} (allowed: {CLOSE_IN_HALF:.0e})"
        return apart <= CLOSE_IN_HALF and here[-1] < here[0], found

    def skips(self) -> tuple[bool, str]:
        """A step with `skip` changes neither weights nor the optimizer's state."""
        model = self._placed(self.device)
        optimizer = Adam(model)
        with self.device.in_use():
            self._learn(self.device, model)
            before = [tensor.clone() for tensor in (*model.parameters(), *optimizer.state().values())]
            optimizer.step(1.0, skip=torch.ones((), device=self.device.torch))
            after = [*model.parameters(), *optimizer.state().values()]
        same = all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
        return same, "weights and optimizer are unchanged" if same else "weights or optimizer have changed"

    def repeats(self) -> tuple[bool, str]:
        """A GPU need not compute the same bytes twice, unless `training.deterministic` asks for it."""
        once, again = (self._gradient(self.device) for _ in range(2))
        same = all(torch.equal(a, b) for a, b in zip(once, again, strict=True))
        if same or self.device.deterministic or not self.device.is_gpu:
            return same, "two gradients of one batch are equal" if same else "two gradients of one batch differ"
        return True, "two gradients of one batch differ, as they may: training.deterministic=true makes them equal"

    def waits(self) -> tuple[bool, str]:
        """torch itself reports when the host has to wait."""
        if not self.device.is_gpu:
            return True, "no GPU"
        model = self._placed(self.device)
        optimizer = Adam(model)
        with self.device.in_use():
            self._step(self.device, model, optimizer)  # the first one sets things up
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                try:
                    self._step(self.device, model, optimizer)
                finally:
                    torch.cuda.set_sync_debug_mode("default")
        found = [warning for warning in said if "synchroniz" in str(warning.message)]
        return not found, f"{len(found)} waits in a step"

    @cached_property
    def _cpu_losses(self) -> list[float]:
        return self._losses(Device(torch.device("cpu"), "fp32"))

    def _losses(self, device: Device) -> list[float]:
        """Losses per token of a few steps on one batch."""
        model = self._placed(device)
        optimizer = Adam(model)
        with device.in_use():
            losses = [self._step(device, model, optimizer) for _ in range(STEPS)]
            return [loss / self.batch.target_tokens for (loss,) in device.numbers(losses)]

    def _step(self, device: Device, model: Transformer, optimizer: Adam) -> Tensor:
        loss = self._learn(device, model)
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        optimizer.step(1e-4, skip=(~torch.isfinite(norm + loss)).float())
        optimizer.zero_grad()
        return loss

    def _learn(self, device: Device, model: Transformer) -> Tensor:
        found = device.losses(model, self.batch, self.settings.label_smoothing).smoothed
        (found / self.batch.target_tokens).backward()  # type: ignore[no-untyped-call]
        return found.detach()

    def _gradient_difference(self, device: Device) -> float:
        here, there = self._gradient(device), self._gradient(Device(torch.device("cpu"), "fp32"))
        apart = sum(float((a.cpu() - b).double().square().sum()) for a, b in zip(here, there, strict=True))
        return float((apart / sum(float(b.double().square().sum()) for b in there)) ** 0.5)

    def _gradient(self, device: Device) -> list[Tensor]:
        model = self._placed(device)
        with device.in_use():
            self._learn(device, model)
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    def _placed(self, device: Device) -> Transformer:
        return copy.deepcopy(self.model).to(device.torch)


def _speeds(device: Device, shape: Shape, settings: TrainingSection) -> Iterator[Speed]:
    """The speed of the recipe's batches; on a GPU also that of the same tokens in a single batch."""
    if not device.is_gpu:
        yield _speed(device, shape, min(settings.batch_tokens, OF_CPU), 1)
        return
    yield _speed(device, shape, settings.batch_tokens, settings.accumulate)
    if settings.accumulate > 1:
        try:
            yield _speed(device, shape, settings.batch_tokens * settings.accumulate, 1)
        except torch.OutOfMemoryError:
            return


def _speed(device: Device, shape: Shape, batch_tokens: int, accumulate: int) -> Speed:
    model = Transformer(shape, 1).to(device.torch)
    trial = _Trial(device, model, random_batch(batch_tokens, shape), TrainingSection())
    optimizer, steps, start = Adam(model), 0, time.monotonic()
    with device.in_use():
        while steps < 1 or time.monotonic() - start < SECONDS:
            if steps == 1 and device.is_gpu:  # the first step sets things up
                torch.cuda.synchronize(device.torch)
                start = time.monotonic()
            for _ in range(accumulate - 1):
                trial._learn(device, model)
            trial._step(device, model, optimizer)
            steps += 1
        if device.is_gpu:
            torch.cuda.synchronize(device.torch)
    counted = steps - 1 if device.is_gpu and steps > 1 else steps
    tokens = counted * accumulate * trial.batch.target_tokens
    return Speed(batch_tokens, accumulate, tokens / (time.monotonic() - start))


def random_batch(tokens: int, shape: Shape) -> Batch:
    """Random sentences of similar lengths, as many as fit into this number of tokens per side, padding included."""
    random = np.random.default_rng(1)
    count = max(1, tokens // LENGTH)
    lengths = random.integers(LENGTH - 4, LENGTH + 1, count)
    lengths[0] = LENGTH
    column = np.arange(LENGTH)
    is_real = column < lengths[:, None]
    first = len(SPECIALS)
    source, target = (
        np.where(is_real, random.integers(first, symbols, is_real.shape), PAD)
        for symbols in (max(shape.source_symbols, first + 1), shape.target_symbols)
    )
    source[column == lengths[:, None] - 1] = EOS
    output = np.where(column == lengths[:, None] - 1, EOS, target)
    shifted = np.where(is_real, np.roll(output, 1, axis=1), PAD)
    shifted[:, 0] = BOS
    return Batch(source, shifted, output, np.arange(count))


def _hardware(device: Device) -> str:
    if device.is_gpu:
        found = torch.cuda.get_device_properties(device.torch)
        return f"{found.name}, {found.total_memory / 1e9:.0f} GB, compute capability {found.major}.{found.minor}"
    return f"{platform.machine()}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"


def _versions() -> dict[str, str | None]:
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
