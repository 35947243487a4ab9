"""Text as it may reach SentencePiece: without control characters, and with the tokenisation of corpora undone."""

import re

from cclm.recipe.language_codes import canonical

# Separators become a space; the characters below are removed.
_SEPARATORS = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"
_SPACED = re.compile(f"[{_SEPARATORS}]")
_REMOVED = {
    "byte order marks": re.compile("\ufeff"),
    "lone surrogates": re.compile("[\ud800-\udfff]"),
    "control characters": re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"),
}
_UNUSUAL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without what must not reach SentencePiece, and what was done to it.

    clean("Hello\\x00") gives ("Hello", ("control characters",)). White space at the ends is removed without a note.
    """
    if not _UNUSUAL.search(text):  # nearly all text
        return text.strip(), ()
    text = text.strip()
    done: list[str] = []
    for what, expression in _REMOVED.items():
        text, times = expression.subn("", text)
        if times:
            done.append(what)
    text, times = _SPACED.subn(" ", text)
    if times:
        done.append("separators")
    return text.strip(), tuple(done)


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
    """The sentence as people write it: "do n't , he said" becomes "don't, he said"."""
    language = canonical(lang)
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    joined = _join(_JOINTS.sub(r"\1", text).split(), language)
    return _CJK_SPACE.sub("", joined) if language in ("zho", "jpn") else joined


def _join(tokens: list[str], language: str) -> str:
    result: list[str] = []
    opened: set[str] = set()
    glue = True  # nothing before the first token
    for position, token in enumerate(tokens):
        if token.isalnum():  # nearly all
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
    """Whether a token is joined to its left and to its right neighbour."""
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
