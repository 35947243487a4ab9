"""Progress where there is no terminal: a line every half minute, with the time that is left."""

import io

import pytest

from cclm import progress_bar
from cclm.progress_bar import duration, shown


class Clock:
    """Stands in for the time module."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_bar, "time", clock)
    return clock


def test_a_line_every_half_minute_says_how_much_is_done_and_how_long_it_takes(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown({"translating": 4000}) as progress:
        for _ in range(80):  # a second each
            clock.now += 1
            progress("translating", 10)
    # 300 sentences in 30 s: 3,700 more take 370 s; 600 in 60 s: 3,400 more take 340 s.
    assert capsys.readouterr().err == "translating: 300/4,000, 6 min left\ntranslating: 600/4,000, 6 min left\n"


def test_work_that_is_done_within_half_a_minute_prints_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown({"translating": 10}) as progress:
        clock.now += 29
        progress("translating", 10)
    assert capsys.readouterr().err == ""


def test_a_stage_without_a_total_is_counted(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as progress:
        progress("reading", 5)
        clock.now += 30
        progress("reading", 1200)
    assert capsys.readouterr().err == "reading: 1,205\n"


def test_an_error_stream_that_is_closed_or_missing_is_no_error(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    for stream in (Full(), None):
        monkeypatch.setattr("sys.stderr", stream)
        with shown() as progress:
            clock.now += 30
            progress("reading", 1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (121, "2 min"), (7100, "118 min"), (7500, "2 h 05 min")]
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text
