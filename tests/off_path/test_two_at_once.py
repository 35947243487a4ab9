"""The same command twice at once in one work folder: the second waits for the first, and finds everything done."""

import re
import socket
from pathlib import Path

import pytest
from off_path.cli import contents, copy_of, done, finish, start_warm, trainings, wait_for, write_text

pytestmark = pytest.mark.slow
STEPS = ["training.max_steps=40", "training.validate_every=20", "benchmark.max_steps=40"]
STUDY = """version: 1
name: mini
recipe: recipe.yaml
changes: {training.max_steps: 40, training.validate_every: 20, benchmark.max_steps: 40}
seeds: [1]
arms:
  bitext: {}
  proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 1}}
  ccl-m: {}
"""
COMMANDS = {
    "prepare": ["prepare", "recipe.yaml"],
    "benchmark": ["benchmark", "recipe.yaml", *STEPS],
    "train": ["train", "recipe.yaml", *STEPS],
    "run": ["run", "recipe.yaml", *STEPS],
    "sweep": ["sweep", "recipe.yaml", *STEPS, "--threshold", "0.3", "--threshold", "9", "--aggregate", "max"],
    "study": ["study", "mini.yaml"],
}
CLOCKS = re.compile(r"(^|/)(timing\.jsonl|environment\.json)$|^studies/\w+/report\.(md|html)$")
"""Files with times in them. The report of a study says how many seconds its trainings took."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text, a recipe and a study."""
    folder = tmp_path_factory.mktemp("text")
    write_text(folder)
    (folder / "mini.yaml").write_text(STUDY)
    return folder


def result(folder: Path) -> dict[str, str]:
    """All that the command has made, but for the files that say when and how fast."""
    return {path: digest for path, digest in contents(folder / "work").items() if not CLOCKS.search(path)}


@pytest.mark.parametrize("name", COMMANDS)
def test_two_that_start_together_come_to_what_one_alone_makes(text: Path, tmp_path: Path, name: str) -> None:
    alone, together = copy_of(text, tmp_path / "alone"), copy_of(text, tmp_path / "together")
    expected = done(alone, *COMMANDS[name])
    both = [start_warm(together, *COMMANDS[name]) for _ in range(2)]
    ended = [finish(process) for process in both]
    assert [end.returncode for end in ended] == [0, 0], [end.stderr for end in ended]
    assert result(together) == result(alone)
    if name in ("benchmark", "run"):
        assert [end.stdout for end in ended] == [expected.stdout] * 2


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "prepare"])
def test_the_second_says_for_whom_it_waits(text: Path, tmp_path: Path, name: str) -> None:
    folder = copy_of(text, tmp_path)
    first = start_warm(folder, *COMMANDS[name])
    wait_for(lambda: trainings(folder / "work"), first)
    second = done(folder, *COMMANDS[name])
    assert finish(first).returncode == 0
    assert re.search(rf"waiting for {first.pid}@{re.escape(socket.gethostname())}, which works on work/", second.stderr)
