"""Gender of articles and adjectives, and contractions, in Portuguese and Galician."""

import re

import pytest

from cclm.phrasebook import Phrasebook
from cclm.phrasebook.templates import Filling

Meaning = tuple[str, Filling]

ROMANCE = ("por", "glg")
# Nouns in -o are masculine and nouns in -a feminine; what their end does not tell, or tells wrongly, is named.
FEMININE = {
    "por": "maçã chave carne flor mensagem colher televisão árvore",
    "glg": "mazá chave carne flor foto mensaxe culler moto radio árbore postal",
}
MASCULINE = {"por": "guarda-chuva mapa poema", "glg": "mapa poema"}
ARTICLES = {"por": {"m": "o um", "f": "a uma"}, "glg": {"m": "o un", "f": "a unha"}}
LEFT_APART = {
    "por": r"\b(em|de|por) (o|a|os|as|ele|ela|este|esta)\b|\ba os?\b|\bem (um|uma)\b",
    "glg": r"\b(en|de|con|por) (o|a|os|as|el|ela|este|esta)\b|\ba os?\b|\b(en|de|con) (un|unha)\b",
}


def gender(lang: str, noun: str) -> str:
    if noun in FEMININE[lang].split():
        return "f"
    if noun in MASCULINE[lang].split():
        return "m"
    return "f" if noun.endswith("a") else "m"


@pytest.mark.parametrize("lang", ROMANCE)
def test_articles_and_adjectives_have_the_gender_of_their_noun(
    book: Phrasebook, meanings: list[Meaning], lang: str
) -> None:
    words = book.renderers[lang].language.words
    checked = 0
    for name, filling in meanings:
        places = book.templates[name].names
        noun = filling[places.index("thing")] if "thing" in places else None
        if noun is None or noun.kind != "noun":
            continue
        form, sentence = words[noun.key].forms["sg"], book.sentence(lang, name, filling).lower()
        side = gender(lang, form)
        for article in re.findall(rf"\b(o|a|um|uma|un|unha) {form}\b", sentence):
            assert article in ARTICLES[lang][side].split(), sentence
            checked += 1
        adjective = filling[places.index("adj")] if "adj" in places else None
        if adjective is not None:
            masculine, feminine = words[adjective.key].forms["m"], words[adjective.key].forms["f"]
            wrong = feminine if side == "m" else masculine
            if masculine != feminine:
                assert not re.search(rf"\b{form} (é |está |muito |moi )*{wrong}\b", sentence), sentence
                checked += 1
    assert checked > 600


@pytest.mark.parametrize("lang", ROMANCE)
def test_no_contraction_is_left_apart(sentences: dict[str, list[str]], lang: str) -> None:
    for sentence in sentences[lang]:
        assert not re.search(LEFT_APART[lang], sentence.lower()), sentence
