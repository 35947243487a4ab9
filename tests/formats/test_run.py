"""The small files of a run directory."""

import json
import math
from pathlib import Path

import pytest

from cclm.errors import DataError
from cclm.formats.run import MadeFrom, Timing, read_settings, settings_text, trained_seconds

SAMPLER = {"name": "temperature", "tau": math.inf}
SETTINGS = {"name": "no", "curriculum": {"sampler": SAMPLER}, "languages": ["no", "1e3"]}


def test_settings_are_written_as_yaml_and_read_back_unchanged(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(settings_text(SETTINGS))
    assert (tmp_path / "config.yaml").read_text().startswith("name: ")
    assert read_settings(tmp_path / "config.yaml") == SETTINGS


def test_settings_that_version_0_1_0_wrote_as_json_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(SETTINGS, indent=2))
    assert read_settings(tmp_path / "config.yaml") == SETTINGS


@pytest.mark.parametrize("text", ["{", "- a list", "a: [1", "[" * 100_000, "\0"])
def test_unreadable_settings_are_reported_as_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(DataError, match=r"config\.yaml: damaged: "):
        read_settings(tmp_path / "config.yaml")


def test_an_infinite_setting_survives_made_from_json(tmp_path: Path) -> None:
    MadeFrom(recipe=SETTINGS, data="x", benchmark={"aze": 4.0}).write(tmp_path / "made_from.json")
    assert MadeFrom.read(tmp_path / "made_from.json").recipe == SETTINGS


def test_the_time_of_a_run_is_summed_over_the_processes_that_trained_it(tmp_path: Path) -> None:
    lines = [Timing(event="train", step=1, seconds=seconds) for seconds in (10.0, 25.0, 4.0, 8.0)]  # two processes
    (tmp_path / "timing.jsonl").write_bytes(b"".join(line.line() for line in lines) + b'{"event": "tr')
    assert trained_seconds(tmp_path / "timing.jsonl") == 33.0
