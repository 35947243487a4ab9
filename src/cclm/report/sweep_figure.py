"""The paper's Figure 2: weighted dev loss and mean BLEU against the threshold, for max and for avg."""

from collections.abc import Mapping, Sequence
from typing import Any

from cclm.report.figure import Style, framed, line, paint, spread, text, ticks
from cclm.report.svg import element, number, plain, shortened
from cclm.report.written import decimal

WIDTH, HEIGHT = 400.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 388.0, 62.0, 268.0
PANELS = (("weighted", "weighted dev loss, bits a token", 3), ("bleu", "mean BLEU on the test sets", 2))
COLOURS = {"max": "orange", "avg": "blue"}

Sweep = Mapping[str, Any]


def figure_2(sweep: Sweep) -> str:
    """Both panels beside one another, as an SVG text of its own."""
    bodies = [
        element("g", "\n".join(_body(sweep, *panel)), transform=f"translate({number(i * WIDTH)} 0)")
        for i, panel in enumerate(PANELS)
    ]
    return framed(bodies, 2 * WIDTH, HEIGHT, title=f"{sweep['recipe']}: thresholds", description=_said(sweep))


def panels(sweep: Sweep) -> list[str]:
    """The panels one by one, for a page that may be too narrow for both."""
    return [
        framed(_body(sweep, *panel), WIDTH, HEIGHT, title=f"{panel[1]} against the threshold", description=_said(sweep))
        for panel in PANELS
    ]


def _body(sweep: Sweep, key: str, title: str, digits: int) -> list[str]:
    """One panel: title, legend, axes, the rival across, a line for each aggregate, a ring around what was chosen."""
    leaves = [leaf for leaf in sweep["leaves"] if leaf.get(key) is not None]
    head = [text(title, 8, 20, "ink", font_weight="600")]
    if not leaves:
        return [*head, text("not scored yet", WIDTH / 2, (TOP + BOTTOM) / 2, text_anchor="middle")]
    rival = (sweep.get("rival") or {}).get(key)
    low, high = spread([leaf[key] for leaf in leaves] + ([] if rival is None else [rival]), 0.12)
    thresholds = sorted({leaf["threshold"] for leaf in sweep["leaves"]})
    left, right = spread(thresholds, 0.05)

    def at(threshold: float, value: float) -> tuple[float, float]:
        across, up = (threshold - left) / (right - left), (value - low) / (high - low)
        return LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)

    parts = []
    for value, label in ticks(low, high):
        y = at(left, value)[1]
        parts += [line(LEFT, y, RIGHT, y), text(label, LEFT - 8, y + 4, text_anchor="end")]
    for threshold in _labelled(thresholds):
        parts.append(text(f"{threshold:g}", at(threshold, low)[0], BOTTOM + 20, text_anchor="middle"))
    parts.append(text("threshold", (LEFT + RIGHT) / 2, BOTTOM + 40, text_anchor="middle"))
    if rival is not None:
        y = at(left, rival)[1]
        parts.append(line(LEFT, y, RIGHT, y, "rule", stroke_width=1.5, stroke_dasharray="2 4"))
    for aggregate in sweep["aggregates"]:
        own = sorted((leaf for leaf in leaves if leaf["aggregate"] == aggregate), key=lambda leaf: leaf["threshold"])
        points = [at(leaf["threshold"], leaf[key]) for leaf in own]
        parts += _line(aggregate, points, [_hover(leaf, key, digits) for leaf in own])
    return [*head, *_legend(sweep, rival is not None), *parts, *_chosen(sweep, leaves, key, at)]


def _labelled(thresholds: Sequence[float]) -> Sequence[float]:
    """As many of the thresholds as have room below the axis."""
    return thresholds[:: -(-len(thresholds) // 10)]


def _line(aggregate: str, points: Sequence[tuple[float, float]], hovers: Sequence[str]) -> list[str]:
    if not points:
        return []
    route = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    colour = COLOURS.get(aggregate, "muted")
    stroke = f"{colour}-line" if aggregate in COLOURS else "faint"
    drawn = element("path", d=route, stroke_width=1.8, **(paint(stroke) | {"fill": "none"}))
    return [drawn, *(_mark(aggregate, *point, hover) for point, hover in zip(points, hovers, strict=True))]


def _mark(aggregate: str, x: float, y: float, hover: str = "") -> str:
    """A disc for avg, a square for max: told apart without colours."""
    title = [element("title", hover)] if hover else []
    colour = paint(COLOURS.get(aggregate, "muted"))
    if aggregate == "max":
        return element("rect", *title, x=x - 3.6, y=y - 3.6, width=7.2, height=7.2, **colour)
    return element("circle", *title, cx=x, cy=y, r=4, **colour)


def _hover(leaf: Mapping[str, Any], key: str, digits: int) -> str:
    return plain(f"threshold {leaf['threshold']:g}, {leaf['aggregate']}: {decimal(leaf[key], digits)}")


def _legend(sweep: Sweep, has_rival: bool) -> list[str]:
    parts, x = [], 12.0
    for aggregate in sweep["aggregates"]:
        parts += [_mark(aggregate, x, 40), text(shortened(aggregate, 12, 80), x + 10, 44)]
        x += 60
    if has_rival:
        dots = line(x, 40, x + 22, 40, "rule", stroke_width=1.5, stroke_dasharray="2 4")
        parts += [dots, text(shortened(sweep["rival"]["name"], 12, 130), x + 28, 44)]
    ring = element("circle", cx=WIDTH - 70, cy=40, r=6, **_RING)
    return [*parts, ring, text("chosen", WIDTH - 58, 44)]


def _chosen(sweep: Sweep, leaves: Sequence[Mapping[str, Any]], key: str, at: Any) -> list[str]:
    chosen = sweep["chosen"]
    found = [one for one in leaves if all(one[name] == chosen[name] for name in ("threshold", "aggregate"))]
    places = [at(leaf["threshold"], leaf[key]) for leaf in found]
    return [element("circle", cx=x, cy=y, r=8, **_RING) for x, y in places]


_RING: Style = paint("rule") | {"fill": "none", "stroke_width": 1.6}


def _said(sweep: Sweep) -> str:
    chosen = sweep["chosen"]
    lines = (
        f"{leaf['aggregate']} at {leaf['threshold']:g}: {decimal(leaf['weighted'], 3)} bits,"
        f" BLEU {decimal(leaf.get('bleu'))}"
        for leaf in sweep["leaves"]
    )
    return f"{'; '.join(lines)}. Chosen: {chosen['aggregate']} at {chosen['threshold']:g}."
