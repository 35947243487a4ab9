"""The language graph as the paper's Figure 1 draws it: HRLs coloured, LRLs coloured in as they are admitted."""

import math
from collections.abc import Collection, Iterator, Mapping

from cclm.curriculum import LanguageGraph
from cclm.curriculum.languages import check_known, is_number
from cclm.report.layout import Point, nearness, places
from cclm.report.scene import ARROW, Scene
from cclm.report.svg import MONO, SANS, element, number, plain, shortened

GROUND, INK, QUIET, FAINT = "#ffffff", "#1d232b", "#5f6873", "#7c8794"
# Colours stand in attributes and only the dark ones here: a program that knows no CSS draws the light ones.
DARK = """@media (prefers-color-scheme: dark) {
.language-graph .ground { fill: #15191f }
.language-graph .ink { fill: #e8ecf1 }
.language-graph .quiet { fill: #a3adb9 }
}"""

Style = dict[str, str | float]


def draw_graph(
    graph: LanguageGraph,
    *,
    admitted: Collection[str] | None = None,
    readiness: Mapping[str, float] | None = None,
    title: str = "",
) -> str:
    """The graph as an SVG text that needs nothing else: HRLs left, LRLs right, strong edges from the nearest HRL.

    Without `admitted` all LRLs are filled: the graph itself, not a moment of training. `readiness` is the
    HRLs-evaluated competence, written beside the LRLs that have one. Of very many languages the most similar are
    drawn, and a line says how many are not.
    """
    check_known(admitted or (), graph.languages, "admitted")
    _check_readiness(graph, readiness or {})
    layout = places(graph, head=86 if title.strip() else 46, with_readiness=bool(readiness))
    scene = Scene(graph, layout, None if admitted is None else frozenset(admitted), readiness or {})
    legend = list(_legend(scene))
    size = {"width": layout.width, "height": layout.bottom + 24 + 20 * len(legend)}
    body = [
        element("title", plain(title) or "Language graph"),
        element("desc", plain(scene.description())),
        element("style", DARK),
        element("rect", class_="ground", fill=GROUND, **size),
        *_headings(scene, title),
        *_edges(scene),
        *_similarities(scene),
        *(_node(scene, lang, place) for lang, place in (layout.hrls | layout.lrls).items()),
        *legend,
    ]
    box = f"0 0 {number(size['width'])} {number(size['height'])}"
    frame: Style = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class_": "language-graph"}
    return element("svg", "\n", "\n".join(body), "\n", **frame, viewBox=box, **size, font_family=SANS) + "\n"


def _check_readiness(graph: LanguageGraph, readiness: Mapping[str, float]) -> None:
    check_known(readiness, graph.low_resource, "readiness")
    for lrl, value in readiness.items():
        if not is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"readiness of {lrl} is {value!r}; a competence is a finite number of at least 0")


def _headings(scene: Scene, title: str) -> Iterator[str]:
    width, top = scene.places.width, scene.places.top
    if title.strip():
        line = plain(shortened(title, 18, width - 48))
        yield _text(line, width / 2, 36, font_size=18, font_weight="600", text_anchor="middle")
    for word, column in (("high-resource", scene.places.hrls), ("low-resource", scene.places.lrls)):
        x = next(iter(column.values()))[0]
        yield _quiet(word, x, top - 14)


def _edges(scene: Scene) -> Iterator[str]:
    # Relative to the most similar pair: overlaps are small numbers, and every graph has its own range.
    strongest = max(nearness(scene.graph, lrl) for lrl in scene.places.lrls) or 1.0
    for hrl, lrl in scene.pairs():
        strength = scene.graph.similarity[lrl][hrl] / strongest
        yield _strong_edge(scene, hrl, lrl, strength) if hrl == scene.nearest(lrl) else _edge(scene, hrl, lrl, strength)


def _edge(scene: Scene, hrl: str, lrl: str, strength: float) -> str:
    crowd = max(len(scene.places.hrls) / 4, 1) ** -0.8  # many faint edges add up to a dark one
    width = scene.places.scale.line * (0.8 + 3 * strength)
    opacity = f"{crowd * (0.2 + 0.6 * strength):.2f}"
    return _curve(scene, hrl, lrl, class_="edge", stroke=FAINT, stroke_width=width, stroke_opacity=opacity)


