"""The language graph in the style of the paper's Figure 1: as an SVG file, as part of a page, as a terminal table.

The drawing in a page shows no particular step: the script of the page adds the class `open` to the nodes and edges of
languages admitted at the selected step, draws the rings, and writes the competences.
"""

import math
from collections.abc import Collection, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from cclm.curriculum import LanguageGraph
from cclm.curriculum.languages import check_known, is_number, listed
from cclm.report.graph_families import families_figure, ring
from cclm.report.graph_layout import (
    ARROW,
    NAME_WIDTH,
    GraphNode,
    GraphView,
    Point,
    draws_families,
    nearness,
    page_layout,
    picture_layout,
    ring_width,
)
from cclm.report.svg import MONO, SANS, Style, element, number, plain, shorten

GROUND, INK, QUIET, FAINT, NEUTRAL = "#ffffff", "#1d232b", "#5f6873", "#7c8794", "#66707d"
# Contrast: at least 4.5:1 with white letters and on white, 3:1 on the dark background.
COLOURS = ("#2b6cb0", "#b7500f", "#2b7d4b", "#8a4ba6", "#bb3453", "#177b88", "#85680f", "#5b62c9")
# Light colours are attributes, for viewers without CSS; dark ones need a style sheet.
DARK = """@media (prefers-color-scheme: dark) {
.language-graph .ground { fill: #15191f }
.language-graph .ink { fill: #e8ecf1 }
.language-graph .quiet { fill: #a3adb9 }
}"""


def draw_graph(
    graph: LanguageGraph,
    *,
    admitted: Collection[str] | None = None,
    readiness: Mapping[str, float] | None = None,
    title: str = "",
) -> str:
    """The graph as a complete SVG document: HRLs left, LRLs right, a strong edge from the nearest HRL of each LRL.

    `admitted` are the languages admitted so far; None fills all nodes. `readiness` is the HRLs-evaluated competence,
    written beside the LRLs that have one. With very many languages, only the most similar ones are drawn, and the
    legend has the number of the others.
    """
    check_known(admitted or (), graph.languages, "admitted")
    _check_readiness(graph, readiness or {})
    layout = picture_layout(graph, head=86 if title.strip() else 46, with_readiness=bool(readiness))
    view = GraphView(graph, layout, None if admitted is None else frozenset(admitted), readiness or {})
    legend = list(_legend(view))
    width, height = layout.width, layout.bottom + 24 + 20 * len(legend)
    head = [element("style", DARK), element("rect", class_="ground", fill=GROUND, width=width, height=height)]
    root: Style = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "class_": "language-graph"}
    root |= {**_box(width, height), "width": width, "height": height}
    body = [*head, *_title(view, title), *_body(view), *legend]
    return _svg(view, body, plain(title) or "Language graph", root)


def graph_figure(graph: LanguageGraph, nodes: Mapping[str, GraphNode]) -> str:
    """The graph as an SVG element for a page; `nodes` links each language to the data of the page's script."""
    if draws_families(graph):
        return families_figure(graph, nodes)
    readings = max(len(nodes[lrl].tasks) for lrl in graph.low_resource)
    view = GraphView(graph, page_layout(graph, max(readings, 1)), nodes=nodes)
    box = _box(view.layout.width, view.layout.bottom + 4)
    enlarged = 1.2 if view.layout.names_inside else 1.0
    root: Style = {"role": "img", "class_": "language-graph", **box, "width": view.layout.width * enlarged}
    return _svg(view, list(_body(view)), "Language graph", root)


def _svg(view: GraphView, body: list[str], title: str, root: Style) -> str:
    head = [element("title", title), element("desc", plain(view.description()))]
    return element("svg", "\n", "\n".join([*head, *body]), "\n", **root, font_family=SANS) + "\n"


def _box(width: float, height: float) -> Style:
    return {"viewBox": f"0 0 {number(width)} {number(height)}"}


def _body(view: GraphView) -> Iterator[str]:
    for heading, column in (("high-resource", view.layout.hrls), ("low-resource", view.layout.lrls)):
        x = next(iter(column.values()))[0]
        yield _quiet(heading, max(x, 42.0), view.layout.top - 14)  # 42: half the width of the longer heading
    yield from _edges(view)
    yield from _similarities(view)
    for lang, centre in (view.layout.hrls | view.layout.lrls).items():
        yield _node(view, lang, centre)


def _check_readiness(graph: LanguageGraph, readiness: Mapping[str, float]) -> None:
    check_known(readiness, graph.low_resource, "readiness")
    for lrl, value in readiness.items():
        if not is_number(value) or not 0 <= value < math.inf:
            raise ValueError(f"readiness of {lrl} is {value!r}; a competence must be a finite number >= 0")


def _title(view: GraphView, title: str) -> Iterator[str]:
    if title.strip():
        line = plain(shorten(title, 18, view.layout.width - 48))
        yield _text(line, view.layout.width / 2, 36, font_size=18, font_weight="600", text_anchor="middle")


