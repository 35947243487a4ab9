"""Trained runs to serve, shared by the tests of this folder: nothing changes them."""

from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run

SETTINGS = ["translation={beam: 2, length_penalty: 1.0}", "training.max_steps=120", "training.validate_every=120"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_tsv(folder / "text", train=120)
    return folder


@pytest.fixture(scope="session")
def both_ways(folder: Path) -> Path:
    joint = ["data.direction=many-to-many", "vocabulary.joint=true", "name=both-ways"]
    return trained_run(folder, f"work={folder}/both", *joint, "curriculum={gate: {name: all}}", *SETTINGS)


@pytest.fixture(scope="session")
def into_english(folder: Path) -> Path:
    return trained_run(folder, "name=into-english", *SETTINGS)
