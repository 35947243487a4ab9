"""A plot of lines as SVG: places on a logarithmic axis, values from zero, one panel under the other."""

import math
from collections.abc import Sequence

from cclm.report.svg import MONO, element, number, plain

WIDTH, PANEL, LEFT, TOP = 640, 200, 90, 40
Line = tuple[str, Sequence[float]]
COLOURS = ("#1f5fa8", "#c2571a")


def plot(title: str, along: str, places: Sequence[float], panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """The picture; a panel is the name of its values and lines with a value for each place."""
    height = TOP + len(panels) * (PANEL + 50) + 10
    parts = [element("rect", width=WIDTH, height=height, fill="#ffffff"), _text(title, 20, 24, size=15)]
    for i, (name, lines) in enumerate(panels):
        parts += _panel(name, along, places, lines, TOP + i * (PANEL + 50))
    return element("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", font_family=MONO)


def _panel(name: str, along: str, places: Sequence[float], lines: Sequence[Line], top: float) -> list[str]:
    most = nice(max(value for _, values in lines for value in values))
    bottom, right = top + 20 + PANEL - 40, WIDTH - 20
    parts = [_text(name, 20, top + 10)]
    for step in range(5):
        y = bottom - step / 4 * (bottom - top - 20)
        parts.append(element("line", x1=LEFT, y1=y, x2=right, y2=y, stroke="#dddddd"))
        parts.append(_text(f"{most * step / 4:,.10g}", LEFT - 8, y + 4, anchor="end"))
    xs = [across(place, places, LEFT + 20, right - 20) for place in places]
    for x, place in zip(xs, places, strict=True):
        parts.append(_text(f"{place:,.0f}", x, bottom + 18, anchor="middle"))
    parts.append(_text(along, right, bottom + 36, anchor="end"))
    for i, (label, values) in enumerate(lines):
        points = [(x, bottom - value / most * (bottom - top - 20)) for x, value in zip(xs, values, strict=True)]
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        parts.append(element("polyline", points=path, fill="none", stroke=COLOURS[i], stroke_width=2))
        parts += [element("circle", cx=x, cy=y, r=3, fill=COLOURS[i]) for x, y in points]
        parts.append(_text(label, LEFT + 160 * i, bottom + 36, colour=COLOURS[i]))
    return parts


def across(place: float, places: Sequence[float], left: float, right: float) -> float:
    """Where a place stands on the logarithmic axis."""
    low, high = math.log(min(places)), math.log(max(places))
    return left + (right - left) * (math.log(place) - low) / ((high - low) or 1)


def nice(value: float) -> float:
    """The next round number."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value)


def _text(text: str, x: float, y: float, *, size: float = 12, anchor: str = "start", colour: str = "#333333") -> str:
    return element("text", plain(text), x=x, y=y, font_size=size, text_anchor=anchor, fill=colour)
