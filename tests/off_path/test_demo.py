"""The demo with settings of one's own: each arm stays what its title says."""

import re
from pathlib import Path
from typing import Any

import pytest
from off_path.cli import done
from ruamel.yaml import YAML

pytestmark = pytest.mark.slow
FEW = (
    "work=elsewhere", "data.high_resource=[por]", "data.low_resource=[glg]", "vocabulary.pieces=200", "graph.k=100",
    "model={layers: 1, heads: 2, width: 16, feed_forward: 16, dropout: 0.1}", "benchmark.max_steps=10",
    "training.max_steps=10", "training.validate_every=10", "training.warmup=5", "translation.beam=1",
)  # fmt: skip


def curriculum(folder: Path, run: str) -> dict[str, Any]:
    """The curriculum in the config of a run of the demo."""
    path = folder / "elsewhere" / "runs" / run / "config.yaml"
    config: dict[str, Any] = YAML(typ="safe", pure=True).load(path.read_text())
    return config["curriculum"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo with another way to draw languages and another threshold, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    changed = ("curriculum.sampler={name: temperature, tau: 3}", "curriculum.gate.threshold=0.9")
    told = done(folder, "demo", *FEW, *changed)
    return folder, told.stdout


def test_a_setting_of_the_curriculum_leaves_the_arm_it_is_compared_with_alone(shown: tuple[Path, str]) -> None:
    """Settings of the curriculum are those of the gated arm; the other one stays proportional, as its title says."""
    assert curriculum(shown[0], "proportional")["sampler"] == {"name": "temperature", "tau": 1.0}
    assert curriculum(shown[0], "competence-gate")["sampler"] == {"name": "temperature", "tau": 3.0}


def test_what_to_try_next_names_the_work_folder_of_the_demo(shown: tuple[Path, str]) -> None:
    """Every command that works on what the demo has made is given the folder where that is."""
    following = shown[1].partition("What to try next")[2]
    assert re.search(r"cclm sweep phrasebook .*work=elsewhere", following)
    assert "cclm study phrasebook changes.work=elsewhere" in following
    assert "cclm runs elsewhere" in following
    assert "work/phrasebook" not in following


def test_the_threshold_of_the_demo_can_be_changed(shown: tuple[Path, str]) -> None:
    """It is a setting of the gated arm alone."""
    assert curriculum(shown[0], "competence-gate")["gate"]["threshold"] == 0.9
    assert curriculum(shown[0], "proportional")["gate"] == {"name": "all"}
