"""Gender of adjectives and verbs, and the shape of prepositions, in Russian, Belarusian, Czech and Slovak."""

import re

import pytest

from cclm.phrasebook import Phrasebook
from cclm.phrasebook.templates import Filling

Meaning = tuple[str, Filling]

SLAVIC = ("rus", "bel", "ces", "slk")
# By the end of the nominative; what it does not tell is named.
GENDER_BY_END = {
    "rus": {"а": "f", "я": "f", "о": "n", "е": "n"},
    "bel": {"а": "f", "я": "f", "о": "n", "е": "n", "ё": "n"},
    "ces": {"a": "f", "e": "f", "o": "n", "í": "n"},
    "slk": {"a": "f", "o": "n", "e": "n", "ie": "n"},
}
OTHERS = {
    "rus": {"m": "кофе", "f": "лошадь кровать тетрадь соль мышь"},
    "bel": {"m": "сабака", "n": "мяса яйка крэсла масла люстэрка піва дрэва піяніна", "f": "соль мыш"},
    "ces": {"n": "vejce rajče", "p": "šaty", "f": "láhev postel báseň broskev sůl sukně skříň mrkev myš"},
    "slk": {"p": "šaty", "f": "posteľ báseň soľ myš"},
}
ENDINGS = {
    "rus": {"m": "ый ий ой", "f": "ая яя", "n": "ое ее"},
    "bel": {"m": "ы і", "f": "ая яя", "n": "ае яе ое"},
    "ces": {"m": "ý í", "f": "á í", "n": "é í", "p": "é í"},
    "slk": {"m": "ý y í i", "f": "á a ia", "n": "é e ie", "p": "é e ie"},
}
NOMINATIVE = ("is_adjective", "lies", "there_is", "my_is", "this_is", "how_much", "was_adjective", "is_it_there")
WOMEN = {"anna", "maria", "eva", "nina", "olga", "she"}
WOMEN |= {"my_mother", "my_sister", "my_grandmother", "my_daughter", "my_aunt", "my_wife"}
PAST_OF_A_WOMAN = {"rus": r"ла(сь)?\b", "bel": r"ла(ся)?\b", "ces": r"la\b", "slk": r"la\b"}


def gender(lang: str, noun: str) -> str:
    named = [side for side, nouns in OTHERS[lang].items() if noun in nouns.split()]
    return named[0] if named else GENDER_BY_END[lang].get(noun[-1], "m")


def chosen(book: Phrasebook, name: str, filling: Filling, slot: str) -> str | None:
    names = book.templates[name].names
    word = filling[names.index(slot)] if slot in names else None
    return None if word is None else word.key


@pytest.mark.parametrize("lang", SLAVIC)
def test_adjectives_have_the_ending_of_their_noun(book: Phrasebook, meanings: list[Meaning], lang: str) -> None:
    words = book.renderers[lang].language.words
    checked = 0
    for name, filling in meanings:
        adjective, noun = chosen(book, name, filling, "adj"), chosen(book, name, filling, "thing")
        if name not in NOMINATIVE or adjective is None or noun is None:
            continue
        stem = re.sub(r"(ый|ий|ой|ы|і|ý|í|y|i)$", "", words[adjective].forms["nom.m"])
        sentence = book.sentence(lang, name, filling).lower()
        found = re.findall(rf"\b{stem}(\w{{1,2}})\b", sentence)
        wanted = ENDINGS[lang][gender(lang, words[noun].forms["nom"])].split()
        assert any(ending in wanted for ending in found), (sentence, wanted)
        checked += 1
    assert checked > 120


@pytest.mark.parametrize("lang", SLAVIC)
def test_verbs_in_the_past_have_the_gender_of_their_subject(
    book: Phrasebook, meanings: list[Meaning], lang: str
) -> None:
    checked = 0
    for name, filling in meanings:
        if name in ("buy_past", "number_past", "two_things", "back_from", "give"):
            who = str(chosen(book, name, filling, "who")).removeprefix("person ")
            found = re.search(rf"\w{PAST_OF_A_WOMAN[lang]}", book.sentence(lang, name, filling))
            if who in WOMEN:
                assert found, book.sentence(lang, name, filling)
                checked += 1
    assert checked > 40


@pytest.mark.parametrize("lang", ["ces", "slk"])
def test_prepositions_get_a_vowel_before_their_like(sentences: dict[str, list[str]], lang: str) -> None:
    clusters = r"\b(v [vf]|s [sz]|z [szž]|k [kg])"
    for sentence in sentences[lang]:
        assert not re.search(clusters, sentence.lower()), sentence
        assert not re.search(r"\b(ve|vo|ze|zo|ke|ku) [aeiouáéíóú]", sentence.lower()), sentence


def test_russian_prepositions_get_a_vowel_before_their_like(sentences: dict[str, list[str]]) -> None:
    for sentence in sentences["rus"]:
        assert not re.search(r"\b(в [вф][бвгджзклмнпрстфхцчшщ]|с [сзшж][бвгджзклмнпрстфхцчшщ])", sentence.lower()), (
            sentence
        )
        assert not re.search(r"\bо [аиоуэ]", sentence.lower()), sentence


def test_belarusian_u_is_short_after_a_vowel_and_full_after_a_consonant(sentences: dict[str, list[str]]) -> None:
    for sentence in sentences["bel"]:
        assert not re.search(r"[аеёіоуыэюя] у", sentence.lower()), sentence
        assert not re.search(r"([бвгджзйклмнпрстфхцчшьў.,—] ?|^)ў", sentence.lower()), sentence


def test_belarusian_writes_what_it_pronounces(sentences: dict[str, list[str]]) -> None:
    for sentence in sentences["bel"]:
        assert not re.search(r"[шчжрц][іяюе]|[дт]ь|[дт][іяюё]", re.sub(r"ц[іяюеё]|чэ", "", sentence.lower())), sentence


@pytest.mark.parametrize("lang", ["rus"])
def test_two_to_four_take_the_genitive_singular(book: Phrasebook, lang: str) -> None:
    for word in book.renderers[lang].language.words.values():
        if word.kind == "noun" and "few" in word.forms:
            assert word.forms["few"] == word.forms["gen"], word.key
