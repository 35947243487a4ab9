"""The work folder that a run belongs to, by its path alone."""

from pathlib import Path

import pytest

from cclm.formats.run_folder import RECIPE, work_of


@pytest.fixture(params=["work", "cache"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A work folder with prepared data, a run, bitext models, and the links to the current ones."""
    work: Path = tmp_path / request.param
    bitext = work / "cache" / "benchmark" / "0123456789abcdef"
    for folder in (work / "cache" / "prepared" / "fedcba9876543210", work / "runs" / "small", bitext / "tur"):
        folder.mkdir(parents=True)
    (bitext / RECIPE).write_text("{}")
    (work / "prepared").symlink_to("cache/prepared/fedcba9876543210")
    (work / "runs" / "bitext").symlink_to("../cache/benchmark/0123456789abcdef")
    return work


@pytest.mark.parametrize(
    "run",
    [
        "runs/small",
        "runs/bitext",
        "runs/bitext/tur",
        "cache/benchmark/0123456789abcdef",
        "cache/benchmark/0123456789abcdef/tur",
    ],
)
def test_runs_and_bitext_models_know_their_work_folder(work: Path, run: str) -> None:
    assert work_of(work / run) == work


def test_bitext_models_know_their_work_folder_before_a_link_points_at_any_data(work: Path) -> None:
    (work / "prepared").unlink()
    assert work_of(work / "cache" / "benchmark" / "0123456789abcdef") == work
