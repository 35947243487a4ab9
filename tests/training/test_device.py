"""Precision: half precision learns what full precision does; overflows in fp16 are stepped over, and not for ever."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe
from torch.utils._python_dispatch import TorchDispatchMode

from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.formats.run import read_settings
from cclm.training import device as devices
from cclm.training import trainer
from cclm.training.device import device_of
from cclm.training.session import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("device")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    return prepared(folder)


def trained(folder: Path, data: Prepared, name: str, *changes: str) -> Path:
    train(recipe(folder, *changes), data, GRAPH, BENCHMARK, folder / name)
    return folder / name


def losses(run: Path) -> list[float]:
    return [event["weighted"] for event in events(run) if event["event"] == "validation"]


def progress(run: Path) -> dict[str, float]:
    latest = (run / "checkpoints" / "latest").read_text().strip()
    content: dict[str, float] = json.loads((run / "checkpoints" / latest / "progress.json").read_text())
    return content


def test_on_a_cpu_auto_is_half_precision_only_where_the_hardware_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for amx, avx, expected in ((False, False, "fp32"), (True, False, "bf16"), (False, True, "bf16")):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda amx=amx: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda avx=avx: avx)
        assert device_of("cpu").precision == expected
    assert device_of("cpu", "bf16").precision == "bf16"


def test_on_a_cpu_auto_is_full_precision_for_narrow_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert device_of("cpu", width=devices.WIDE - 1).precision == "fp32"
    assert device_of("cpu", width=devices.WIDE).precision == "bf16"
    assert device_of("cpu", "bf16", width=16).precision == "bf16"


def test_on_a_cpu_auto_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings for L*, studies and sweeps have one thread, others have several, and all have to agree."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    for width, expected in ((devices.WIDE - 1, "fp32"), (devices.WIDE, "bf16")):
        for threads in (1, 2, 64):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
            assert device_of("cpu", width=width).precision == expected


def without_half_precision(monkeypatch: pytest.MonkeyPatch, without: bool = True) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: not without)


def test_only_half_precision_on_a_processor_without_it_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    without_half_precision(monkeypatch)
    assert {name: device_of("cpu", name).emulates for name in ("auto", "fp32", "bf16", "fp16")} == {
        "auto": False,
        "fp32": False,
        "bf16": True,
        "fp16": True,
    }
    without_half_precision(monkeypatch, without=False)
    assert not device_of("cpu", "bf16").emulates


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_emulated_products_are_the_exact_ones_rounded_once(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    # Whole numbers whose products add up exactly in float32, but are too long for half precision.
    without_half_precision(monkeypatch)
    half = devices.HALVES[precision]
    generator = torch.Generator().manual_seed(1)
    a, b, bias = (torch.randint(-99, 100, shape, generator=generator) for shape in ((4, 7, 31), (4, 31, 5), (5,)))
    exact = a.double() @ b.double()
    x, y = a.to(half), b.to(half)
    with device_of("cpu", precision).in_use():
        assert torch.equal(x @ y, exact.to(half))
        assert torch.equal(x[0] @ y[0], exact[0].to(half))
        assert torch.equal(torch.addmm(bias.to(half), x[0], y[0]), (exact[0] + bias).to(half))
        assert torch.equal(torch.addmm(bias.float(), a[0].float(), b[0].float()).double(), exact[0] + bias)
    assert not torch.equal(exact.to(half).double(), exact)


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes in which types torch multiplies matrices."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in devices.Widened.PRODUCTS:
            self.types |= {operand.dtype for operand in args}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("without", "types"), [(True, {torch.float32}), (False, {torch.bfloat16})])
def test_a_training_multiplies_so_forward_and_backward_and_says_so(
    folder: Path,
    data: Prepared,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    without: bool,
    types: set[torch.dtype],
) -> None:
    without_half_precision(monkeypatch, without)
    monkeypatch.setattr("cclm.model.attention.FEW_SCORES", 0)  # which are multiplied in float32
    with Seen() as seen:
        trained(folder, data, f"emulated-{without}", "training.precision=bf16", "training.max_steps=1")
    assert seen.types == types
    said = "bf16 is emulated: this processor multiplies in fp32 and rounds" in capsys.readouterr().err
    assert said == without


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_what_full_precision_does(folder: Path, data: Prepared, precision: str) -> None:
    full, half = trained(folder, data, "fp32"), trained(folder, data, precision, f"training.precision={precision}")
    assert losses(half) != losses(full)
    assert losses(half) == pytest.approx(losses(full), rel=0.02)  # bits a token, after 10 and 20 steps
    assert progress(half)["skipped"] == 0


def test_a_run_says_which_precision_it_was(folder: Path, data: Prepared) -> None:
    run = trained(folder, data, "auto", "training.precision=auto", "training.max_steps=2")
    made = json.loads((run / "made_from.json").read_text())
    assert made["recipe"]["training"]["precision"] == device_of("cpu", width=16).precision == "fp32"


def test_auto_keeps_the_precision_that_a_run_was_begun_in(folder: Path, data: Prepared) -> None:
    trained(folder, data, "begun", "training.precision=bf16", "training.max_steps=2")
    run = trained(folder, data, "begun", "training.precision=auto", "training.max_steps=4")
    assert read_settings(run / "config.yaml")["training"]["precision"] == "bf16"


def test_an_overflow_halves_the_scale_and_is_stepped_over(
    folder: Path, data: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 2^30 times these gradients is infinite in float16: the scale must come down before the first update is taken.
    monkeypatch.setattr(devices, "FIRST_SCALE", 2.0**30)
    run = trained(folder, data, "overflow", "training.precision=fp16", "training.max_steps=40")
    found = progress(run)
    assert 0 < found["skipped"] < 40
    assert found["scale"] == 2.0 ** (30 - found["skipped"])
    assert losses(run)[-1] < losses(run)[0]


def test_the_scale_grows_after_many_good_updates(folder: Path, data: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "GROWTH", 8)
    run = trained(folder, data, "grown", "training.precision=fp16")
    assert (progress(run)["scale"], progress(run)["scale_age"]) == (devices.FIRST_SCALE * 4, 4)  # 20 updates


def test_a_gradient_that_never_is_finite_ends_the_run_at_the_least_scale(
    folder: Path, data: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda gradients: torch.tensor(torch.inf))
    with pytest.raises(TrainingError, match="step 26: loss or gradient not finite in 10 steps in a row"):
        trained(folder, data, "never", "training.precision=fp16", "training.max_steps=100")  # 16 halvings, then 10


def test_a_device_that_is_not_there_is_refused_before_training_starts(folder: Path, data: Prepared) -> None:
    with pytest.raises(TrainingError, match=r"training\.device 'toaster' cannot be used here"):
        train(recipe(folder, "training.device=toaster"), data, GRAPH, BENCHMARK, folder / "absent")
    assert not (folder / "absent" / "log.jsonl").exists()


def test_a_missing_gpu_is_refused_with_the_reason() -> None:
    reason = r"torch finds \d+ GPU" if torch.cuda.is_available() else re.escape(devices.why_no_gpu())
    with pytest.raises(TrainingError, match=rf"'cuda:99' cannot be used here: {reason}.*; or set training\.device to"):
        devices.refuse_missing("cuda:99")


def test_a_device_can_be_left_to_the_machine(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "training.device=auto", "training.max_steps=2", "training.validate_every=2")
    assert train(settings, data, GRAPH, BENCHMARK, folder / "left") == "all steps are done"
