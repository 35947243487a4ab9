"""SVG as text: escaped elements, the width of text, and what figures share: colours, a frame, an axis."""

import math
import re
from collections.abc import Iterator
from unicodedata import combining, east_asian_width
from xml.sax.saxutils import escape, quoteattr

Style = dict[str, str | float]

MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
FONT = 12.0
LARGEST = 1e100
"""No axis goes further: sums and differences of what is drawn must stay finite."""
# XML 1.0 cannot express these characters, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Name: (what it paints, light, dark). The light colours are also written as attributes, for programs without CSS.
PAINTS = {
    "ground": ("fill", "#fdfcfa", "#14171c"),
    "ink": ("fill", "#1c2128", "#e7eaee"),
    "muted": ("fill", "#5d6672", "#a0a9b4"),
    "hair": ("stroke", "#e4e1da", "#2b3139"),
    "rule": ("stroke", "#1c2128", "#e7eaee"),
    "faint": ("stroke", "#7a838e", "#8d97a3"),
    "blue": ("fill", "#0b5fa5", "#3f90db"),
    "blue-line": ("stroke", "#0b5fa5", "#3f90db"),
    "orange": ("fill", "#b84a00", "#dd6d22"),
    "orange-line": ("stroke", "#b84a00", "#dd6d22"),
}


def _rules(column: int) -> str:
    return "\n".join(f".figure .p-{name} {{ {paint[0]}: {paint[column]} }}" for name, paint in PAINTS.items())


STYLE = f"{_rules(1)}\n@media (prefers-color-scheme: dark) {{\n{_rules(2)}\n}}"


def element(name: str, *children: str, **attributes: str | float) -> str:
    """An element around children that are SVG already; `stroke_width` becomes stroke-width, `class_` class."""
    given = "".join(f" {key.strip('_').replace('_', '-')}={_value(value)}" for key, value in attributes.items())
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def plain(text: str) -> str:
    """Any text as the content of an element: on one line, escaped, without characters that XML forbids."""
    return escape(_FORBIDDEN.sub("\ufffd", " ".join(text.split())))


def number(value: float) -> str:
    """A coordinate to a tenth of a pixel, without trailing zeros."""
    return f"{value:.1f}".removesuffix(".0")


def _value(value: str | float) -> str:
    return quoteattr(value if isinstance(value, str) else number(value))


def text_width(text: str, font: float) -> float:
    """An upper estimate of the width of a text: the reader's fonts are not known."""
    return font * sum(_ems(letter) for letter in text)


def _ems(letter: str) -> float:
    if combining(letter):
        return 0.0
    return 1.05 if east_asian_width(letter) in "WF" else 0.62


def shorten(text: str, font: float, width: float) -> str:
    """The text on one line, cut with an ellipsis if it is wider than this."""
    line = " ".join(text.split())
    if text_width(line, font) <= width:
        return line
    line = line[: int(width)]  # one cut first: the loop would be slow for a text of megabytes
    while line and text_width(line + "…", font) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def paint(*names: str) -> Style:
    """The class and the attributes that give an element its colours."""
    style: Style = {PAINTS[name][0]: PAINTS[name][1] for name in names}
    return style | {"class_": " ".join(f"p-{name}" for name in names)}


def text(content: str, x: float, y: float, colour: str = "muted", **style: str | float) -> str:
    """A line of any text."""
    return element("text", plain(content), x=x, y=y, **(paint(colour) | style))


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "hair", **style: str | float) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **(paint(colour) | style))


def frame(body: list[str], width: float, height: float, *, title: str, description: str) -> str:
    """A figure as a complete SVG document with light and dark colours."""
    ground = element("rect", width=width, height=height, **paint("ground"))
    head = [element("title", plain(title)), element("desc", plain(description)), element("style", STYLE), ground]
    root: Style = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class_": "figure"}
    box = f"0 0 {number(width)} {number(height)}"
    size: Style = {"viewBox": box, "width": width, "height": height, "font_family": SANS, "font_size": FONT}
    return element("svg", "\n", "\n".join([*head, *body]), "\n", **root, **size) + "\n"


def axis_range(values: list[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of an axis that shows all values with a margin on both sides; never empty, never infinite."""
    low, high = (max(-LARGEST, min(LARGEST, value)) for value in (min(values), max(values)))
    size = max(abs(low), abs(high), 1.0)
    room = (high - low) * margin if high - low > size * 1e-9 else size * margin
    return low - room, high + room


def limit(value: float, low: float, high: float) -> float:
    """The value, or the end of the axis that it lies beyond."""
    return max(low, min(high, value))


def ticks(low: float, high: float, about: int = 5) -> Iterator[tuple[float, str]]:
    """About this many round numbers from low to high, each with its label."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    digits = next(d for d in range(20) if math.isclose(round(step, d), step))
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield i * step, (f"{i * step:,.{digits}f}" if abs(i * step) < 1e15 else f"{i * step:.3g}").replace("-", "−")
