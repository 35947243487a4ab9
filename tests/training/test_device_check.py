"""`cclm doctor --device` on the CPU: what it finds, how it says so, and what it calls a failure."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from small_recipe import recipe

from cclm.cli import device_doctor
from cclm.cli.recipe_commands import cli
from cclm.errors import TrainingError
from cclm.model.transformer import Shape
from cclm.recipe.schema import TrainingSection
from cclm.training import device_check
from cclm.training.device import Device, device_of
from cclm.training.device_check import DeviceReport, Speed, check_device, random_batch, refuse_without_gpu

SHAPE = Shape(40, 50, 1, 2, 16, 32, 0.1, 0.1, 0.1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "SECONDS", 0.0)


def test_a_cpu_agrees_with_itself() -> None:
    report = check_device("cpu", TrainingSection(precision="fp32"), SHAPE)
    assert report.passed
    assert report.checks[0].found.startswith("losses of 3 steps differ by 0.0e+00, the gradient by 0.0e+00")
    assert [(speed.batch_tokens, speed.accumulate) for speed in report.speeds] == [(device_check.OF_CPU, 1)]
    assert report.speeds[0].tokens_per_second > 0


def test_half_precision_is_close_to_full_precision_and_not_equal() -> None:
    half = check_device("cpu", TrainingSection(precision="bf16"), SHAPE).checks[1]
    assert half.passed
    assert half.name == "agreement of bf16 with fp32"
    assert "differ by 0.0e+00" not in half.found


def test_a_device_that_computes_other_numbers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Device.losses

    def wrong(self: Device, *inputs: object) -> object:
        found = right(self, *inputs)  # type: ignore[arg-type]
        return found._replace(smoothed=found.smoothed * 1.01) if self.deterministic else found

    monkeypatch.setattr(Device, "losses", wrong)
    report = check_device("cpu", TrainingSection(precision="fp32", deterministic=True), SHAPE)
    assert not report.passed
    assert [check.passed for check in report.checks] == [False, True, True, True, True]
    assert report.speeds == []


def test_an_error_of_torch_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Device, *inputs: object) -> object:
        raise RuntimeError("no kernel image is available for execution on the device\nand more")

    monkeypatch.setattr(Device, "losses", fails)
    report = check_device("cpu", TrainingSection(), SHAPE)
    assert {check.found for check in report.checks if not check.passed} == {
        "RuntimeError: no kernel image is available for execution on the device"
    }


def test_a_missing_gpu_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    refuse_without_gpu("cpu")
    with pytest.raises(
        TrainingError, match=r"--device cuda: torch .* was built without CUDA.*`cclm doctor --device cpu`"
    ):
        refuse_without_gpu("cuda")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    if not os.path.exists("/dev/nvidia0"):
        with pytest.raises(TrainingError, match="no /dev/nvidia0: no driver, or a container without GPUs"):
            refuse_without_gpu("cuda")
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter([tmp_path]))
    with pytest.raises(TrainingError, match=r"its driver may be too old for CUDA 13\.0"):
        refuse_without_gpu("cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(TrainingError, match="CUDA_VISIBLE_DEVICES hides every GPU"):
        refuse_without_gpu("cuda")


def test_random_batches_are_like_those_of_a_corpus() -> None:
    batch = random_batch(500, SHAPE)
    assert batch.source.size <= 500
    assert (batch.target_input != 0).sum() == batch.target_tokens == (batch.target_output != 0).sum()
    assert (batch.target_input[:, 0] == 1).all()
    ends = (batch.target_output == 2).sum(axis=1)
    assert ends.tolist() == [1] * len(ends)


def test_the_command_prints_a_line_per_check_and_json(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(recipe(tmp_path).model_dump_json())
    told = CliRunner().invoke(cli, ["doctor", str(path), "--device", "auto"])
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    if not torch.cuda.is_available():
        assert lines[0].startswith("no GPU was found: the CPU was tried")
    assert sum(line.startswith("ok ") for line in lines) == 5
    assert lines[-1] == "training works on this device"
    facts = json.loads(CliRunner().invoke(cli, ["doctor", str(path), "--device", "cpu", "--json"]).output)
    assert facts["passed"] is True
    assert facts["device"] == "cpu"
    assert len(facts["checks"]) == 5
    assert facts["speeds"][0]["batch_tokens"] == 200


def test_without_a_recipe_and_a_device_there_is_nothing_to_do() -> None:
    told = CliRunner().invoke(cli, ["doctor"])
    assert told.exit_code == 2
    assert "Missing argument 'RECIPE'" in told.output


def test_advice_and_failures_are_printed() -> None:
    speeds = [Speed(4800, 2, 100_000), Speed(9600, 1, 130_000)]
    report = DeviceReport("cuda:0", "a GPU", "bf16", {"torch": "2.13"}, 5, [], speeds, peak_memory=3_000_000_000)
    lines = list(device_doctor._lines(report, "cuda", 2))
    assert any("the second is 30% faster with as many tokens per update" in line for line in lines)
    assert any("one language per process instead of up to 2" in line.replace("  ", " ") for line in lines)
    assert "memory     3.0 GB of the GPU at most" in lines
    assert "translate  on 2 GPUs" in lines
    failed = replace(report, checks=[device_check.Check("a step", False, "RuntimeError: no")], speeds=[])
    lines = list(device_doctor._lines(failed, "cuda", None))
    assert "FAILED     a step: RuntimeError: no" in lines
    assert "please report the output of the same command with --json" in lines[-1]


def test_the_default_model_is_that_of_the_recipes() -> None:
    assert device_doctor._shape(None) == Shape(8000, 8000, 6, 4, 512, 1024, 0.3, 0.3, 0.3)


def test_a_cpu_needs_no_settings_of_gpus() -> None:
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.fp32_precision
    with device_of("cpu", "fp32", deterministic=True).in_use():
        assert (torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.fp32_precision) == before
