"""Two processes that accelerate launches equal one process with twice the accumulation."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributed_training import main

PROGRAM = Path(__file__).parents[1] / "distributed_training.py"
LAUNCH = [
    sys.executable,
    "-m",
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes",
    "2",
    "--num_machines",
    "1",
]
LAUNCH += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]


def launch(folder: Path, *more: str) -> None:
    path = os.pathsep.join([str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*LAUNCH, str(PROGRAM), str(folder), "1", *more], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return content


def seen(folder: Path, rank: int) -> list[str]:
    return (folder / f"languages.{rank}").read_text().split()


@pytest.mark.slow
def test_two_processes_equal_one_with_twice_the_accumulation_and_resume(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    main(one, 2)
    launch(two)
    assert result(two)["losses"] == pytest.approx(result(one)["losses"], abs=1e-5)
    assert result(two)["dev_loss"] == pytest.approx(result(one)["dev_loss"], abs=1e-5)  # 7 sentences, 4 at a time
    assert result(two)["parameters"] == pytest.approx(result(one)["parameters"], abs=1e-5)
    both = [seen(two, 0), seen(two, 1)]
    assert [lang for pair in zip(*both, strict=True) for lang in pair] == seen(one, 0)
    assert (two / "weights.0").read_text() == (two / "weights.1").read_text()

    whole = result(two)
    for rank in (0, 1):
        (two / f"languages.{rank}").unlink()
    launch(two, str(two / "checkpoint-5"))  # between the rounds at 3 and 6
    assert [seen(two, 0), seen(two, 1)] == [langs[5:] for langs in both]
    for part in ("losses", "parameters", "dev_loss", "weights"):
        assert result(two)[part] == pytest.approx(whole[part], abs=1e-6)
