"""Translation memories: text is extracted from markup, and unsafe XML is refused."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest
from parallel_files import pairs_of, put, tmx, unit

from cclm.data.readers import DataError, Source, read, splits


def source(folder: Path, units: str, name: str = "aze.train.tmx") -> Source:
    put(folder, name, tmx(units))
    return Source("tmx", str(folder))


def test_newlines_and_tabs_in_a_segment_become_one_space(tmp_path: Path) -> None:
    assert pairs_of(source(tmp_path, unit(en="one\n   two\tthree", az="bir\r\niki"))) == [("one two three", "bir iki")]


def test_inline_codes_go_and_highlighted_text_stays(tmp_path: Path) -> None:
    text = 'a <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> <hi>high</hi>'
    text += '<ph>{0<sub>x</sub>}</ph><it pos="begin">i</it> z'
    assert pairs_of(source(tmp_path, unit(en=text, az="&lt;ə&amp;&#601;"))) == [("a bold high z", "<ə&ə")]


def test_a_unit_without_one_of_the_languages_is_counted(tmp_path: Path) -> None:
    units = unit(en="one") + unit(en="two", az="iki") + unit(de="drei", az="üç") + "<tu></tu>"
    drops: Counter[str] = Counter()
    assert list(read(source(tmp_path, units), "aze", "train", drops)) == [(2, "two", "iki")]
    assert drops == {"missing translation": 3}


def test_languages_match_by_prefix_in_any_case(tmp_path: Path) -> None:
    units = "".join(
        f'<tu><tuv {attribute}="{en}"><seg>one</seg></tuv><tuv {attribute}="{az}"><seg>bir</seg></tuv></tu>'
        for attribute, en, az in [("xml:lang", "EN-us", "AZ"), ("lang", "eng", "az-Latn-AZ")]
    )
    assert pairs_of(source(tmp_path, units)) == [("one", "bir")] * 2


def test_the_given_region_is_chosen(tmp_path: Path) -> None:
    units = unit(en="bus", **{"pt-PT": "autocarro", "pt-BR": "ônibus"})
    memory = source(tmp_path, units, "pt-en.tmx")
    assert pairs_of(memory, "pt_BR") == [("bus", "ônibus")]
    assert pairs_of(memory, "por") == [("bus", "autocarro")]
    assert splits(memory, "por") == ("train",)


def test_notes_and_properties_are_ignored(tmp_path: Path) -> None:
    units = '<tu><note>n</note><prop type="x">p</prop>' + unit(en="one", az="bir").removeprefix("<tu>")
    assert pairs_of(source(tmp_path, units)) == [("one", "bir")]


def test_utf16_is_read_where_xml_declares_it(tmp_path: Path) -> None:
    put(tmp_path, "aze.train.tmx", tmx(unit(en="one", az="ə")).replace("UTF-8", "UTF-16").encode("utf-16"))
    assert pairs_of(Source("tmx", str(tmp_path))) == [("one", "ə")]


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))


@pytest.mark.parametrize(
    "start",
    [
        LAUGHS + "]>",
        '<!DOCTYPE tmx [<!ENTITY a11 SYSTEM "file://{secret}">]>',
        '<!DOCTYPE tmx SYSTEM "{secret}">',
        '<!DOCTYPE tmx [<!ENTITY % p SYSTEM "file://{secret}"> %p;]>',
        "<!DOCTYPE tmx>",
    ],
)
def test_document_types_and_entities_are_refused_and_nothing_is_read(tmp_path: Path, start: str) -> None:
    secret = put(tmp_path, "secret.txt", "<!ENTITY a11 'secret'>")
    content = f"{start.replace('{secret}', str(secret))}\n<tmx>{unit(en='&a11;', az='b')}</tmx>"
    put(tmp_path, "aze.train.tmx", content)
    begun = time.process_time()
    with pytest.raises(
        DataError, match=r"aze.train.tmx, line 1: document type and entity declarations \(tmx\) are not allowed"
    ):
        pairs_of(Source("tmx", str(tmp_path)))
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<tmx>\n<tu></tmx>", "aze.train.tmx, line 2: not well-formed XML: mismatched tag"),
        ("<tmx>\n<body>", "aze.train.tmx, line 2: not well-formed XML: no element found"),
        ("", "aze.train.tmx, line 1: not well-formed XML: no element found"),
        ("plain text\n", "aze.train.tmx, line 1: not well-formed XML: syntax error"),
        (b"<tmx>\n\xff</tmx>", r"aze.train.tmx, line 2: not well-formed XML: not well-formed \(invalid token\)"),
        ("<tmx>&undefined;</tmx>", "aze.train.tmx, line 1: not well-formed XML: undefined entity"),
        ("<tmx>&#0;</tmx>", "aze.train.tmx, line 1: not well-formed XML: reference to invalid character number"),
        ("\n<html></html>", "aze.train.tmx, line 2: expected <tmx> as the first element, got <html>"),
    ],
)
def test_an_invalid_tmx_file_is_refused_with_its_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    put(tmp_path, "aze.train.tmx", content)
    with pytest.raises(DataError, match=message):
        pairs_of(Source("tmx", str(tmp_path)))


@pytest.mark.parametrize("opening", ["<seg>", "<seg a='", "<!--"])
def test_a_text_or_tag_without_end_is_refused(tmp_path: Path, opening: str) -> None:
    put(tmp_path, "aze.train.tmx", f"<tmx><tu><tuv>{opening}" + "x" * 11_000_000)
    expected = "aze.train.tmx, line 1: a text or tag longer than 10,000,000 bytes; is this a TMX file?"
    with pytest.raises(DataError, match=re.escape(expected)):
        pairs_of(Source("tmx", str(tmp_path)))
