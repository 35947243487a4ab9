"""Dividing text into sentences, and putting translations together again with its line breaks and spaces.

A boundary is a line break, or final punctuation of the script that stands before it. Where it is not clear whether a
sentence ends, the text is not divided: an abbreviation, an initial, a number, a quotation, a script that is not in the
table below.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_COMMON = ".!?…"
_INDIC = "।॥.!?…"
_CJK = "。！？｡!?…"
FINALS = {
    **dict.fromkeys(("LATIN", "CYRILLIC", "GEORGIAN", "HEBREW"), _COMMON),
    **dict.fromkeys(("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA"), _INDIC),
    **dict.fromkeys(("TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA"), _COMMON),
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA"), _CJK),
    "GREEK": ".!;\u037e…",  # ; is the question mark
    "ARMENIAN": "։.…",
    "ARABIC": ".!?؟۔…",
    "ETHIOPIC": "።፧!?",
    "HANGUL": ".!?…。！？",
    "MYANMAR": "။!?",
    "KHMER": "។៕!?",
}
"""The punctuation that ends a sentence, by the first word in the Unicode names of a script's letters."""
_UNCASED_BY_NAME = "GEORGIAN"
"""Its letters count as lower case in Unicode, but text is written without capitals."""
_NEED_NO_SPACE = "。！？｡"
_ALL_FINALS = "".join(sorted({mark for marks in FINALS.values() for mark in marks}))
_CLOSING = "\"'”’»›)]}」』）】》“"
_END = re.compile(f"[{re.escape(_ALL_FINALS)}]+[{re.escape(_CLOSING)}]*")
_LINE_BREAK = re.compile("([\n\r\v\f\x85\u2028\u2029]+)")
_QUOTES = frozenset('"“”„«»')
_OPEN, _CLOSE = frozenset("([{（「『【《"), frozenset(")]}）」』】》")
_BEFORE_A_SENTENCE = frozenset("\"'“”„‘«»‹›([{¿¡—–-*•（「『【《")
LONG = 400
"""Characters from which on a sentence is divided inside quotations and brackets too: one may never have been closed."""
WINDOW = 64
"""Characters on each side of a mark that decide about it."""
# Words before a full stop that does not end a sentence, without their own full stops.
_ABBREVIATIONS = """
    mr mrs ms dr prof st sr jr vs etc vol fig eq inc ltd co corp dept gen col sgt capt lt rev hon pres gov sen
    rep mt ft approx eg ie cf al eds pp resp sec tel univ jan feb apr jun jul aug sep sept oct nov dec
    dra sra srta av exmo ex pág num art lic ing arq
    ing mgr bc judr mudr doc např napr tzv apod atd atď tj mj tzn popř resp čl str odst kap
    sn vb bkz yy yıl çev haz
    д-р г ул им др пр стр рис см напр проф акад тыс млн млрд руб коп вул праф гл
    bzw usw zb dh ca hr fr nr str bd mme mlle sig dott
    """
_IS_ABBREVIATION = frozenset(_ABBREVIATIONS.split())


@dataclass(frozen=True)
class Division:
    """A text as sentences and the white space around them: `gaps[i]` before `sentences[i]`, the last one at the end."""

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def join(self, translations: Sequence[str]) -> str:
        """The text with each sentence replaced by its translation.

        Where sentences follow each other without a space, as in Chinese, their translations get one if they end in
        another script.
        """
        parts = [self.gaps[0]]
        for number, (translation, gap) in enumerate(zip(translations, self.gaps[1:], strict=True), 1):
            is_last = number == len(translations)
            needs_space = not gap and not is_last and translation and not _is_wide(translation[-1])
            parts += [translation, " " if needs_space else gap]
        return "".join(parts)


def divide(text: str, *, at_punctuation: bool = True) -> Division:
    """Divides a text into sentences, or only into lines. `divide(text).join(sentences)` gives the text itself."""
    sentences: list[str] = []
    gaps = [""]
    for piece in _LINE_BREAK.split(text):
        if _LINE_BREAK.fullmatch(piece):
            gaps[-1] += piece
            continue
        for sentence in _sentences(piece) if at_punctuation else [piece]:
            inner = sentence.strip()
            if not inner:
                gaps[-1] += sentence
                continue
            start = sentence.index(inner)
            gaps[-1] += sentence[:start]
            sentences.append(inner)
            gaps.append(sentence[start + len(inner) :])
    return Division(tuple(sentences), tuple(gaps))


def _sentences(line: str, *, inside_quotes: bool = False) -> Iterator[str]:
    start = 0
    for end in [*_boundaries(line, inside_quotes), len(line)]:
        sentence = line[start:end]
        if len(sentence) > LONG and not inside_quotes:
            yield from _sentences(sentence, inside_quotes=True)
        else:
            yield sentence
        start = end


def _boundaries(line: str, inside_quotes: bool) -> Iterator[int]:
    position, quotes, depth, script = 0, 0, 0, ""
    for mark in _END.finditer(line):
        for char in line[position : mark.start()]:
            script = _script(char) or script
        passed = line[position : mark.end()]
        quotes += sum(char in _QUOTES for char in passed)
        depth = max(0, depth + sum((char in _OPEN) - (char in _CLOSE) for char in passed))
        position = mark.end()
        is_outside = inside_quotes or (quotes % 2 == 0 and depth == 0)
        if script and is_outside and _is_final(line, mark, script):
            yield position


def _is_final(line: str, mark: re.Match[str], script: str) -> bool:
    finals = mark[0].rstrip(_CLOSING)
    if not set(finals) <= set(FINALS.get(script, "")):
        return False
    following, before = line[mark.end() : mark.end() + WINDOW], line[max(0, mark.start() - WINDOW) : mark.start()]
    if finals[-1] in _NEED_NO_SPACE and script != "HANGUL":
        # A quotation that ends in its own full stop is usually part of a longer sentence.
        return bool(following) and (mark[0] == finals or (following[0] in _OPEN and _is_wide(mark[0][-1])))
    if not following or not following[0].isspace():
        return False
    after = following.lstrip()
    first = next((char for char in after if char not in _BEFORE_A_SENTENCE and not char.isspace()), "")
    if not after or not _may_begin(first, is_stop := finals in (".", "…")):
        return False
    return not is_stop or _may_end(before.rpartition(" ")[2], script)


def _may_begin(char: str, after_stop: bool) -> bool:
    """Whether a sentence may begin so. After a full stop a digit may not: `No. 5`."""
    if not char or (after_stop and char.isdecimal()):
        return False
    return not char.islower() or _script(char) == _UNCASED_BY_NAME


def _may_end(word: str, script: str) -> bool:
    """Whether a full stop after this word ends a sentence: not after an initial, an abbreviation or a short number."""
    bare = "".join(char for char in word if char.isalnum() or unicodedata.category(char)[0] == "M" or char in "-.")
    if bare.isdecimal():
        return len(bare) > 2  # `3. Oktober`, but `in 1999.`
    if "." in bare or len(bare) < 2 or bare.lower() in _IS_ABBREVIATION:
        return False
    # Scripts without capitals: nothing tells an abbreviation but its length.
    is_cased = any(char.lower() != char.upper() for char in bare) and script != _UNCASED_BY_NAME
    return is_cased or len(bare) > 3


def _script(char: str) -> str:
    """The first word of a letter's Unicode name; empty for everything else."""
    if char.isascii():
        return "LATIN" if char.isalpha() else ""
    is_letter = unicodedata.category(char)[0] == "L"
    return unicodedata.name(char, "").replace("-", " ").partition(" ")[0] if is_letter else ""


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WFH"
