"""What reaches SentencePiece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclm.data.cleaning import clean


@pytest.mark.parametrize(
    ("text", "cleaned", "done"),
    [
        ("Salam, dünya!", "Salam, dünya!", ()),
        ("  both ends \u3000", "both ends", ()),
        ("mark\ufeff inside", "mark inside", ("byte order marks",)),
        ("nul\x00 bell\x07 csi\x9b del\x7f", "nul bell csi del", ("control characters",)),
        ("half \ud800 pair", "half  pair", ("lone surrogates",)),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\tj\rk\nl", "a b c d e f g h i j k l", ("separators",)),
        ("\ufeff\x00\t", "", ("byte order marks", "control characters")),
        ("a\x00\tb", "a b", ("control characters", "separators")),
        ("zero\u200dwidth\u200cjoiners", "zero\u200dwidth\u200cjoiners", ()),
    ],
)
def test_what_is_done_to_a_text_is_said(text: str, cleaned: str, done: tuple[str, ...]) -> None:
    assert clean(text) == (cleaned, done)


@given(st.text(st.characters(), max_size=40))
def test_clean_text_is_one_line_of_valid_utf8_and_stays_as_it_is(text: str) -> None:
    cleaned, _ = clean(text)
    cleaned.encode()
    assert len(cleaned.splitlines()) <= 1
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\ufeff" for c in cleaned)
    assert clean(cleaned) == (cleaned, ())


@given(st.text(st.characters(categories=["L", "N", "P"]), max_size=40))
def test_ordinary_text_is_untouched(text: str) -> None:
    assert clean(text) == (text, ())
