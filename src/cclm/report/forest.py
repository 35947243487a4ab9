"""The differences of a study in one picture: each comparison a row, its interval a line, its seeds dots."""

from collections.abc import Mapping, Sequence
from typing import Any

from cclm.report.figure import Style, framed, line, paint, spread, text, ticks
from cclm.report.study import Study
from cclm.report.svg import element, plain
from cclm.report.written import interval, signed

WIDTH, LEFT, RIGHT = 800.0, 262.0, 606.0
ROW, HEAD = 26.0, 30.0
GROUPS = {"primary": "primary: declared before the run", "exploratory": "exploratory"}

Comparison = Mapping[str, Any]


def forest(study: Study) -> str:
    """The forest plot as an SVG text of its own: the study's endpoint over all languages, primary comparisons first."""
    shown = [comparison for comparison in study.comparisons if study.at_the_endpoint(comparison)]
    low, high = spread([0.0, *(value for comparison in shown for value in _extent(comparison))])
    scale = (RIGHT - LEFT) / (high - low)

    def x(value: float) -> float:
        return LEFT + (value - low) * scale

    rows, y = [], 6.0
    for status, title in GROUPS.items():
        members = [comparison for comparison in shown if study.status(comparison) == status]
        if members:
            rows.append(text(title, 8, y + HEAD - 10, letter_spacing="0.03em"))
            y += HEAD
        for comparison in members:
            rows += _row(comparison, y + ROW / 2, x, primary=status == "primary")
            y += ROW
    axis = [line(x(value), 6, x(value), y) for value, _ in ticks(low, high)]
    axis += [text(label, x(value), y + 18, text_anchor="middle") for value, label in ticks(low, high)]
    axis.append(line(x(0), 6, x(0), y, "rule", stroke_width=1.2))
    named = f"difference in mean {study.endpoint_name}, first − second"
    named += " (one seed, its sentences resampled)" if study.resampled else ""
    axis.append(text(named, (LEFT + RIGHT) / 2, y + 38, text_anchor="middle"))
    return framed(axis + rows, WIDTH, y + 50, title=f"{study.name}: {named}", description=_said(shown, study))


def _extent(comparison: Comparison) -> list[float]:
    ends = [comparison["mean"], comparison.get("low"), comparison.get("high"), *comparison["differences"].values()]
    return [value for value in ends if value is not None]


def _row(comparison: Comparison, y: float, x: Any, *, primary: bool) -> list[str]:
    weight: Style = {"font_weight": "600"} if primary else {}
    parts = [text(_pair(comparison["first"], comparison["second"]), 8, y + 4, "ink", **weight)]
    low, high, mean = comparison.get("low"), comparison.get("high"), comparison["mean"]
    if low is not None and high is not None:
        parts.append(
            line(x(low), y, x(high), y, "blue-line" if primary else "faint", stroke_width=2 if primary else 1.4)
        )
    several = comparison["differences"] if len(comparison["differences"]) > 1 else {}
    for seed, value in several.items():
        hover = element("title", plain(f"seed {seed}: {signed(value)}"))
        parts.append(element("circle", hover, cx=x(value), cy=y + 7, r=1.8, fill_opacity="0.75", **paint("muted")))
    parts.append(_diamond(x(mean), y, primary=primary))
    label = signed(mean) + (f"  [{interval(low, high)}]" if low is not None else "")
    return [*parts, text(label, RIGHT + 14, y + 4, "ink" if primary else "muted", **weight)]


def _pair(first: str, second: str) -> str:
    """Both names as far as there is room, the longer one cut in its middle: names of a family differ at their ends."""
    room = 34 - len(" − ")
    half = max(room // 2, room - min(len(first), len(second)))
    return " − ".join(
        name if len(name) <= half else f"{name[: half // 2]}…{name[-(half // 2 - 1) :]}" for name in (first, second)
    )


def _diamond(x: float, y: float, *, primary: bool) -> str:
    """The mean: full where the comparison was declared beforehand, hollow where it was not."""
    shape = f"M{x - 6:.1f} {y:.1f}l6 -6 6 6 -6 6z"
    style = paint("blue") if primary else paint("ground", "faint") | {"stroke_width": 1.4}
    return element("path", d=shape, **style)


def _said(shown: Sequence[Comparison], study: Study) -> str:
    lines = (
        f"{one['first']} minus {one['second']} ({study.status(one)}): {signed(one['mean'])}"
        + (f", interval {interval(one.get('low'), one.get('high'))}" if one.get("low") is not None else "")
        for one in shown
    )
    return "; ".join(lines) + "."
