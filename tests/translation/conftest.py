"""Trained runs to translate with, shared by the tests of this folder: nothing changes them."""

from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run

SETTINGS = ["translation={beam: 2, length_penalty: 1.0}", "training.max_steps=120", "training.validate_every=60"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_tsv(folder / "text", train=120)
    return folder


@pytest.fixture(scope="session")
def into_english(folder: Path) -> Path:
    return trained_run(folder, *SETTINGS)


@pytest.fixture(scope="session")
def both_ways(folder: Path) -> Path:
    joint = ["data.direction=many-to-many", "vocabulary.joint=true"]
    return trained_run(folder, f"work={folder}/both", *joint, "curriculum={gate: {name: all}}", *SETTINGS)


@pytest.fixture(scope="session")
def out_of_english(folder: Path) -> Path:
    """One-to-many, restricted to the subwords of the target language."""
    restricted = ["translation.restrict=true", "training.max_steps=60"]
    return trained_run(
        folder,
        f"work={folder}/out",
        "data.direction=one-to-many",
        "curriculum={gate: {name: all}}",
        *SETTINGS,
        *restricted,
    )


@pytest.fixture(scope="session")
def into_english_jointly(folder: Path) -> Path:
    """Many-to-one, with one vocabulary for both sides."""
    return trained_run(folder, f"work={folder}/joint", "vocabulary.joint=true", *SETTINGS, "training.max_steps=60")
