"""Text as sentences: divided where they end, whole where that is not clear, and the same again when put together."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclm.phrasebook.corpus import Phrasebook, generate
from cclm.translation.sentences import LONG, divide

DIVIDED = [
    ("Tom left. Ann stayed! Why? I forgot…  Well.", ["Tom left.", "Ann stayed!", "Why?", "I forgot…", "Well."]),
    ('He said "Stop! Now!" and ran. "Go." Then what?', ['He said "Stop! Now!" and ran.', '"Go."', "Then what?"]),
    ("¿Qué? ¡Nada! Olá.", ["¿Qué?", "¡Nada!", "Olá."]),
    ("In 1999. Then 2000 came.", ["In 1999.", "Then 2000 came."]),
    ("Как дела? Хорошо. «Да». Нет.", ["Как дела?", "Хорошо.", "«Да».", "Нет."]),
    ("Bakıda yaşayıram. İndi gedirəm.", ["Bakıda yaşayıram.", "İndi gedirəm."]),
    ("Γεια σου. Τι κάνεις; Καλά.", ["Γεια σου.", "Τι κάνεις;", "Καλά."]),
    ("Բարև։ Ինչպես ես։", ["Բարև։", "Ինչպես ես։"]),
    ("გამარჯობა. როგორ ხართ? კარგად.", ["გამარჯობა.", "როგორ ხართ?", "კარგად."]),
    ("שלום לכולם. מה שלומך? טוב.", ["שלום לכולם.", "מה שלומך?", "טוב."]),
    ("كيف حالك؟ أنا بخير. شكرا", ["كيف حالك؟", "أنا بخير.", "شكرا"]),
    ("یہ کتاب ہے۔ وہ نہیں۔", ["یہ کتاب ہے۔", "وہ نہیں۔"]),
    ("यह है। वह नहीं। क्या?", ["यह है।", "वह नहीं।", "क्या?"]),
    ("ሰላም ነው። ደህና ነህ፧ አዎ።", ["ሰላም ነው።", "ደህና ነህ፧", "አዎ።"]),
    ("နေကောင်းလား။ ဟုတ်ကဲ့။", ["နေကောင်းလား။", "ဟုတ်ကဲ့။"]),
    ("សួស្តី។ អរគុណ។", ["សួស្តី។", "អរគុណ។"]),
    ("他走了。你好吗？好！", ["他走了。", "你好吗？", "好！"]),
    ("「はい。」「いいえ。」", ["「はい。」", "「いいえ。」"]),
    ("안녕하세요. 잘 지내요? 네.", ["안녕하세요.", "잘 지내요?", "네."]),
    ("one line\nanother line\r\n\r\n  a third", ["one line", "another line", "a third"]),
]  # fmt: skip
WHOLE = [
    "Dr. Smith met Mr. Jones and J. R. R. Tolkien.", "See Fig. 3, e.g. the U.S. Army, etc. Anyone can.",
    "Am 3. Oktober war es so.", "1. First", "Yahoo! is a company.", '"What?" he asked.', "He: “Run! Now!”, and left.",
    "Version 2.0 is here.", "Tom (who? Ann!) left.", "Wait... what?", "А. С. Пушкин родился в Москве.",
    "Toto je např. Praha.", "Il vit à St. Denis.", "डॉ. सिंह आए।", "「行く。」と言った。", "د. محمد هنا.", "no end",
    "...", "?!", "สวัสดี. ครับ", "ᱥᱟᱱᱛᱟᱲᱤ. ᱥᱟᱱᱛᱟᱲᱤ.", "ꯑꯩꯍꯥꯛ. ꯑꯩꯍꯥꯛ? ꯑꯩꯍꯥꯛ.", "བོད་སྐད། བོད་ཡིག།", "123. 456. 789.",
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentences"), DIVIDED)
def test_a_text_is_divided_by_the_punctuation_of_its_script(text: str, sentences: list[str]) -> None:
    assert list(divide(text).sentences) == sentences


@pytest.mark.parametrize("text", WHOLE)
def test_what_may_be_one_sentence_stays_one(text: str) -> None:
    assert divide(text).sentences == (text,)


def test_every_sentence_of_the_phrasebook_stays_one() -> None:
    book = Phrasebook.load()
    corpus = generate(book, sizes={language: (300, 0, 0) for language in book.languages})
    for splits in corpus.splits.values():
        for pair in splits["train"].pairs:
            for text in pair:
                assert divide(text).sentences == (text,)


@given(st.text(st.sampled_from(" \n\r\u2028ab AB.!?…。」「“\"')(5।你하.ק"), max_size=60) | st.text())
def test_sentences_and_gaps_make_the_text_again(text: str) -> None:
    found = divide(text)
    assert found.join(found.sentences) == text
    assert all(sentence == sentence.strip() != "" for sentence in found.sentences)
    assert not "".join(found.gaps).strip()
    lines = divide(text, at_punctuation=False)
    assert lines.join(lines.sentences) == text


def test_line_breaks_and_spaces_are_kept() -> None:
    found = divide("  One.   Two.\n\n\tThree\r\n")
    assert found.join(["A", "B", "C"]) == "  A   B\n\n\tC\r\n"
    assert divide("   ").join([]) == "   "
    assert divide("").join([]) == ""


def test_sentences_without_a_space_between_them_get_one_in_another_script() -> None:
    found = divide("他走了。你好吗？\n好。")
    assert found.join(["He left.", "How are you?", "Good."]) == "He left. How are you?\nGood."
    assert found.join(["彼は。", "元気？", "はい。"]) == "彼は。元気？\nはい。"
    assert found.join(["", "How?", "Good."]) == "How?\nGood."


def test_a_quotation_that_is_never_closed_does_not_make_a_text_endless() -> None:
    text = '"' + "He went home. " * (LONG // 14 + 1)
    assert len(divide(text).sentences) == LONG // 14 + 1
    assert len(divide(text[:200]).sentences) == 1


def test_only_lines_where_that_is_asked_for() -> None:
    assert divide("One. Two.\nThree.", at_punctuation=False).sentences == ("One. Two.", "Three.")


@pytest.mark.parametrize("unit", ["A. ", "Ab. ", "?", "你。", ". ", '" ', "(", "é. É"])
def test_dividing_takes_time_in_proportion_to_the_text(unit: str) -> None:
    start = time.monotonic()
    divide(unit * (100_000 // len(unit)))
    assert time.monotonic() - start < 10  # a tenth of it where nothing else runs; a quadratic one takes minutes
