"""One tiny run, trained once by the command line; every test gets a copy of its folder."""

import json
import shutil
from pathlib import Path

import pytest
from command import assert_done, cclm
from corpora import write_tsv

RECIPE = """version: 1
name: small
work: work
data: {format: tsv, path: text, high_resource: [tur], low_resource: [aze]}
vocabulary: {pieces: 120}
model: {layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.1}
curriculum: {gate: {threshold: 0.3}, every: 5, dev_sample: 8}
benchmark: {file: table.json}
training: {batch_tokens: 200, accumulate: 1, learning_rate: 0.01, warmup: 10, max_steps: 20, validate_every: 10,
           device: cpu, precision: fp32}
translation: {beam: 1}
"""


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text in two languages, prepared, and a recipe (recipe.yaml) with paths relative to the folder."""
    folder = tmp_path_factory.mktemp("untrained")
    write_tsv(folder / "text", train=150)
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 4.0, "aze": 4.0}}))
    assert_done(cclm("prepare", "recipe.yaml", "--workers", "1", folder=folder))
    return folder


@pytest.fixture(scope="session")
def trained(untrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder after `cclm run`: the run work/runs/small has 20 steps, two checkpoints, scores and a report."""
    folder = tmp_path_factory.mktemp("trained") / "project"
    shutil.copytree(untrained, folder, symlinks=True)
    assert_done(cclm("run", "recipe.yaml", folder=folder))
    return folder


@pytest.fixture
def fresh(untrained: Path, tmp_path: Path) -> Path:
    """A copy of the folder whose data is prepared and in which nothing is trained."""
    return Path(shutil.copytree(untrained, tmp_path / "project", symlinks=True))


@pytest.fixture
def project(trained: Path, tmp_path: Path) -> Path:
    """A copy of the folder with the trained run."""
    return Path(shutil.copytree(trained, tmp_path / "project", symlinks=True))


@pytest.fixture
def run(project: Path) -> Path:
    """The trained run in the project folder."""
    return project / "work" / "runs" / "small"
