"""Which code of a pretrained model belongs to which language."""

from dataclasses import dataclass
from typing import Any

import pytest
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
from transformers.models.mbart50.tokenization_mbart50 import FAIRSEQ_LANGUAGE_CODES as MBART50
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

from cclm.data.model_tokenizer import codes_of, most_similar
from cclm.errors import ConfigError


@dataclass
class Codes:
    """The real codes of a family, without its subwords."""

    kind: str
    names: list[str]

    @property
    def codes(self) -> dict[str, int]:
        return {name: 10 + i for i, name in enumerate(self.names)}

    @property
    def symbols(self) -> list[str]:
        return ["x"] * (10 + len(self.names))


FAMILIES: dict[str, Any] = {
    "nllb": Codes("nllb", list(NLLB)),
    "m2m100": Codes("m2m_100", [f"__{code}__" for code in M2M100["m2m100"]]),
    "mbart50": Codes("mbart", list(MBART50)),
    "marian": Codes("marian", [">>aze_Latn<<", ">>tur<<", ">>bel<<"]),
}


@pytest.mark.parametrize(
    ("family", "lang", "symbol"),
    [
        ("nllb", "aze", "azj_Latn"), ("nllb", "az", "azj_Latn"), ("nllb", "eng", "eng_Latn"),
        ("nllb", "zho", "zho_Hans"), ("nllb", "zho_Hant", "zho_Hant"), ("nllb", "fas", "pes_Arab"),
        ("nllb", "lav", "lvs_Latn"), ("nllb", "por", "por_Latn"), ("nllb", "pt-br", "por_Latn"),
        ("m2m100", "aze", "__az__"), ("m2m100", "eng", "__en__"), ("m2m100", "ceb", "__ceb__"),
        ("mbart50", "aze", "az_AZ"), ("mbart50", "eng", "en_XX"), ("mbart50", "fas", "fa_IR"),
        ("marian", "aze", ">>aze_Latn<<"), ("marian", "tr", ">>tur<<"),
    ],
)  # fmt: skip
def test_languages_are_found_under_any_spelling(family: str, lang: str, symbol: str) -> None:
    tokenizer = FAMILIES[family]
    found = codes_of(tokenizer, [lang], {})[lang]
    assert (found.symbol, found.id, found.is_new) == (symbol, tokenizer.codes[symbol], False)


@pytest.mark.parametrize(
    ("family", "symbol"),
    [("nllb", "qqq_Zyyy"), ("m2m100", "__qqq__"), ("mbart50", "qqq_ZZ"), ("marian", ">>qqq<<")],
)
def test_a_language_that_the_model_does_not_know_gets_a_new_code_after_all_others(family: str, symbol: str) -> None:
    tokenizer = FAMILIES[family]
    found = codes_of(tokenizer, ["tur", "qqq"], {})["qqq"]
    assert (found.symbol, found.id, found.is_new) == (symbol, len(tokenizer.symbols), True)


def test_codes_can_be_set() -> None:
    assert codes_of(FAMILIES["m2m100"], ["aze"], {"aze": "tr"})["aze"].symbol == "__tr__"
    assert codes_of(FAMILIES["nllb"], ["qqq"], {"qqq": "qqq_Latn"})["qqq"].is_new
    with pytest.raises(ConfigError, match="'azj_Latin' is not a code of this model; similar codes: azj_Latn"):
        codes_of(FAMILIES["nllb"], ["aze"], {"aze": "azj_Latin"})
    with pytest.raises(ConfigError, match="aze and tur have one code in the model, tur_Latn"):
        codes_of(FAMILIES["nllb"], ["aze", "tur"], {"aze": "tur_Latn"})
    with pytest.raises(ConfigError, match="its tokenizer knows no language codes"):
        codes_of(Codes("nllb", []), ["aze"], {})  # type: ignore[arg-type]


def test_the_most_similar_language_shares_most_of_the_frequent_subwords() -> None:
    counts = {"gag": {"ev": 9, "su": 8, "x": 1}, "tur": {"ev": 5, "su": 4}, "rus": {"x": 90, "y": 80}}
    assert most_similar("gag", counts, ["rus", "tur"], 2) == "tur"
    assert most_similar("gag", counts, [], 2) is None
