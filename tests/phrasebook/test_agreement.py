"""Spelling, articles and vowel harmony in thousands of sentences, by rules that are independent of the lexicon."""

import re

import pytest

from cclm.phrasebook import Phrasebook

LETTERS = {
    "eng": "a-zé",
    "tur": "a-pr-vyzâçğıöşü",
    "aze": "a-vxyzçəğıöşü",
    "rus": "а-яё",
    "bel": "а-зй-шыьэюяёіў",
    "por": "a-záâãàçéêíóôõú",
    "glg": "a-záéíñóúü",
    "ces": "a-záčďéěíňóřšťúůýž",
    "slk": "a-záäčďéíĺľňóôŕšťúýž",
}
BACK, FRONT = "aıou", "eəiöü"
HIGH = {"a": "ı", "ı": "ı", "e": "i", "ə": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}


def last_vowel(text: str) -> str:
    """Gives the last vowel; a palatal â counts as the front vowel it is followed by."""
    return [letter for letter in text.lower() if letter in HIGH][-1]


def harmonises(stem: str, suffix: str) -> bool:
    """Says whether the first vowel of a suffix is on the side of the stem's last."""
    first = next(letter for letter in suffix if letter in BACK + FRONT)
    return (last_vowel(stem) in BACK) == (first in BACK)


@pytest.mark.parametrize("lang", LETTERS)
def test_sentences_are_tidy(sentences: dict[str, list[str]], lang: str) -> None:
    assert len(sentences[lang]) > 3000
    for sentence in sentences[lang]:
        assert re.fullmatch(r"\S+( \S+)*[.?!]", sentence), sentence
        assert sentence[0].isupper(), sentence
        assert not re.search(r"[_{}@+|%*]|[.?!,][.?!,]| [.,?!]", sentence), sentence


@pytest.mark.parametrize("lang", LETTERS)
def test_sentences_have_only_letters_of_their_language(sentences: dict[str, list[str]], lang: str) -> None:
    # The capital of the Turkic i is İ, whose lower case is two characters in Python.
    allowed = re.compile(rf"[{LETTERS[lang]} ,.?!'’—-]+")
    for sentence in sentences[lang]:
        assert allowed.fullmatch(sentence.replace("İ", "i").lower()), sentence


def test_english_articles_suit_the_next_sound(sentences: dict[str, list[str]]) -> None:
    for sentence in sentences["eng"]:
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", sentence):
            vowel = word[0] in "aeiou" or word == "hour"
            assert (article.lower() == "an") == (vowel and not word.startswith("university")), sentence


@pytest.mark.parametrize(("lang", "forms"), [("tur", ("loc", "abl")), ("aze", ("abl",))])
def test_turkic_case_suffixes_harmonise(book: Phrasebook, lang: str, forms: tuple[str, ...]) -> None:
    words = [word for word in book.renderers[lang].language.words.values() if word.kind == "noun"]
    for word in words:
        for form in forms:
            suffix = re.search(r"n?[dt][aeə]n?$", word.forms[form])
            assert suffix, word.forms[form]
            assert harmonises(word.forms[form][: suffix.start()], suffix[0]), word.forms[form]
    assert len(words) > 100


@pytest.mark.parametrize("lang", ["tur", "aze"])
def test_turkic_high_suffixes_follow_the_vowel_before_them(sentences: dict[str, list[str]], lang: str) -> None:
    # -dir "is" and the past -di, each with four vowels; -mi as well, in Turkish a word of its own. "Rare" is Arabic.
    seen = 0
    for sentence in (each.replace("nadir", "") for each in sentences[lang]):
        for stem, vowel in re.findall(r"(\w*[aeəıioöuü][^aeəıioöuü\W]*)[dt]([ıiuü])r?\b", sentence.lower()):
            assert vowel == HIGH[last_vowel(stem)], sentence
            seen += 1
        for before, vowel in re.findall(r"(\w+) m([ıiuü])(?=\?|y[ıiuü][mz]\b|s[ıiuü]n)", sentence):
            assert vowel == HIGH[last_vowel(before)], sentence
            seen += 1
    assert seen > 800


def test_azerbaijani_plurals_harmonise(sentences: dict[str, list[str]]) -> None:
    words = {word for sentence in sentences["aze"] for word in re.findall(r"\w+l[aə]r(?=[ıi]|\b)", sentence)}
    for word in words:
        assert harmonises(word[:-3], word[-2]), word
    assert len(words) > 30


def test_turkish_suffixes_are_voiceless_after_voiceless_consonants(book: Phrasebook) -> None:
    for word in book.renderers["tur"].language.words.values():
        if word.kind in ("noun", "place") and "abl" in word.forms:
            stem, suffix = re.fullmatch(r"(.*)([dt])[ae]n", word.forms["abl"]).groups()  # type: ignore[union-attr]
            assert (suffix == "t") == (stem[-1] in "fstkçşhp"), word.forms["abl"]


@pytest.mark.parametrize("lang", ["tur", "aze"])
def test_turkic_rules_leave_no_open_vowel(sentences: dict[str, list[str]], lang: str) -> None:
    for sentence in sentences[lang]:
        assert not re.search(r"\w[IAE]", sentence), sentence
