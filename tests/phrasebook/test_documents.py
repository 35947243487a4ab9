"""The examples and tables of docs/phrasebook.md are up to date."""

from pathlib import Path

import pytest

from cclm.phrasebook import Phrasebook
from cclm.phrasebook.__main__ import main, samples

DOCUMENT = Path(__file__).parents[2] / "docs" / "phrasebook.md"


@pytest.mark.slow
def test_the_samples_shown_are_those_generated() -> None:
    assert samples().strip() in DOCUMENT.read_text(encoding="utf-8"), "run `python -m cclm.phrasebook samples`"


def test_the_numbers_of_words_and_templates_are_true(book: Phrasebook) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert f"{len(book.renderers['eng'].language.words)} words and\n{len(book.templates)} templates" in text


def test_every_command_named_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tur", "3", "7"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert main(["templates", "rus"]) == 0
    assert main(["check", "bel"]) == 0
    assert "no errors" in capsys.readouterr().out


def test_an_unknown_command_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert main(["check", "xyz"]) == 1
    assert "has no xyz.txt" in capsys.readouterr().err
