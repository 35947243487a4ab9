"""Forms in the language files, compared with tables written by hand."""

from pathlib import Path

import pytest

from cclm.phrasebook import Phrasebook

TABLES = sorted((Path(__file__).parent / "paradigms").glob("*.txt"))
KINDS = ("noun", "verb", "activity", "adjective", "person", "place", "state", "profession")


def rows(path: Path) -> list[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_forms_equal_the_table_written_by_hand(book: Phrasebook, path: Path) -> None:
    words = book.renderers[path.stem].language.words
    wrong = []
    for kind, key, *cells in rows(path):
        for cell in cells:
            form, _, value = cell.partition("=")
            found = words[f"{kind} {key}"].forms.get(form)
            if found != value.replace("_", " "):
                wrong.append(f"{kind} {key} {form}: {found!r} for {value!r}")
    assert not wrong


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_hold_ten_words_of_each_inflected_kind(book: Phrasebook, path: Path) -> None:
    words = book.renderers[path.stem].language.words.values()
    inflected = {word.kind for word in words if len(set(word.forms.values())) > 1}
    held = [kind for kind, *_ in rows(path)]
    assert {"noun", "verb", "activity", "person"} <= inflected
    assert [kind for kind in KINDS if kind in inflected and held.count(kind) < 10] == []


def test_every_language_has_a_table(book: Phrasebook) -> None:
    assert {path.stem for path in TABLES} == set(book.renderers)
