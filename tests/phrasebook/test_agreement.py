"""Agreement over thousands of sentences, by little grammars that do not know the lexicon's forms."""

import re
from collections.abc import Iterator

import pytest

from cclm.phrasebook import Phrasebook
from cclm.phrasebook.draws import key
from cclm.phrasebook.templates import Filling

BACK, FRONT = "aıouâ", "eiöü"
ENDINGS = {"m": ("ый", "ий", "ой"), "f": ("ая", "яя"), "n": ("ое", "ее")}


@pytest.fixture(scope="module")
def book() -> Phrasebook:
    return Phrasebook.load()


def drawn(book: Phrasebook, number: int = 40) -> Iterator[tuple[str, Filling]]:
    for name, template in book.templates.items():
        for index in range(number):
            filling = template.draw(key(11, name, index))
            if filling is not None:
                yield name, filling


def last_vowel(text: str) -> str:
    return [letter for letter in text.lower() if letter in BACK + FRONT][-1]


def harmonises(stem: str, suffix: str) -> bool:
    """Says whether the first vowel of a suffix is on the side of the stem's last."""
    first = next(letter for letter in suffix if letter in BACK + FRONT)
    return (last_vowel(stem) in BACK) == (first in BACK)


def test_sentences_of_all_languages_are_tidy(book: Phrasebook) -> None:
    for name, filling in drawn(book):
        for lang in book.renderers:
            sentence = book.sentence(lang, name, filling)
            assert re.fullmatch(r"\S+( \S+)*[.?!]", sentence), (lang, name, sentence)
            assert sentence[0].isupper(), sentence
            assert not re.search(r"[_{}@+|]|[.?!,][.?!,]| [.,?!]", sentence), sentence


def test_turkish_case_suffixes_harmonise(book: Phrasebook) -> None:
    words = book.renderers["tur"].language.words.values()
    checked = 0
    for word in words:
        if word.kind == "noun":
            for form in ("loc", "abl"):
                suffix = re.search(r"n?[dt][ae]n?$", word.forms[form])
                assert suffix, word.forms[form]
                assert harmonises(word.forms[form][: suffix.start()], suffix[0]), word.forms[form]
                checked += 1
    assert checked > 200


def test_turkish_suffixes_are_voiceless_after_voiceless_consonants(book: Phrasebook) -> None:
    for word in book.renderers["tur"].language.words.values():
        if word.kind in ("noun", "place") and "abl" in word.forms:
            stem, suffix = re.fullmatch(r"(.*)([dt])[ae]n", word.forms["abl"]).groups()  # type: ignore[union-attr]
            assert (suffix == "t") == (stem[-1] in "fstkçşhp"), word.forms["abl"]


def test_turkish_question_particles_harmonise(book: Phrasebook) -> None:
    seen = 0
    for name, filling in drawn(book, 100):
        sentence = book.sentence("tur", name, filling)
        if match := re.search(r"(\S+) (m[ıiuü])(?:y[ıiuü][mz]|s[ıiuü]n)?\?", sentence):
            high = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
            assert match[2] == "m" + high[last_vowel(match[1])], sentence
            seen += 1
    assert seen > 300


def test_turkish_leaves_no_open_vowel(book: Phrasebook) -> None:
    for name, filling in drawn(book):
        assert not re.search(r"\w[IAE]|[IAE](?=[a-z]*\?)$", book.sentence("tur", name, filling)[1:])


def test_russian_adjectives_have_the_ending_of_their_noun(book: Phrasebook) -> None:
    words = book.renderers["rus"].language.words
    checked = 0
    for name, filling in drawn(book, 150):
        places = book.templates[name].names
        if name not in ("is_adjective", "lies", "there_is", "have", "my_is", "how_much", "this_is"):
            continue
        adjective, noun = filling[places.index("adj")], filling[places.index("thing")]
        if adjective is None or noun is None:
            continue
        stem = words[adjective.key].forms["nom.m"][:-2]
        found = re.search(rf"{stem}(\w\w)\b", book.sentence("rus", name, filling), re.IGNORECASE)
        assert found, (name, stem)
        assert found[1] in ENDINGS[words[noun.key].features["g"]], (name, found)
        checked += 1
    assert checked > 400


def test_russian_gender_follows_from_the_ending(book: Phrasebook) -> None:
    for word in book.renderers["rus"].language.words.values():
        if word.kind == "noun" and word.key != "noun coffee":
            end, gender = word.forms["nom"][-1], word.features["g"]
            assert {"а": "f", "я": "f", "о": "n", "е": "n"}.get(end, gender) == gender, word.key
            assert gender != "m" or end not in "аяое", word.key


def test_russian_counts_two_to_four_with_the_genitive_singular(book: Phrasebook) -> None:
    for word in book.renderers["rus"].language.words.values():
        if word.kind == "noun" and "few" in word.forms:
            assert word.forms["few"] == word.forms["gen"], word.key


def test_english_articles_suit_the_next_sound(book: Phrasebook) -> None:
    for name, filling in drawn(book):
        sentence = book.sentence("eng", name, filling)
        for article, first in re.findall(r"\b([Aa]n?) (\w)", sentence):
            assert (article.lower() == "an") == (first in "aeiou") or " hour" in sentence, sentence
