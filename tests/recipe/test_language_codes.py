"""One name for each language, whatever the corpus calls it."""

import pytest

from cclm.errors import DataError
from cclm.recipe.language_codes import canonical, check_language, expressions, pick, spellings


@pytest.mark.parametrize("code", ["az", "AZ", "aze", "Aze", "az_Latn", "az-Latn-AZ", "aze_Latn", "az_AZ"])
def test_every_form_of_a_code_is_the_same_language(code: str) -> None:
    assert canonical(code) == "aze"


@pytest.mark.parametrize(
    ("code", "language"),
    [
        *[("pt-br", "por"), ("pt_BR", "por"), ("pt", "por"), ("zh-cn", "zho"), ("zh-TW", "zho"), ("zh_Hant_TW", "zho")],
        *[("fr-ca", "fra"), ("en-US", "eng"), ("es-419", "spa"), ("cze", "ces"), ("slo", "slk"), ("iw", "heb")],
        *[("ceb_Latn", "ceb"), ("nb", "nob"), ("sr-Cyrl", "srp"), ("calv", "calv")],
    ],
)
def test_regions_scripts_and_old_codes_are_known(code: str, language: str) -> None:
    assert canonical(code) == language


@pytest.mark.parametrize("code", ["l1", "hrl-aa", "hrl-bb", "klingon", "az_test", "az-x", "x.y", "qaa_1"])
def test_unknown_codes_are_unchanged(code: str) -> None:
    assert canonical(code) == code
    assert canonical(code.upper()) == code
    assert spellings(code) == (code,)


def test_all_two_letter_codes_are_known_and_canonical_is_idempotent() -> None:
    from cclm.recipe import language_codes as codes

    table = codes._TWO_LETTERS.split()
    assert len(table) == 184
    for pair in table:
        two, three = pair.split(":")
        assert canonical(two) == canonical(three) == three


def test_the_given_spelling_comes_first() -> None:
    assert spellings("aze") == ("aze", "az")
    assert spellings("az_Latn") == ("az_Latn", "aze", "az")
    assert spellings("por") == ("por", "pt", "pt-br", "pt_br")
    assert spellings("pt-br")[0] == "pt-br"


def test_the_given_region_is_searched_first() -> None:
    assert len(expressions("por")) == 1
    assert len(expressions("pt-br")) == 2


def test_portuguese_is_the_brazilian_column_where_both_exist() -> None:
    assert pick(["en", "pt", "pt-br"], "por", "x") == "pt-br"
    assert pick(["en", "pt", "pt-br"], "pt", "x") == "pt"
    assert pick(["en", "pt"], "por", "x") == "pt"
    assert pick(["zh", "zh-cn", "zh-tw"], "zho", "x") == "zh-cn"
    assert pick(["zh", "zh-cn", "zh-tw"], "zh_TW", "x") == "zh-tw"
    assert pick(["fr", "fr-ca"], "fra", "x") == "fr"
    assert pick(["en"], "fra", "x") is None


def test_two_columns_of_one_language_are_refused() -> None:
    with pytest.raises(DataError, match=r"f.tsv: az_Latn and az_Cyrl are both aze; remove one of them"):
        pick(["az_Latn", "az_Cyrl"], "aze", "f.tsv")


@pytest.mark.parametrize("code", ["", ".", "..", "../x", "a/b", "a b", "é", "x" * 65, "a\n", "a\0"])
def test_a_path_is_not_a_language_name(code: str) -> None:
    with pytest.raises(DataError, match="is not a language name: use up to 64 letters"):
        check_language(code)
