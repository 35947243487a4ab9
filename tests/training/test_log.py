"""The writer of log.jsonl."""

from pathlib import Path

from small_recipe import events

from cclm.formats.log import Train, Validation
from cclm.training.log import LogWriter


def test_a_resumed_log_is_cut_back_to_a_known_length(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.jsonl")
    log.write(Train(step=1, loss=2.0))
    kept = log.sync()
    log.write(Train(step=2, loss=1.0))
    log.close()
    again = LogWriter(tmp_path / "log.jsonl", kept)
    again.write(Train(step=2, loss=1.5))
    again.close()
    assert [event["loss"] for event in events(tmp_path)] == [2.0, 1.5]


def test_nan_is_null_in_the_log(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.jsonl")
    log.write(Validation(step=1, dev_loss={"aze": float("nan"), "tur": 4.0}))
    log.close()
    assert events(tmp_path)[0]["dev_loss"] == {"aze": None, "tur": 4.0}
