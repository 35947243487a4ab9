"""`cclm doctor`: reports the problems of all languages at once and changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import data, write_tsv

from cclm.data.doctor import Diagnosis, diagnose


def diagnosis(folder: Path, probe: int = 10, **changes: Any) -> Diagnosis:
    return diagnose(data(folder, **changes), probe=probe, workers=1)


def messages(report: Diagnosis) -> list[str]:
    return [f"{problem.level}: {problem.message}" for problem in report.problems]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "text")
    return tmp_path / "text"


def test_a_healthy_corpus_has_a_row_for_every_language_and_split(text: Path) -> None:
    report = diagnosis(text)
    assert report.healthy
    assert len(report.rows) == 12
    row = next(row for row in report.rows if (row.language, row.split) == ("glg", "train"))
    assert (row.pairs, row.dropped) == (300, {})
    assert row.words["pivot"] == row.words["other"]
    assert row.ratio == 1
    assert set(row.languages) == {"pivot", "other"}


def test_it_changes_nothing(text: Path) -> None:
    before = {path.name: path.read_bytes() for path in text.iterdir()}
    diagnosis(text)
    assert {path.name: path.read_bytes() for path in text.iterdir()} == before
    assert [path.name for path in text.parent.iterdir()] == ["text"]


def test_an_unreadable_language_does_not_hide_the_others(text: Path) -> None:
    (text / "aze.dev.tsv").write_bytes(b"ok\tyaxsi\n\xff\xfe\tx\n")
    with (text / "por.train.tsv").open("a", encoding="utf-8") as file:
        file.write("three\tcolumns\there\n")
    report = diagnosis(text)
    assert not report.healthy
    errors = [problem.message for problem in report.problems if problem.level == "error"]
    assert len(errors) == 2
    assert any("aze.dev.tsv" in error and "line 2" in error for error in errors)
    assert any("por.train.tsv" in error and "line 301" in error for error in errors)
    assert {row.language for row in report.rows} == {"tur", "glg"}


def test_leakage_is_found_across_languages_through_english(text: Path) -> None:
    english = (text / "tur.dev.tsv").read_text(encoding="utf-8").splitlines()[3].split("\t")[0]
    with (text / "glg.train.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{english.upper()} !\talgo\n")
    found = [m for m in messages(diagnosis(text)) if "dev or test set" in m]
    assert found == [
        "warning: train set of glg: 1 pairs whose eng side occurs in a dev or test set of some language;"
        " data.leakage=drop removes them"
    ]
    assert not any("dev or test set" in m for m in messages(diagnosis(text, leakage="drop")))


def test_duplicates_and_copies_are_counted(text: Path) -> None:
    with (text / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("same\tsame\n" * 50)
    found = messages(diagnosis(text))
    assert "warning: train set of aze: 49 pairs (14.0%) are a duplicate; data.duplicates=drop removes them" in found
    copies = "warning: train set of aze: 50 pairs (14.3%) are a copy of the source; data.copies=drop removes them"
    assert copies in found


def test_a_dev_set_smaller_than_the_probe_is_reported(text: Path) -> None:
    found = messages(diagnosis(text, probe=256))
    assert "warning: dev set of aze: 20 pairs; a probe uses all of them instead of 256" in found


def test_missing_splits_are_reported(text: Path) -> None:
    (text / "aze.dev.tsv").unlink()
    (text / "glg.test.tsv").unlink()
    report = diagnosis(text)
    assert not report.healthy
    found = messages(report)
    assert "error: aze has no dev set: add one, or set data.cut.dev=500 to take it from the training text" in found
    assert "warning: glg has no test set: it is not scored and not part of any mean" in found


def test_swapped_columns_are_suspected(text: Path) -> None:
    real = [
        ("The weather was beautiful and we walked along the river.", "Hava güzeldi ve nehir boyunca yürüdük."),
        ("She has been working in this hospital for three years.", "Üç yıldır bu hastanede çalışıyor."),
    ]
    lines = "".join(f"{turkish}\t{english}\n" for english, turkish in real * 20)
    (text / "tur.test.tsv").write_text(lines, encoding="utf-8")
    found = messages(diagnosis(text))
    assert "warning: test set of tur: the sides look swapped; try data.columns=other-first" in found


def test_lines_in_the_wrong_language_are_suspected(text: Path) -> None:
    portuguese = "O tempo estava muito bonito e nós caminhámos ao longo do rio durante horas."
    (text / "tur.test.tsv").write_text(f"The weather was beautiful.\t{portuguese}\n" * 30, encoding="utf-8")
    found = [m for m in messages(diagnosis(text)) if "look like" in m]
    assert found == ["warning: test set of tur: 100% of the other lines look like por, 0% like tur"]


def test_lines_in_the_wrong_language_can_be_dropped(text: Path) -> None:
    portuguese = "O tempo estava muito bonito e nós caminhámos ao longo do rio durante horas."
    with (text / "tur.train.tsv").open("a", encoding="utf-8") as file:
        file.write(f"The weather was beautiful.\t{portuguese}\n" * 5)
    row = next(row for row in diagnosis(text, wrong_language="drop").rows if row.language == "tur")
    assert row.dropped["wrong language"] >= 5


def test_unknown_characters_and_unusual_lengths_are_reported(text: Path) -> None:
    (text / "glg.test.tsv").write_text("house and home\tдом\n" * 5, encoding="utf-8")
    found = messages(diagnosis(text))
    assert "warning: test set of glg: 100.0% of the characters do not occur in the training text" in found
    (text / "glg.test.tsv").write_text("one two three four five six seven eight\tcasa\n" * 5, encoding="utf-8")
    assert any("0.12 words per word of eng: are the files parallel?" in m for m in messages(diagnosis(text)))


def test_an_empty_training_set_is_an_error(text: Path) -> None:
    (text / "aze.train.tsv").write_text("\tboş\n" * 3, encoding="utf-8")
    assert "error: no training text of aze is left: every pair was dropped" in messages(diagnosis(text))


def test_an_empty_side_in_dev_is_kept_and_reported(text: Path) -> None:
    with (text / "aze.dev.tsv").open("a", encoding="utf-8") as file:
        file.write("\tboş\n")
    assert "warning: dev set of aze: 1 pairs with an empty side, which are kept" in messages(diagnosis(text))


def test_the_report_is_plain_json(text: Path) -> None:
    report = json.loads(json.dumps(diagnosis(text).as_json(), allow_nan=False))
    assert report["version"] == 1
    assert report["healthy"] is True
    assert len(report["rows"]) == 12


def test_nothing_is_said_of_a_language_that_the_identifier_does_not_know(text: Path) -> None:
    for split in ("train", "dev", "test"):
        (text / f"aze.{split}.tsv").rename(text / f"xyz.{split}.tsv")
    report = diagnosis(text, low_resource=["xyz", "glg"])
    assert not any("xyz" in m and "look like" in m for m in messages(report))
    assert all("other" not in row.languages for row in report.rows if row.language == "xyz")
