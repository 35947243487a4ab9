"""Cleaning: removes control characters, which SentencePiece cannot handle, and undoes the tokenisation of corpora."""

import re

from cclm.recipe.language_codes import canonical

SEPARATORS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
"""Characters that are replaced by a space."""
_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
REMOVED = f"\ufeff{_CONTROL}"
"""Characters that are deleted, as in a regular expression; so are lone surrogates, which no UTF-8 text has."""
_SEPARATOR = re.compile(f"[{SEPARATORS}]")
_REMOVED = {
    "byte order marks": re.compile("\ufeff"),
    "lone surrogates": re.compile("[\ud800-\udfff]"),
    "control characters": re.compile(f"[{_CONTROL}]"),
}
_UNUSUAL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    """The cleaned text, and the kinds of characters that were removed or replaced.

    clean("Hello\\x00") returns ("Hello", ("control characters",)). White space at the ends is removed silently.
    """
    # The common case. Whatever is unusual is not printable, and asking for that is twice as fast as a search.
    if text.isprintable() or not _UNUSUAL.search(text):
        return text.strip(), ()
    text = text.strip()
    notes: list[str] = []
    for kind, expression in _REMOVED.items():
        text, count = expression.subn("", text)
        if count:
            notes.append(kind)
    text, count = _SEPARATOR.subn(" ", text)
    if count:
        notes.append("separators")
    return text.strip(), tuple(notes)


_ENTITIES = {"&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#91;": "[", "&#93;": "]", "&#124;": "|"}
_ENTITIES["&amp;"] = "&"  # last: "&amp;quot;" is the escaped text "&quot;"
_JOINTS = re.compile(r" @([-/:,.])@ ")
_CLOSING = re.compile(r"[,.;:!?…%)\]}»”›’]+|\.\.\.")
_OPENING = frozenset("([{¿¡«“‘‹„‚")
_CURRENCY = frozenset("$£¥")
_ENGLISH_ENDING = re.compile(r"(?:['’](?:s|m|d|t|re|ve|ll)|n['’]t)", re.IGNORECASE)
_ELISION = re.compile(r"\w+['’]")  # l' homme, dell' arte
_ELIDING = frozenset({"fra", "ita", "cat", "oci", "gle"})
_APOSTROPHE_IN_WORDS = frozenset({"tur", "aze", "ukr", "bel", "uzb"})
_OPENS_LOW = frozenset("„‚")
_SPACED_IN_FRENCH = frozenset({"?", "!", ":", ";", "%", "»"})
_CJK = "[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef]"
_CJK_SPACE = re.compile(rf"(?<={_CJK}) +| +(?={_CJK})")


def detokenize(text: str, lang: str) -> str:
    """Undoes Moses tokenisation: "do n't , he said" becomes "don't, he said"."""
    language = canonical(lang)
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    joined = _join(_JOINTS.sub(r"\1", text).split(), language)
    return _CJK_SPACE.sub("", joined) if language in ("zho", "jpn") else joined


def _join(tokens: list[str], language: str) -> str:
    result: list[str] = []
    opened: set[str] = set()
    glue = True  # whether the next token follows without a space, as the first one does
    for position, token in enumerate(tokens):
        if token.isalnum():  # the common case
            result.append(token if glue else " " + token)
            glue = False
            continue
        before = tokens[position - 1] if position else ""
        left, right = _sides(token, before, language, opened)
        if right and token in _CURRENCY:
            right = tokens[position + 1 : position + 2] != [] and tokens[position + 1][0].isdigit()
        result.append(token if glue or left else " " + token)
        glue = right
    return "".join(result)


def _sides(token: str, before: str, language: str, opened: set[str]) -> tuple[bool, bool]:
    """Whether a token is joined to its left neighbour, and to its right one."""
    if token in ('"', "'"):
        return _quote(token, before, language, opened)
    if token in ("“", "‘") and opened & _OPENS_LOW:  # „Zitat“: here the mark closes
        opened -= _OPENS_LOW
        return True, False
    if token in _OPENING:
        opened |= {token} & _OPENS_LOW
        return False, language != "fra" or token != "«"
    if _CLOSING.fullmatch(token):
        return language != "fra" or token not in _SPACED_IN_FRENCH, False
    if language == "eng" and _ENGLISH_ENDING.fullmatch(token):
        return True, False
    return False, token in _CURRENCY or (language in _ELIDING and bool(_ELISION.fullmatch(token)))


def _quote(token: str, before: str, language: str, opened: set[str]) -> tuple[bool, bool]:
    if token == "'" and language in _APOSTROPHE_IN_WORDS:
        return True, True
    if token in opened:
        opened.discard(token)
        return True, False
    if token == "'" and language == "eng" and before.endswith("s"):  # the boys ' house
        return True, False
    opened.add(token)
    return False, True
