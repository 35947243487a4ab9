"""A few hundred steps of the soak: nothing grows; and what would grow is noticed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from soak import Reading, grown  # noqa: E402

FLAT = [Reading(100 * i, 500 + i % 3, 4, 40, 2 + i % 2) for i in range(1, 13)]


def test_what_comes_and_goes_is_flat() -> None:
    assert grown(FLAT) == []


@pytest.mark.parametrize(
    ("what", "by"),
    [("megabytes", 5.0), ("threads", 1), ("open_files", 1), ("checkpoints", 1)],
    ids=lambda value: str(value),
)
def test_what_grows_is_named(what: str, by: float) -> None:
    growing = [replace(reading, **{what: getattr(reading, what) + by * i}) for i, reading in enumerate(FLAT)]
    assert grown(growing) == [what]


def test_too_few_readings_say_nothing() -> None:
    with pytest.raises(SystemExit, match="3 readings are too few"):
        grown(FLAT[:3])


@pytest.mark.slow
def test_nothing_grows_in_a_training(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--steps", "400", "--every", "20", "--languages", "20"]
    done = subprocess.run([*command, "--work", str(tmp_path / "soak")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "flat"
    assert "admitted" in (tmp_path / "soak" / "runs" / "soak" / "log.jsonl").read_text()