def _colour(view: GraphView, lang: str) -> str:
    """The colour of an HRL; an LRL has the colour of its nearest HRL."""
    hrl = view.nearest(lang) if lang in view.graph.similarity else lang
    return NEUTRAL if hrl is None else COLOURS[list(view.layout.hrls).index(hrl) % len(COLOURS)]


def _edges(view: GraphView) -> Iterator[str]:
    # Relative to the most similar pair: the range of similarities differs from graph to graph.
    strongest = max(nearness(view.graph, lrl) for lrl in view.layout.lrls) or 1.0
    for hrl, lrl in view.pairs():
        strength = view.graph.similarity[lrl][hrl] / strongest
        yield _strong_edge(view, hrl, lrl, strength) if hrl == view.nearest(lrl) else _edge(view, hrl, lrl, strength)


def _edge(view: GraphView, hrl: str, lrl: str, strength: float) -> str:
    crowd = max(len(view.layout.hrls) / 4, 1) ** -0.8  # many overlapping faint edges look dark
    width = view.layout.scale.line * (0.8 + 3 * strength)
    opacity = f"{crowd * (0.2 + 0.6 * strength):.2f}"
    return _curve(view, hrl, lrl, class_="edge", stroke=FAINT, stroke_width=width, stroke_opacity=opacity)


def _strong_edge(view: GraphView, hrl: str, lrl: str, strength: float) -> str:
    """The edge from the nearest HRL; only these edges have an arrow, which shows the direction of all edges."""
    line = view.layout.scale.line
    (x, y), size = view.ends(hrl, lrl)[1], ARROW * line
    arrow = f"M{number(x + size)} {number(y)}l{number(-size)} {number(-size / 2)}v{number(size)}z"
    width = line * (1.5 + 3 * strength)
    if view.nodes:
        tasks: Style = {"data_tasks": _tasks(view.nodes[lrl])}
        curve = _curve(view, hrl, lrl, class_=f"nearest {view.nodes[hrl].hue}", stroke_width=width, **tasks)
        return curve + element("path", class_=f"arrow {view.nodes[hrl].hue}", d=arrow, **tasks)
    colour = _colour(view, hrl)
    style: Style = {"stroke": colour, "stroke_width": width, "stroke_opacity": f"{0.7 + 0.3 * strength:.2f}"}
    return _curve(view, hrl, lrl, class_="nearest", **style) + element("path", class_="arrow", d=arrow, fill=colour)


def _tasks(node: GraphNode) -> str:
    return " ".join(map(str, node.tasks))


def _curve(view: GraphView, hrl: str, lrl: str, **style: str | float) -> str:
    (x1, y1), (x2, y2) = view.ends(hrl, lrl)
    start, end, y1_, y2_ = f"{number(x1)} {number(y1)}", f"{number(x2)} {number(y2)}", number(y1), number(y2)
    middle = number((x1 + x2) / 2)
    hover = element("title", f"{hrl} → {lrl}: {view.graph.similarity[lrl][hrl]:.2f}")
    return element("path", hover, d=f"M{start}C{middle} {y1_} {middle} {y2_} {end}", fill="none", **style)


def _similarities(view: GraphView) -> Iterator[str]:
    """The similarity on each strong edge, on a background that interrupts the line."""
    font = view.layout.scale.small_font
    width, height = 4 * 0.62 * font + 6, font + 3
    for lrl in view.layout.lrls:
        if hrl := view.nearest(lrl):
            x, y = _point_on_curve(*view.ends(hrl, lrl))
            box: Style = {"x": x - width / 2, "y": y - height / 2, "width": width, "height": height}
            yield element("rect", class_="ground", fill=GROUND, rx=height / 2, **box)
            value = f"{view.graph.similarity[lrl][hrl]:.2f}"
            style: Style = {"font_size": font, "font_family": MONO, "text_anchor": "middle"}
            yield _text(value, x, y + 0.35 * font, class_="ink similarity", **style)


def _point_on_curve(start: Point, end: Point, t: float = 0.7) -> Point:
    """The point of the curve at `t`; the default is near the LRL, where strong edges are apart."""
    (x1, y1), (x2, y2) = start, end
    x = (1 - t) ** 3 * x1 + 3 * t * (1 - t) * (x1 + x2) / 2 + t**3 * x2
    return x, y1 + (y2 - y1) * t * t * (3 - 2 * t)


def _node(view: GraphView, lang: str, centre: Point) -> str:
    if view.nodes:
        return _page_node(view, lang, centre, view.nodes[lang])
    state, colour = view.state(lang), _colour(view, lang)
    hollow: Style = {"class_": "ground", "fill": GROUND, "stroke": FAINT}
    filled: Style = {"fill": colour, "stroke": colour}
    parts = [_circle(view, centre, **(hollow if state == "lrl waiting" else filled)), _name(view, lang, centre)]
    if lang in view.readiness:
        value = view.readiness[lang]
        # Competence may exceed 1, which only means as good as the bitext model.
        text = f"{value:.2f}" if value < 1000 else f"{value:.0e}"
        parts.append(_readiness(view, view.layout.readiness_x, centre[1], text))
    return element("g", *parts, class_=f"node {state}")


