"""Moses files: found in the usual layouts, and never truncated to the shorter one."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from parallel_files import pairs_of, put, put_moses

from cclm.data.readers import DataError, Source, inputs, read, splits


@pytest.mark.parametrize(
    "names",
    [
        ("train.aze-eng.eng", "train.aze-eng.aze"),
        ("train.az-en.en", "train.az-en.az"),
        ("train.en-az.en.gz", "train.en-az.az"),
        ("az-en/train.en", "az-en/train.az"),
        ("en-az_Latn/train.en", "en-az_Latn/train.az_Latn"),
        ("aze/train.eng.zst", "aze/train.aze.gz"),
        ("train.EN", "train.AZ"),
    ],
)
def test_the_usual_layouts_of_a_folder_are_found(tmp_path: Path, names: tuple[str, str]) -> None:
    paths = tuple(put(tmp_path, name, text) for name, text in zip(names, ("one\n", "bir\n"), strict=True))
    source = Source("moses", str(tmp_path))
    assert inputs(source, "aze", "train") == paths
    assert pairs_of(source) == [("one", "bir")]


def test_files_are_found_by_a_pattern(tmp_path: Path) -> None:
    for name in ("a/x.train.eng", "a/x.train.aze", "a/x.valid.eng", "a/x.valid.aze"):
        put(tmp_path, name, "text\n")
    source = Source("moses", str(tmp_path / "a" / "x.{split}.{side}"))
    assert splits(source, "aze") == ("train", "dev")


def test_pt_br_between_hyphens_is_recognised(tmp_path: Path) -> None:
    put(tmp_path, "train.pt-br-en.en", "one\n")
    put(tmp_path, "train.pt-br-en.pt-br", "um\n")
    assert pairs_of(Source("moses", str(tmp_path)), "por") == [("one", "um")]


def test_a_tab_inside_a_line_is_text(tmp_path: Path) -> None:
    assert pairs_of(put_moses(tmp_path, [("a\tb", "c")])) == [("a\tb", "c")]


def sentences(number: int) -> list[tuple[str, str]]:
    chance = random.Random(1)
    lengths = [chance.randint(3, 120) for _ in range(number)]
    return [("e" * n, "a" * max(1, round(n * chance.uniform(1.0, 1.4)))) for n in lengths]


@pytest.mark.parametrize("missing", [30, 500, 900])
@pytest.mark.parametrize("side", [0, 1])
def test_files_of_different_length_are_refused_with_the_line_where_they_diverge(
    tmp_path: Path, missing: int, side: int
) -> None:
    pairs = sentences(1000)
    source = put_moses(tmp_path, pairs)
    shorter = [pair[side] for pair in pairs[:missing] + pairs[missing + 1 :]]
    put(tmp_path, f"train.aze-eng.{('eng', 'aze')[side]}", "".join(f"{line}\n" for line in shorter))
    counts = (999, 1000) if side == 0 else (1000, 999)
    pivot, other = tmp_path / "train.aze-eng.eng", tmp_path / "train.aze-eng.aze"
    with pytest.raises(DataError) as error:
        pairs_of(source)
    expected = f"{pivot} has {counts[0]} lines but {other} has {counts[1]}: the files are not parallel; "
    found = re.fullmatch(re.escape(expected) + r"they diverge near line (\d+)", str(error.value))
    assert found
    assert abs(int(found[1]) - missing) <= 25


def test_a_last_line_too_many_has_no_place_where_lengths_part(tmp_path: Path) -> None:
    source = put_moses(tmp_path, sentences(300))
    with (tmp_path / "train.aze-eng.aze").open("a") as file:
        file.write("one more")
    with pytest.raises(DataError, match=r"has 300 lines but .* has 301: .*; they look parallel up to the end of the"):
        pairs_of(source)


def test_an_empty_file_beside_a_full_one_is_refused(tmp_path: Path) -> None:
    source = put_moses(tmp_path, [("a", "b")])
    put(tmp_path, "train.aze-eng.aze", "")
    with pytest.raises(DataError, match=r"has 1 lines but .* has 0: the files are not parallel"):
        pairs_of(source)


def test_a_line_that_is_not_utf8_drops_only_its_pair(tmp_path: Path) -> None:
    put(tmp_path, "train.aze-eng.eng", b"one\nt\xffo\nthree\nfour\n")
    put(tmp_path, "train.aze-eng.aze", b"bir\niki\n\xfe\ndord\n")
    drops: Counter[str] = Counter()
    source = Source("moses", str(tmp_path), on_bad_utf8="drop")
    assert list(read(source, "aze", "train", drops)) == [(1, "one", "bir"), (4, "four", "dord")]
    assert drops == {"invalid UTF-8": 2}
    with pytest.raises(DataError, match=r"train.aze-eng.eng, line 2: not UTF-8: byte 0xff at offset 1 of the line"):
        pairs_of(Source("moses", str(tmp_path)))


def test_a_missing_side_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "train.az-en.en", "one\n")
    expected = r"train.az-en.en has no counterpart: no train text of aze: looked for train.aze-eng.aze, "
    with pytest.raises(DataError, match=expected):
        pairs_of(Source("moses", str(tmp_path)))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent: no such folder; moses text has two files per pair"):
        pairs_of(Source("moses", str(tmp_path / "absent")))


def test_detokenising_uses_the_language_of_each_side(tmp_path: Path) -> None:
    put_moses(tmp_path, [("it &apos;s here .", "Bakı &apos; da .")])
    assert pairs_of(Source("moses", str(tmp_path), detokenize=True)) == [("it's here.", "Bakı'da.")]
