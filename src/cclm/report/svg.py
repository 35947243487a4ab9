"""SVG as text: elements escaped, numbers short, letters measured."""

import re
from unicodedata import combining, east_asian_width
from xml.sax.saxutils import escape, quoteattr

MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
# XML 1.0 has no way to write these, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def element(name: str, *children: str, **attributes: str | float) -> str:
    """An element around children that are SVG already; `stroke_width` is written stroke-width, `class_` class."""
    given = "".join(f" {key.strip('_').replace('_', '-')}={_value(value)}" for key, value in attributes.items())
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def plain(text: str) -> str:
    """Text of the user's as the content of an element: one line, escaped, without what XML forbids."""
    return escape(_FORBIDDEN.sub("\ufffd", " ".join(text.split())))


def number(value: float) -> str:
    """A coordinate to a tenth of a pixel, without idle zeros."""
    return f"{value:.1f}".removesuffix(".0")


def text_width(text: str, font: float) -> float:
    """About how wide the text is drawn, and rather too wide than too narrow: nobody knows the reader's fonts."""
    return font * sum(_ems(letter) for letter in text)


def shortened(text: str, font: float, width: float) -> str:
    """The text on one line, cut with an ellipsis where it would be wider than this."""
    line = " ".join(text.split())
    if text_width(line, font) <= width:
        return line
    line = line[: int(width)]  # a text of megabytes is cut at once
    while line and text_width(line + "…", font) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def _ems(letter: str) -> float:
    if combining(letter):
        return 0.0
    return 1.05 if east_asian_width(letter) in "WF" else 0.62


def _value(value: str | float) -> str:
    return quoteattr(value if isinstance(value, str) else number(value))