def _page_node(view: GraphView, lang: str, centre: Point, node: GraphNode) -> str:
    """A node that the page's script updates: a disc, a ring with a mark, and a text for its competence."""
    parts = [_circle(view, centre, class_="disc"), *ring(centre, view.layout.scale.radius, view.layout.scale.line)]
    parts.append(_name(view, lang, centre))
    if lang in view.layout.lrls:
        parts.append(_readiness(view, view.layout.readiness_x, centre[1], ""))
    elif view.layout.names_inside:
        x = centre[0] - view.layout.scale.radius - ring_width(view.layout.scale.line) - 5
        parts.append(_readiness(view, x, centre[1], "", text_anchor="end"))
    inside = " inside" if view.layout.names_inside else ""
    return element("g", *parts, class_=f"node {view.state(lang)}{inside} {node.hue}", data_tasks=_tasks(node))


def _circle(view: GraphView, centre: Point, **style: str | float) -> str:
    line = 2.5 * view.layout.scale.line
    return element(
        "circle", cx=centre[0], cy=centre[1], r=view.layout.scale.radius - line / 2, stroke_width=line, **style
    )


def _readiness(view: GraphView, x: float, y: float, content: str, **more: str | float) -> str:
    font = view.layout.scale.font
    style: Style = {"class_": "quiet readiness", "fill": QUIET, "font_size": font, "font_family": MONO}
    return _text(content, x, y + 0.35 * font, **style, **more)


def _name(view: GraphView, lang: str, centre: Point) -> str:
    """The name of the language: inside the circle if it fits, otherwise beside it."""
    (x, y), scale = centre, view.layout.scale
    away = scale.radius + 6 + (ring_width(scale.line) if view.nodes else 0)
    style: Style = {"class_": "ink name", "font_size": scale.font, "font_family": MONO}
    if view.layout.names_inside:
        style |= {"text_anchor": "middle", "font_weight": "600"}
        if view.state(lang) != "lrl waiting":
            style |= {"class_": "name", "fill": GROUND}
    elif lang in view.layout.hrls:
        x, style["text_anchor"] = x - away, "end"
    else:
        x += away
    name = shorten(lang, scale.font, NAME_WIDTH) if view.nodes else lang
    return _text(plain(name), x, y + 0.35 * scale.font, **style)


def _legend(view: GraphView) -> Iterator[str]:
    for i, line in enumerate(view.legend()):
        yield _quiet(line, view.layout.width / 2, view.layout.bottom + 26 + 20 * i)


def _quiet(content: str, x: float, y: float) -> str:
    return _text(content, x, y, class_="quiet", fill=QUIET, font_size=12, text_anchor="middle")


def _text(content: str, x: float, y: float, **style: str | float) -> str:
    ink: Style = {"class_": "ink", "fill": INK}
    return element("text", content, x=x, y=y, **(ink | style))


MAX_COLUMNS = 12
"""The most LRLs that get one column each in a terminal."""
RANKS = ("nearest", "second", "third")


def similarity_table(graph: LanguageGraph) -> Table:
    """All similarities, HRLs by LRLs; with more than twelve LRLs, one row per LRL with its three nearest HRLs."""
    table = _matrix(graph) if len(graph.low_resource) <= MAX_COLUMNS else _nearest_three(graph)
    table.caption = "* nearest HRL"
    if graph.isolated:
        table.caption += f"; similar to no HRL: {listed(graph.isolated)}"
    return table


def _matrix(graph: LanguageGraph) -> Table:
    table = Table("HRL", *graph.low_resource)
    for hrl in graph.high_resource:
        table.add_row(hrl, *(_cell(graph, hrl, lrl) for lrl in graph.low_resource))
    return table


def _nearest_three(graph: LanguageGraph) -> Table:
    ranks = RANKS[: len(graph.high_resource)]
    table = Table("LRL", *ranks)
    longest = max(map(len, graph.high_resource))
    for lrl in graph.low_resource:
        # Sorting is stable: ties stay in the declared order, as in `nearest`.
        ranked = sorted(graph.high_resource, key=lambda hrl: -graph.similarity[lrl][hrl])[: len(ranks)]
        cells = (Text(f"{hrl:{longest}} ").append_text(_cell(graph, hrl, lrl)) for hrl in ranked)
        table.add_row(lrl, *cells)
    return table


def _cell(graph: LanguageGraph, hrl: str, lrl: str) -> Text:
    """The similarity; bold and with an asterisk if this is the nearest HRL."""
    value = graph.similarity[lrl][hrl]
    if value and graph.nearest[lrl] == hrl:
        return Text(f"{value:.2f}*", style="bold")
    return Text(f"{value:.2f} ")
