"""Builds SVG as text: escaped elements, estimates of text width, and the colours, frame and axes of figures."""

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
"""The limit of every axis, so that sums and differences of drawn values stay finite."""
# XML 1.0 cannot express these characters, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Name: (SVG attribute, light colour, dark colour). Light colours are also written as attributes, for viewers
# without CSS.
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
    """An element; `children` are SVG already. `stroke_width` becomes `stroke-width`, `class_` becomes `class`."""
    written = "".join(f" {key.strip('_').replace('_', '-')}={_value(value)}" for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def plain(text: str) -> str:
    """Text as the content of an element: on one line, escaped, without characters that XML forbids."""
    return escape(_FORBIDDEN.sub("\ufffd", " ".join(text.split())))


def number(value: float) -> str:
    """A coordinate to a tenth of a pixel, without trailing zeros."""
    return f"{value:.1f}".removesuffix(".0")


def _value(value: str | float) -> str:
    return quoteattr(value if isinstance(value, str) else number(value))


def text_width(text: str, font: float) -> float:
    """An upper estimate of the width of a text, as the reader's fonts are not known."""
    return font * sum(_ems(letter) for letter in text)


def _ems(letter: str) -> float:
    if combining(letter):
        return 0.0
    return 1.05 if east_asian_width(letter) in "WF" else 0.62


def shorten(text: str, font: float, width: float) -> str:
    """The text on one line, truncated with an ellipsis if it is wider than `width`."""
    line = " ".join(text.split())
    if text_width(line, font) <= width:
        return line
    line = line[: int(width)]  # a text of megabytes would make the loop slow
    while line and text_width(line + "…", font) > width:
        line = line[:-1]
    return line.rstrip() + "…"


def paint(*names: str) -> Style:
    """The class and the attributes for the colours in `PAINTS` with these names."""
    style: Style = {PAINTS[name][0]: PAINTS[name][1] for name in names}
    return style | {"class_": " ".join(f"p-{name}" for name in names)}


def text(content: str, x: float, y: float, colour: str = "muted", **style: str | float) -> str:
    """A text element; `content` is escaped."""
    return element("text", plain(content), x=x, y=y, **(paint(colour) | style))


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "hair", **style: str | float) -> str:
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
    """The range of an axis that shows all values, with a margin on both sides; always finite and not empty."""
    low, high = (limit(value, -LARGEST, LARGEST) for value in (min(values), max(values)))
    size = max(abs(low), abs(high), 1.0)
    padding = (high - low) * margin if high - low > size * 1e-9 else size * margin
    return low - padding, high + padding


def limit(value: float, low: float, high: float) -> float:
    """The value, clipped to the range from `low` to `high`."""
    return max(low, min(high, value))


def ticks(low: float, high: float, count: int = 5) -> Iterator[tuple[float, str]]:
    """About `count` round numbers from `low` to `high`, each with its label."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    digits = next(d for d in range(20) if math.isclose(round(step, d), step))
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield i * step, (f"{i * step:,.{digits}f}" if abs(i * step) < 1e15 else f"{i * step:.3g}").replace("-", "−")
