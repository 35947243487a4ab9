"""The files of studies and sweeps: reading and writing again gives the same bytes."""

from pathlib import Path

import pytest

from cclm.errors import DataError
from cclm.formats.study import StudyResults
from cclm.formats.sweep import Sweep

STUDIES = Path(__file__).parent.parent.parent / "docs" / "studies"


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*/results.json")), ids=lambda path: path.parent.name)
def test_results_of_a_study_are_read_and_written_to_the_same_bytes(path: Path) -> None:
    assert StudyResults.read(path).text() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*/sweep.json")), ids=lambda path: path.parent.name)
def test_a_sweep_is_read_and_written_to_the_same_bytes(path: Path) -> None:
    assert Sweep.read(path).text() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value"),
        ("[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("[]", "expected an object, got list"),
        ('{"version": 2}', "version 2; this program reads 1"),
        ('{"version": 1, "study": 3}', "study: expected .*, got 3"),
        ('{"version": 1}', "study is missing"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place_and_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(DataError, match=rf"results.json: {message}.*; run `cclm study` again"):
        StudyResults.read(tmp_path / "results.json")
    assert StudyResults.find(tmp_path / "results.json") is None


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sweep\.json: No such file or directory; run `cclm sweep` again"):
        Sweep.read(tmp_path / "sweep.json")
