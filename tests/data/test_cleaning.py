"""Cleaning and detokenising of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclm.data.cleaning import clean, detokenize


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
def test_cleaning_reports_what_was_removed(text: str, cleaned: str, done: tuple[str, ...]) -> None:
    assert clean(text) == (cleaned, done)


def test_no_character_that_is_removed_or_replaced_is_taken_for_printable() -> None:
    codes = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, *range(0xD800, 0xE000))
    assert all(clean(f"a{chr(code)}b")[1] for code in codes)


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


@pytest.mark.parametrize(
    ("lang", "tokenised", "sentence"),
    [
        ("eng", "Hello , world .", "Hello, world."),
        ("en", "do n't do it !", "don't do it!"),
        ("eng", "I &apos;m sure we &apos;ll see .", "I'm sure we'll see."),
        ("eng", "that &apos;s Tom &apos;s book", "that's Tom's book"),
        (
            "eng",
            "they &apos;ve gone and she &apos;d stay ; you &apos;re here",
            "they've gone and she'd stay; you're here",
        ),
        ("eng", "don &apos;t", "don't"),
        ("eng", "the boys &apos; house", "the boys' house"),
        ("eng", "he said , &quot; Come in ! &quot; and left", 'he said, "Come in!" and left'),
        ("eng", "&quot; One &quot; and &quot; two &quot;", '"One" and "two"'),
        ("eng", "a word &apos; in quotes &apos; here", "a word 'in quotes' here"),
        ("eng", "“ curly ” and ‘ single ’ ones", "“curly” and ‘single’ ones"),
        ("eng", "( in brackets ) and [ square ] and { curly }", "(in brackets) and [square] and {curly}"),
        ("eng", "a state @-@ of @-@ the @-@ art thing", "a state-of-the-art thing"),
        ("eng", "either @/@ or", "either/or"),
        ("eng", "it costs $ 5 , or 20 % more", "it costs $5, or 20% more"),
        ("eng", "many $ and £ signs", "many $ and £ signs"),
        ("eng", "the $", "the $"),
        ("eng", "wait ... what ? !", "wait... what?!"),
        ("eng", "a - b -- c", "a - b -- c"),
        ("eng", "R &amp; D , &lt; b &gt; , &#91; x &#93; , a &#124; b", "R & D, < b >, [x], a | b"),
        ("eng", "&amp;quot; is an entity", "&quot; is an entity"),
        ("eng", "( applause )", "(applause)"),
        ("eng", "( laughter ) . yes", "(laughter). yes"),
        ("eng", "one  two", "one two"),
        ("eng", "", ""),
        ("eng", "plain", "plain"),
        ("eng", "CAN &apos;T stop , WO N&apos;T stop", "CAN'T stop, WON'T stop"),
        ("fra", "l&apos; homme qu&apos; il voit .", "l'homme qu'il voit."),
        ("fr", "Vraiment ? Oui : « bien sûr » !", "Vraiment ? Oui : « bien sûr » !"),
        ("ita", "dell&apos; arte , c&apos; è", "dell'arte, c'è"),
        ("spa", "¿ Qué ? ¡ No !", "¿Qué? ¡No!"),
        ("rus", "« Да » , — сказал он .", "«Да», — сказал он."),
        ("ces", "řekl : „ Ano “ a odešel", "řekl: „Ano“ a odešel"),
        ("tur", "Türkiye &apos; nin başkenti Ankara &apos; dır .", "Türkiye'nin başkenti Ankara'dır."),
        ("aze", "Bakı &apos; da , bəli .", "Bakı'da, bəli."),
        ("bel", "сям &apos; я", "сям'я"),
        ("por", "a guarda @-@ chuva , disse &quot; sim &quot; .", 'a guarda-chuva, disse "sim".'),
        ("zho", "你 好 ， 世界 。 我 用 Python 写", "你好，世界。我用Python写"),
        ("jpn", "私 は 「 学生 」 です 。", "私は「学生」です。"),
        ("kor", "안녕 , 세계 .", "안녕, 세계."),
    ],
)
def test_a_tokenised_sentence_is_put_together(lang: str, tokenised: str, sentence: str) -> None:
    assert detokenize(tokenised, lang) == sentence


@pytest.mark.parametrize("sentence", ["Hello, world.", 'It\'s "fine" (really).', "Bakı'da, bəli."])
def test_a_sentence_that_was_never_tokenised_stays(sentence: str) -> None:
    assert detokenize(sentence, "eng") == sentence
