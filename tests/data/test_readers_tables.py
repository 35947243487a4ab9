"""Tab-separated text: two columns, and the TED talks."""

from collections import Counter
from pathlib import Path

import pytest
from parallel_files import pairs_of, put

from cclm.data.readers import DataError, Source, read, splits


def test_either_column_may_be_the_pivots(tmp_path: Path) -> None:
    put(tmp_path, "aze.train.tsv", "one\tbir\r\n")
    assert pairs_of(Source("tsv", str(tmp_path))) == [("one", "bir")]
    assert pairs_of(Source("tsv", str(tmp_path), columns="other-first")) == [("bir", "one")]


def test_quotes_are_ordinary_characters(tmp_path: Path) -> None:
    put(tmp_path, "aze.train.tsv", '"one\t"bir"\n""\t"\n')
    assert pairs_of(Source("tsv", str(tmp_path))) == [('"one', '"bir"'), ('""', '"')]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb\tc", r"aze.train.tsv, line 2: expected 2 columns, got 3; it starts with 'a\\tb\\tc'"),
        ("alone", "aze.train.tsv, line 2: expected 2 columns, got 1; it starts with 'alone'"),
        ("", "aze.train.tsv, line 2: expected 2 columns, got 1; it starts with ''"),
    ],
)
def test_another_number_of_columns_is_refused_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    put(tmp_path, "aze.train.tsv", f"one\tbir\n{line}\n")
    with pytest.raises(DataError, match=message):
        pairs_of(Source("tsv", str(tmp_path)))


def test_an_empty_side_is_a_pair_still(tmp_path: Path) -> None:
    put(tmp_path, "aze.train.tsv", "one\t\n\t\n")
    assert pairs_of(Source("tsv", str(tmp_path))) == [("one", ""), ("", "")]


def test_lines_keep_their_numbers_where_some_are_dropped(tmp_path: Path) -> None:
    put(tmp_path, "aze.train.tsv", b"a\tb\n\xff\tb\nc\td\n")
    drops: Counter[str] = Counter()
    source = Source("tsv", str(tmp_path), on_bad_utf8="drop")
    assert list(read(source, "aze", "train", drops)) == [(1, "a", "b"), (3, "c", "d")]
    assert drops == {"invalid UTF-8": 1}


TED = (
    "talk_name\ten\taz\tpt\tpt-br\n"
    "t1\tThank you .\tTəşəkkür .\t__NULL__\tObrigado .\n"
    "t1\tYes .\t_ _ NULL _ _\tSim , pá .\tSim .\n"
    "t1\t__NULL__\tBəli\t\tSim .\n"
    't2\t" No , "\t__ NULL __\tNão\t \n'
)


def test_absent_cells_never_become_pairs_and_are_counted(tmp_path: Path) -> None:
    put(tmp_path, "all_talks_train.tsv", TED)
    drops: Counter[str] = Counter()
    source = Source("ted", str(tmp_path))
    assert list(read(source, "aze", "train", drops)) == [(2, "Thank you .", "Təşəkkür .")]
    assert drops == {"absent cell": 3}


def test_por_is_the_pt_br_column(tmp_path: Path) -> None:
    put(tmp_path, "all_talks_train.tsv", TED)
    source = Source("ted", str(tmp_path), detokenize=True)
    assert pairs_of(source, "por") == [("Thank you.", "Obrigado."), ("Yes.", "Sim.")]
    assert pairs_of(source, "pt") == [("Yes.", "Sim, pá."), ('"No,"', "Não")]


def test_ted_has_three_splits(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        put(tmp_path, f"all_talks_{split}.tsv", TED)
    assert splits(Source("ted", str(tmp_path)), "aze") == ("train", "dev", "test")


@pytest.mark.parametrize(
    ("content", "lang", "pivot", "message"),
    [
        (TED, "bel", "eng", "all_talks_train.tsv: no column for bel; the columns are en, az, pt, pt-br"),
        (TED, "aze", "deu", "all_talks_train.tsv: no column for deu; the columns are en, az, pt, pt-br"),
        ("talk_name\n", "aze", "eng", "all_talks_train.tsv: no column for eng; the columns are none"),
        (TED + "t3\tshort\n", "aze", "eng", "all_talks_train.tsv, line 6: 2 columns, but the header has 5"),
        (TED + "\n", "aze", "eng", "all_talks_train.tsv, line 6: 1 columns, but the header has 5"),
        (
            "",
            "aze",
            "eng",
            "all_talks_train.tsv: no header; line 1 of a TED file must name the columns: talk_name, en, az",
        ),
        ("a\tb\n", "aze", "eng", "all_talks_train.tsv: no header"),
        (
            "talk_name\ten\taz_Latn\taz_Cyrl\n",
            "aze",
            "eng",
            "all_talks_train.tsv, line 1: az_Latn and az_Cyrl are both aze; remove one of them",
        ),
    ],
)
def test_an_invalid_ted_file_is_refused(tmp_path: Path, content: str, lang: str, pivot: str, message: str) -> None:
    put(tmp_path, "all_talks_train.tsv", content)
    with pytest.raises(DataError, match=message):
        pairs_of(Source("ted", str(tmp_path), pivot=pivot), lang)


def test_a_header_that_is_not_utf8_is_refused_even_if_lines_are_dropped(tmp_path: Path) -> None:
    put(tmp_path, "all_talks_train.tsv", b"talk_name\ten\taz\xff\n" + TED.encode())
    with pytest.raises(DataError, match="no header"):
        pairs_of(Source("ted", str(tmp_path), on_bad_utf8="drop"))