def _strong_edge(scene: Scene, hrl: str, lrl: str, strength: float) -> str:
    """The edge from the nearest HRL, with the arrow that tells the direction of all."""
    colour, line = scene.colour(hrl), scene.places.scale.line
    (x, y), size = scene.ends(hrl, lrl)[1], ARROW * line
    arrow = f"M{number(x + size)} {number(y)}l{number(-size)} {number(-size / 2)}v{number(size)}z"
    style: Style = {"stroke": colour, "stroke_width": line * (1.5 + 3 * strength)}
    style["stroke_opacity"] = f"{0.7 + 0.3 * strength:.2f}"
    return _curve(scene, hrl, lrl, class_="nearest", **style) + element("path", class_="arrow", d=arrow, fill=colour)


def _curve(scene: Scene, hrl: str, lrl: str, **style: str | float) -> str:
    (x1, y1), (x2, y2) = scene.ends(hrl, lrl)
    start, end, y1_, y2_ = f"{number(x1)} {number(y1)}", f"{number(x2)} {number(y2)}", number(y1), number(y2)
    middle = number((x1 + x2) / 2)
    hover = element("title", f"{hrl} → {lrl}: {scene.graph.similarity[lrl][hrl]:.2f}")
    return element("path", hover, d=f"M{start}C{middle} {y1_} {middle} {y2_} {end}", fill="none", **style)


def _similarities(scene: Scene) -> Iterator[str]:
    """The similarity on each strong edge, in a gap of the line."""
    font = scene.places.scale.small_font
    width, height = 4 * 0.62 * font + 6, font + 3
    for lrl in scene.places.lrls:
        if hrl := scene.nearest(lrl):
            x, y = _along(*scene.ends(hrl, lrl))
            box: Style = {"x": x - width / 2, "y": y - height / 2, "width": width, "height": height}
            yield element("rect", class_="ground", fill=GROUND, rx=height / 2, **box)
            value = f"{scene.graph.similarity[lrl][hrl]:.2f}"
            style: Style = {"font_size": font, "font_family": MONO, "text_anchor": "middle"}
            yield _text(value, x, y + 0.35 * font, class_="ink similarity", **style)


def _along(start: Point, end: Point, t: float = 0.7) -> Point:
    """The point of the curve at t; near the LRL, where the strong edges have parted."""
    (x1, y1), (x2, y2) = start, end
    x = (1 - t) ** 3 * x1 + 3 * t * (1 - t) * (x1 + x2) / 2 + t**3 * x2
    return x, y1 + (y2 - y1) * t * t * (3 - 2 * t)


def _node(scene: Scene, lang: str, place: Point) -> str:
    (x, y), scale, state = place, scene.places.scale, scene.state(lang)
    line = 2.5 * scale.line
    hollow: Style = {"class_": "ground", "fill": GROUND, "stroke": FAINT}
    filled: Style = {"fill": scene.colour(lang), "stroke": scene.colour(lang)}
    paint = hollow if state == "lrl waiting" else filled
    parts = [element("circle", cx=x, cy=y, r=scale.radius - line / 2, stroke_width=line, **paint)]
    parts.append(_name(scene, lang, place))
    if lang in scene.readiness:
        style: Style = {"class_": "quiet readiness", "fill": QUIET, "font_size": scale.font, "font_family": MONO}
        value = scene.readiness[lang]
        shown = f"{value:.2f}" if value < 1000 else f"{value:.0e}"  # no ceiling: 1 is only the bitext model's
        parts.append(_text(shown, scene.places.readiness_x, y + 0.35 * scale.font, **style))
    return element("g", *parts, class_=f"node {state}")


def _name(scene: Scene, lang: str, place: Point) -> str:
    """The code of the language: in the circle where it fits, else beside it, away from the edges."""
    (x, y), scale, away = place, scene.places.scale, scene.places.scale.radius + 6
    style: Style = {"class_": "ink name", "font_size": scale.font, "font_family": MONO}
    if scene.places.names_inside:
        style |= {"text_anchor": "middle", "font_weight": "600"}
        if scene.state(lang) != "lrl waiting":
            style |= {"class_": "name", "fill": GROUND}
    elif lang in scene.places.hrls:
        x, style["text_anchor"] = x - away, "end"
    else:
        x += away
    return _text(lang, x, y + 0.35 * scale.font, **style)


def _legend(scene: Scene) -> Iterator[str]:
    for i, line in enumerate(scene.legend()):
        yield _quiet(line, scene.places.width / 2, scene.places.bottom + 26 + 20 * i)


def _quiet(content: str, x: float, y: float) -> str:
    return _text(content, x, y, class_="quiet", fill=QUIET, font_size=12, text_anchor="middle")


def _text(content: str, x: float, y: float, **style: str | float) -> str:
    ink: Style = {"class_": "ink", "fill": INK}
    return element("text", content, x=x, y=y, **(ink | style))
