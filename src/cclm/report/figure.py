"""What the figures of studies and sweeps share: colours by day and by night, a frame, an axis."""

import math
from collections.abc import Iterator

from cclm.report.svg import SANS, element, number, plain

Style = dict[str, str | float]

FONT = 12.0
# Colours by day stand in attributes too: a program that knows no CSS draws those.
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


def paint(*names: str) -> Style:
    """The class and the attributes that paint an element."""
    style: Style = {PAINTS[name][0]: PAINTS[name][1] for name in names}
    return style | {"class_": " ".join(f"p-{name}" for name in names)}


def text(content: str, x: float, y: float, colour: str = "muted", **style: str | float) -> str:
    """A line of text; the content is the user's."""
    return element("text", plain(content), x=x, y=y, **(paint(colour) | style))


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "hair", **style: str | float) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **(paint(colour) | style))


def framed(body: list[str], width: float, height: float, *, title: str, description: str) -> str:
    """An SVG text that needs nothing else, by day and by night."""
    ground = element("rect", width=width, height=height, **paint("ground"))
    head = [element("title", plain(title)), element("desc", plain(description)), element("style", STYLE), ground]
    frame: Style = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class_": "figure"}
    box = f"0 0 {number(width)} {number(height)}"
    size: Style = {"viewBox": box, "width": width, "height": height, "font_family": SANS, "font_size": FONT}
    return element("svg", "\n", "\n".join([*head, *body]), "\n", **frame, **size) + "\n"


def spread(values: list[float], room: float = 0.06) -> tuple[float, float]:
    """The range of an axis on which all of these have room; never empty."""
    low, high = min(values), max(values)
    margin = (high - low) * room or max(abs(high), 1.0) * room
    return low - margin, high + margin


def ticks(low: float, high: float, about: int = 5) -> Iterator[tuple[float, str]]:
    """Round numbers from low to high, as many as asked for or a few more, each as it is written."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    digits = next(d for d in range(20) if math.isclose(round(step, d), step))
    for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        yield i * step, f"{i * step:,.{digits}f}".replace("-", "−")
