"""log.jsonl: events are written and read as typed objects; incomplete and invalid lines are detected."""

import json
import math
from pathlib import Path

import pytest

from cclm.errors import DataError
from cclm.formats.log import (
    Admitted,
    FileTail,
    Log,
    Other,
    Probe,
    Saved,
    Stopped,
    Train,
    Validation,
    event_of,
    events_backwards,
)

LINES = [
    '{"event": "train", "step": 10, "loss": 2.5, "nll": 2.0, "learning_rate": 0.001, "draws": {"tur": 3},'
    ' "tokens": {"tur": 900}, "skipped": 0}',
    '{"event": "probe", "step": 10, "dev_loss": {"tur": 4.5}, "competence": {"tur": null}, "hrls_competence": {},'
    ' "weights": {"tur": 1.0}, "admitted": ["tur"], "gradient_cosine": {"tur": {"tur": 1.0}}}',
    '{"event": "admitted", "step": 20, "language": "aze", "reason": "ready", "hrls_competence": 0.9,'
    ' "threshold": 0.8, "vouched": {"tur": 0.9}}',
    '{"event": "validation", "step": 20, "dev_loss": {"tur": 4.0}, "nll": {"tur": 3.0}, "weighted": 4.0,'
    ' "macro": 4.0, "worst": {"language": "tur", "loss": 4.0}}',
    '{"event": "saved", "step": 20}',
    '{"event": "stopped", "step": 20, "reason": "all steps are done", "best": 20}',
    '{"event": "celebrated", "step": 20, "cake": true}',
]


def log(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + end)
    return path


def test_every_event_is_written_as_it_was_read() -> None:
    for line in LINES:
        assert event_of(json.loads(line), "here").line().decode() == line + "\n"


def test_events_are_objects_of_their_kind(tmp_path: Path) -> None:
    found = Log.read(log(tmp_path, *LINES))
    assert [type(event) for event in found.events] == [Train, Probe, Admitted, Validation, Saved, Stopped, Other]
    assert found.admissions == {"aze": 20}
    assert found.tokens == 900
    assert found.best is not None
    assert found.best.macro == 4.0


def test_numbers_that_json_has_not_are_null() -> None:
    event = Probe(step=1, dev_loss={"tur": math.nan, "aze": math.inf})
    assert event.line() == b'{"event": "probe", "step": 1, "dev_loss": {"tur": null, "aze": null}}\n'


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    assert len(Log.read(log(tmp_path, *LINES, '{"event": "tra', end="")).events) == len(LINES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("\0\0\0", "line 1: not JSON"),
        ("7", "line 1: not an event"),
        ('{"step": 1}', "line 1: not an event"),
        ('{"event": "probe"}', "line 1: probe event: step is missing"),
        ('{"event": "probe", "step": "x"}', "probe event: step: expected a valid integer, got 'x'"),
        ('{"event": "probe", "step": -1}', "step: expected greater than or equal to 0, got -1"),
        ('{"event": "probe", "step": 1, "weights": {"tur": "x"}}', r"weights.tur: expected .*, got 'x'"),
        ('{"event": "admitted", "step": 1}', "admitted event: language is missing"),
    ],
)
def test_a_line_that_is_not_an_event_is_refused_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Log.read(log(tmp_path, line, *LINES))


def test_a_missing_log_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"log\.jsonl: No such file"):
        Log.read(tmp_path / "log.jsonl")


def test_a_log_without_an_end_has_no_best(tmp_path: Path) -> None:
    assert Log.read(log(tmp_path, *LINES[:4])).best is None


def test_events_come_backwards_from_a_log_of_many_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"event": "saved", "step": step, "note": "x" * (step % 700)}) for step in range(1000)]
    path.write_text("".join(f"{line}\n" for line in lines) + '{"event": "torn", "st')
    assert [event.step for event in events_backwards(path)] == list(range(999, -1, -1))
    path.write_text("")
    assert list(events_backwards(path)) == []
    path.write_text("no newline")
    assert list(events_backwards(path)) == []


def test_a_tail_gives_complete_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = FileTail(path)
    assert tail.new() == (False, [])  # not there yet
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.new() == (False, [b"one", b"two"])
    assert tail.new() == (False, [])
    with path.open("ab") as file:
        file.write(b"ee\n")
    assert tail.new() == (False, [b"three"])


def test_a_tail_reads_no_more_than_it_is_asked_for_and_never_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"aa\nbb\n" + b"c" * 50 + b"\ndd\n")
    tail = FileTail(path)
    assert tail.new(7) == (False, [b"aa", b"bb"])
    assert tail.new(7)[1][0] == b"c" * 50  # longer than that, and still one line


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (b"one\ntwo\nTHREE\n", (True, [b"one", b"two", b"THREE"])),  # continued differently
        (b"one\n", (True, [b"one"])),  # cut back
        (b"", (True, [])),
        (b"one\ntwo\nthree\nfour\n", (False, [b"four"])),  # cut back and repeated to the byte, unnoticed
    ],
)
def test_a_tail_notices_that_its_file_has_become_another(
    tmp_path: Path, after: bytes, expected: tuple[bool, list[bytes]]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo\nthree\n")
    tail = FileTail(path)
    tail.new()
    path.write_bytes(after)
    assert tail.new() == expected
    assert tail.new() == (False, [])
