"""Progress where there is no terminal: a line now and then, with the time that is left."""

import time
from contextlib import suppress

import pytest

from cclm import progress_bar
from cclm.progress_bar import shown


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "SECONDS", 0.05)


def test_a_stage_that_has_only_begun_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with shown({"learning subwords": 9}) as progress:
        progress("learning subwords", 0)
        time.sleep(0.2)
    assert "learning subwords 0 of 9, 0 s\n" in capfd.readouterr().err


def test_the_time_that_is_left_is_estimated_where_the_total_is_known(capfd: pytest.CaptureFixture[str]) -> None:
    with shown({"encoding": "reading"}) as progress:
        progress("reading", 400)
        progress("encoding", 100)
        time.sleep(0.2)
    assert "encoding 100 of 400, 0 s, about" in capfd.readouterr().err


def test_work_that_is_done_soon_is_silent(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "SECONDS", 30.0)
    with shown() as progress:
        progress("reading", 400)
    assert capfd.readouterr().err == ""


def test_an_error_ends_the_reports(capfd: pytest.CaptureFixture[str]) -> None:
    with suppress(ValueError), shown() as progress:
        progress("reading", 1)
        raise ValueError("broken")
    capfd.readouterr()
    time.sleep(0.2)
    assert capfd.readouterr().err == ""
