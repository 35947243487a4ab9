"""Text as it may reach SentencePiece: no controls, no stray marks, one line."""

import re

# Told apart by what is done: separators become a space, the rest goes.
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

    clean("Hello\\x00") gives ("Hello", ("control characters",)). White space at the ends goes without mention.
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
