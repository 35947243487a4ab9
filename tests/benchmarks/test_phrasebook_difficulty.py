"""The measure of the phrasebook's difficulty: it trains, translates and prints its table."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_second_of_training_gives_a_row_of_scores() -> None:
    command = [sys.executable, ROOT / "benchmarks" / "phrasebook_difficulty.py", "por", "--seconds", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    *scores, parameters, steps = result.stdout.splitlines()[-1].strip("| ").split(" | ")[1:]
    assert len(scores) == 3
    assert all(0 <= float(score) <= 100 for score in scores)
    assert int(parameters.replace(",", "")) > 800_000
    assert int(steps) >= 1
