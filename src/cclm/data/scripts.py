"""Scripts without spaces between words: there, words cannot be counted, and BLEU takes a sentence for a word."""

import unicodedata
from collections.abc import Mapping

WITHOUT_SPACES = {"CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "YI"}
"""First words of the Unicode names of their letters. Hangul is written with spaces."""


def is_without_spaces(characters: Mapping[str, int]) -> bool:
    """Whether most letters of a text belong to such scripts, by how often each character occurs in it.

    Text that was divided into words beforehand has spaces all the same: then one follows every few letters.
    """
    letters = sum(count for char, count in characters.items() if unicodedata.category(char)[0] in "LM")
    such = sum(count for char, count in characters.items() if _script(char) in WITHOUT_SPACES)
    return 2 * such > letters and 6 * characters.get(" ", 0) < letters


def _script(char: str) -> str:
    is_letter = unicodedata.category(char)[0] in "LM"
    return unicodedata.name(char, "").replace("-", " ").partition(" ")[0] if is_letter else ""
