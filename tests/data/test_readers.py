"""Readers of all formats: round trips, finding files, errors."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parallel_files import COMPRESSIONS, PUT, pairs_of, put, put_tsv

from cclm.data.readers import DataError, Source, inputs, read, splits

# Text that every format can hold: XML has no controls, tables no tabs, TED no empty cells.
TEXT = st.text(st.characters(categories=["L", "M", "N", "P", "S"]), min_size=1, max_size=12)
SENTENCE = st.lists(TEXT, min_size=1, max_size=4).map(" ".join)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format", PUT)
@given(pairs=st.lists(st.tuples(SENTENCE, SENTENCE), max_size=12))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_pairs_come_back_as_they_were_written(
    tmp_path: Path, format: str, compression: str, pairs: list[tuple[str, str]]
) -> None:
    assert pairs_of(PUT[format](tmp_path, pairs, compression)) == pairs


@pytest.mark.parametrize("format", PUT)
def test_reading_is_lazy(tmp_path: Path, format: str) -> None:
    source = PUT[format](tmp_path, [("one", "bir")] * 50_000)
    (path, *_) = inputs(source, "aze", "train")
    with path.open("ab") as file:
        file.write(b"\xff")
    pairs = read(source, "aze", "train", Counter())
    assert next(pairs)[1:] == ("one", "bir")
    with pytest.raises(DataError):
        list(pairs)


@pytest.mark.parametrize("name", ["aze", "az", "AZ", "az_Latn", "az-AZ", "AZE_latn"])
@pytest.mark.parametrize("asked", ["aze", "az", "az_Latn"])
def test_files_are_found_under_any_spelling(tmp_path: Path, name: str, asked: str) -> None:
    path = put(tmp_path, f"{name}.dev.tsv", "one\tbir\n")
    put(tmp_path, "azb.dev.tsv", "")  # South Azerbaijani is another language
    assert inputs(Source("tsv", str(tmp_path)), asked, "dev") == (path,)


def test_files_of_languages_without_a_two_letter_code_are_found(tmp_path: Path) -> None:
    source = Source("tsv", str(tmp_path))
    for name, asked in [("ceb_Latn", "ceb"), ("l1", "l1"), ("Hrl-aa", "hrl-AA")]:
        path = put(tmp_path, f"{name}.train.tsv", "")
        assert inputs(source, asked, "train") == (path,)


def test_two_files_of_one_language_are_refused(tmp_path: Path) -> None:
    one, two = put(tmp_path, "az.train.tsv", ""), put(tmp_path, "aze.train.tsv", "")
    expected = f"{one} and {two} are both train text of aze; remove one of them"
    with pytest.raises(DataError, match=re.escape(expected)):
        splits(Source("tsv", str(tmp_path)), "aze")


@pytest.mark.parametrize("other", ["aze.train.tsv.gz", "aze.train.tsv.zst"])
def test_a_file_beside_its_compressed_self_is_refused(tmp_path: Path, other: str) -> None:
    put_tsv(tmp_path, [])
    put(tmp_path, other, "")
    with pytest.raises(DataError, match=rf"aze.train.tsv and .*{other} are both train text of aze"):
        inputs(Source("tsv", str(tmp_path)), "aze", "train")


def test_dev_beside_valid_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "aze.dev.tsv", "")
    put(tmp_path, "aze.valid.tsv", "")
    with pytest.raises(DataError, match=r"aze.dev.tsv and .*aze.valid.tsv are both dev text of aze"):
        splits(Source("tsv", str(tmp_path)), "aze")


def test_a_given_region_is_not_a_conflict(tmp_path: Path) -> None:
    for name in ("zh-cn", "zh-tw"):
        put(tmp_path, f"{name}.train.tsv", f"one\t{name}\n")
    source = Source("tsv", str(tmp_path))
    assert pairs_of(source, "zh_TW") == [("one", "zh-tw")]
    with pytest.raises(DataError, match="are both train text of zho"):
        pairs_of(source, "zho")


def test_splits_are_those_with_files(tmp_path: Path) -> None:
    source = Source("tsv", str(tmp_path))
    assert splits(source, "aze") == ()
    put(tmp_path, "az.validation.tsv.gz", "")
    put(tmp_path, "az.test.tsv", "")
    assert splits(source, "aze") == ("dev", "test")


def test_a_path_without_split_is_training_text(tmp_path: Path) -> None:
    put(tmp_path, "all.tsv", "one\tbir\n")
    source = Source("tsv", str(tmp_path / "all.tsv"))
    assert splits(source, "aze") == ("train",)
    assert pairs_of(source) == [("one", "bir")]
    with pytest.raises(
        DataError, match=r"no dev text of aze: without \{split\} in the path, all text is training text"
    ):
        pairs_of(source, "aze", "dev")


def test_a_missing_file_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    for i in range(10):
        put(tmp_path, f"l{i}.train.tsv", "")
    expected = (
        f"data.path {tmp_path}: no dev text of aze: looked for aze.dev.tsv (also .gz, .zst) in {tmp_path}, which "
        "contains l0.train.tsv, l1.train.tsv, l2.train.tsv, l3.train.tsv, l4.train.tsv, l5.train.tsv, l6.train.tsv, "
        "l7.train.tsv and 2 more"
    )
    with pytest.raises(DataError, match=re.escape(expected)):
        read(Source("tsv", str(tmp_path)), "aze", "dev", Counter())


def test_a_missing_folder_is_reported_with_its_nearest_parent(tmp_path: Path) -> None:
    expected = f"looked for no/such/aze.tsv (also .gz, .zst) in {tmp_path}, which contains nothing"
    with pytest.raises(DataError, match=re.escape(expected)):
        inputs(Source("tsv", f"{tmp_path}/no/such/{{lang}}.tsv"), "aze", "train")


def test_what_the_system_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    path = f"{tmp_path}/{'x' * 300}/{{lang}}.tsv"
    with pytest.raises(DataError, match=re.escape(f"data.path {path}: File name too long")):
        splits(Source("tsv", path), "aze")


def test_a_folder_may_be_named_by_the_language(tmp_path: Path) -> None:
    put(tmp_path, "az/en-train.tsv", "one\tbir\n")
    assert pairs_of(Source("tsv", f"{tmp_path}/{{lang}}/{{pivot}}-{{split}}.tsv")) == [("one", "bir")]


@pytest.mark.parametrize("lang", ["../x", "a/b", "..", "", "a b", "x" * 65])
def test_a_path_is_not_a_language_name(tmp_path: Path, lang: str) -> None:
    source = Source("tsv", str(tmp_path))
    for ask in (lambda: read(source, lang, "train", Counter()), lambda: splits(source, lang)):
        with pytest.raises(DataError, match="is not a language name"):
            ask()
    with pytest.raises(DataError, match="is not a language name"):
        Source("tsv", str(tmp_path), languages=(lang,))


GOOD: dict[str, Any] = {"format": "tsv", "path": "x"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "xlsx"}, "data.format must be one of moses, tsv, ted, tmx, huggingface; got 'xlsx'"),
        ({"columns": "both"}, "data.columns must be one of pivot-first, other-first; got 'both'"),
        ({"on_bad_utf8": "ignore"}, "data.on_bad_utf8 must be one of error, drop; got 'ignore'"),
        ({"pivot": "e/n"}, "'e/n' is not a language name"),
        ({"detokenize": True}, "data.detokenize is only for ted and moses; got data.format tsv"),
        ({"path": ""}, "data.path '' is not a path"),
        ({"path": "a\0b"}, r"data.path 'a\x00b' is not a path"),
        (
            {"path": "{language}.tsv"},
            "data.path {language}.tsv: unknown placeholder {language}; known placeholders: {lang}, {split}",
        ),
        ({"path": "{0}.tsv"}, "unknown placeholder {0}; known placeholders"),
        ({"path": "{side}.tsv"}, "{side} is only for moses (two files per pair); got data.format tsv"),
        (
            {"format": "moses", "path": "{lang}"},
            "moses text has two files per pair; put {side} where their names differ",
        ),
        ({"path": "{split}.tsv", "languages": ("aze", "bel")}, "one file for 2 languages; put {lang} into the path"),
    ],
)
def test_an_invalid_source_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        Source(**GOOD | changes)


def test_an_invalid_language_or_split_is_refused(tmp_path: Path) -> None:
    source = Source("tsv", str(tmp_path))
    with pytest.raises(DataError, match=r"language en is the pivot \(eng\); a pair needs two languages"):
        read(source, "en", "train", Counter())
    with pytest.raises(DataError, match="split must be one of train, dev, test; got 'valid'"):
        read(source, "aze", "valid", Counter())
