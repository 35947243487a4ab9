"""The path of CUDA on a pretended GPU (tests/pretended_gpu.py): same numbers as the CPU, and the host never waits."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_recipe import prepared

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or not shutil.which("g++"), reason="needs Linux and g++"),
]
PROGRAM = Path(__file__).parent.parent / "gpu_training.py"


def start(folder: Path, **environment: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.Popen(
        [sys.executable, PROGRAM, folder],
        env=clean | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=540)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gpu")
    prepared(made)
    return made


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    return answer(start(folder))


def test_a_gpu_computes_what_a_cpu_does(found: dict[str, Any]) -> None:
    assert found["gpu"]["losses"] == pytest.approx(found["cpu"]["losses"], rel=1e-6)
    gpu, cpu = found["gpu"]["progress"], found["cpu"]["progress"]
    assert gpu["shown"]["smoothed"] == pytest.approx(cpu["shown"]["smoothed"], rel=1e-6)
    for name in ("counters", "micro", "last_admission", "skipped"):
        assert gpu[name] == cpu[name]


def test_resumed_on_a_gpu_a_training_goes_on_to_the_same_bytes(found: dict[str, Any]) -> None:
    model, optimizer, _ = found["resumed"]["digests"]
    assert [model, optimizer] == found["gpu"]["digests"][:2]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_between_two_displays_the_host_never_waits_for_a_gpu(found: dict[str, Any], precision: str) -> None:
    per_step = found[f"waits {precision}"]  # of two micro-batches
    assert per_step["waits"] == {}
    assert per_step["pageable"] == {}
    assert per_step["pinned"] == {"training/device.py:inputs": 2}


@pytest.mark.parametrize("why", ["fp16", "ema"])
def test_the_scale_of_fp16_and_an_average_cost_one_wait_per_step(found: dict[str, Any], why: str) -> None:
    assert found[f"waits {why}"]["waits"] == {"copy to the host training/device.py:numbers": 1}
    assert found[f"waits {why}"]["pageable"] == {}


def test_a_wait_that_is_added_is_counted(found: dict[str, Any]) -> None:
    assert sum(found["waits added"]["waits"].values()) == 2  # once per micro-batch


def test_kernels_per_step_do_not_grow_unnoticed(found: dict[str, Any]) -> None:
    # Two micro-batches of a model with one layer on each side, and the update: 425 in fp32, 619 in bf16.
    assert sum(found["waits fp32"]["kernels"].values()) <= 430
    assert sum(found["waits bf16"]["kernels"].values()) <= 625


def test_a_gpu_skips_a_step_that_is_not_finite_as_a_cpu_does(found: dict[str, Any]) -> None:
    assert found["gpu nan"]["progress"]["skipped"] == found["cpu nan"]["progress"]["skipped"] == 1
    assert found["gpu nan"]["losses"] == pytest.approx(found["cpu nan"]["losses"], rel=1e-6)


def test_a_gpu_that_skips_every_step_ends_the_training(found: dict[str, Any]) -> None:
    assert "step 11: loss or gradient not finite in 10 steps in a row" in found["never"]


def test_logits_in_chunks_give_the_same_loss_and_gradient_without_a_wait(found: dict[str, Any]) -> None:
    at_once, in_chunks = found["chunks"]["at once"], found["chunks"]["in chunks"]
    assert in_chunks == pytest.approx(at_once, rel=1e-3)  # bf16
    assert in_chunks[-1] == 0


def test_a_cosine_of_gradients_waits_once(found: dict[str, Any]) -> None:
    rewards = found["rewards"]
    assert rewards["gpu"] == pytest.approx(rewards["cpu"], rel=1e-6)
    assert rewards["waits"] == 1
    assert rewards["kernels"] < 20  # for 258 tensors


def test_tf32_is_on_and_cudnn_attention_off_unless_asked_otherwise(found: dict[str, Any]) -> None:
    flags = found["flags"]
    assert flags["default"] == {"tf32": "tf32", "cudnn": False, "deterministic": False, "workspace": None}
    assert flags["exact"] == {"tf32": "ieee", "cudnn": False, "deterministic": True, "workspace": ":4096:8"}
    assert flags["after"] | {"workspace": None} == flags["before"]


def test_a_rank_that_sees_a_single_gpu_takes_it(found: dict[str, Any]) -> None:
    assert found["device of local rank 3"] == "cuda:0"


def test_the_doctor_finds_that_a_gpu_works_and_that_a_model_waits_for_it(found: dict[str, Any]) -> None:
    well, ill = found["doctor"]
    assert {check["name"]: check["passed"] for check in well["checks"]} == dict.fromkeys(
        (check["name"] for check in ill["checks"]), True
    ), well
    assert [(speed["batch_tokens"], speed["accumulate"]) for speed in well["speeds"]] == [(200, 2), (400, 1)]
    assert well["hardware"] == "pretended, 16 GB, compute capability 8.0"
    assert [check["found"] for check in ill["checks"] if not check["passed"]] == ["1 waits in a step"]


def test_two_gpus_sum_gradients_during_the_backward_pass_and_do_not_wait(folder: Path, found: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [start(folder, RANK=str(rank), LOCAL_RANK=str(rank), **common) for rank in (0, 1)]
    first, second = map(answer, processes)
    assert first["overlaps"]
    # One process with twice as many micro-batches per step, on a CPU.
    assert first["losses"] == pytest.approx(found["cpu twice"]["losses"], rel=1e-6)
    assert first["progress"]["counters"] == found["cpu twice"]["progress"]["counters"]
    for rank in (first, second):
        assert rank["waits"]["waits"] == {}
        assert rank["waits"]["pageable"] == {}
