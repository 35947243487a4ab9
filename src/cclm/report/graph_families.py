"""The language graph of very many languages, for a page: each HRL with the LRLs nearest to it.

Two columns of hundreds of nodes say nothing. Here every language is a disc, and those of one HRL stand together. The
page's script fills in discs and rings, as in the other drawing (graph.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cclm.curriculum import LanguageGraph
from cclm.report.graph_layout import GraphNode, Point, nearness, ring_width
from cclm.report.svg import MONO, SANS, Style, element, number, plain, shorten

WIDTH = 860.0
COLUMNS = 2
HEAD, GAP, BETWEEN = 78.0, 12.0, 34.0
"""Room for the HRL of a family, between two families, and between the two columns."""
NAMED = 320
"""Languages up to which each has its name below it; of more only a pointer shows the name."""


@dataclass(frozen=True)
class Grid:
    """The size of the discs and of the cells that they stand in."""

    radius: float
    line: float
    cell: tuple[float, float]
    font: float | None

    @property
    def across(self) -> int:
        """LRLs side by side."""
        return int(((WIDTH - BETWEEN * (COLUMNS - 1)) / COLUMNS - HEAD) // self.cell[0])


@dataclass(frozen=True)
class Family:
    """An HRL and the LRLs nearest to it; without an HRL, those that are similar to none."""

    hrl: str | None
    lrls: tuple[str, ...]


def families_figure(graph: LanguageGraph, nodes: Mapping[str, GraphNode]) -> str:
    """The drawing as an SVG element of a page."""
    grid = Grid(7.0, 0.62, (36.0, 34.0), 10.0) if len(graph.languages) <= NAMED else Grid(5.0, 0.5, (17.0, 17.0), None)
    parts: list[str] = []
    bottom = 0.0
    for column, families in enumerate(_columns(_families(graph), grid)):
        x, y = column * (WIDTH + BETWEEN) / COLUMNS, 4.0
        for family in families:
            parts += _family(family, grid, nodes, (x, y))
            y += _height(family, grid) + GAP
        bottom = max(bottom, y)
    root: Style = {"role": "img", "class_": "language-graph families", "width": WIDTH}
    title = element("title", "Language graph")
    words = f"{len(graph.high_resource)} high-resource and {len(graph.low_resource)} low-resource languages, by family"
    box = f"0 0 {number(WIDTH)} {number(bottom)}"
    body = "\n".join([title, element("desc", words), *parts])
    return element("svg", "\n", body, "\n", **root, viewBox=box, font_family=SANS) + "\n"


def ring(place: Point, radius: float, line: float) -> Iterator[str]:
    """The ring around a disc: the track, the part that a script closes, and the mark that it turns to the threshold."""
    x, y = place
    middle, width = radius + 3.6 * line, 2.6 * line
    circle: Style = {"cx": x, "cy": y, "r": middle, "stroke_width": width}
    start: Style = {"transform": f"rotate(-90 {number(x)} {number(y)})"}  # rings start at the top
    yield element("circle", class_="rail", **circle)
    yield element("circle", class_="ring", pathLength="1", stroke_dasharray="0 1", **circle, **start)
    ends: Style = {"x1": x, "x2": x, "y1": y - middle - 1.4 * width, "y2": y - middle + 0.9 * width}
    yield element("line", class_="mark", stroke_width=max(2.4 * line, 1.2), data_x=x, data_y=y, **ends)


def _families(graph: LanguageGraph) -> list[Family]:
    near: dict[str, list[str]] = {hrl: [] for hrl in graph.high_resource}
    alone: list[str] = []
    for lrl in graph.low_resource:
        (near[graph.nearest[lrl]] if nearness(graph, lrl) else alone).append(lrl)
    found = [Family(hrl, tuple(sorted(lrls, key=lambda lrl: -nearness(graph, lrl)))) for hrl, lrls in near.items()]
    return found + ([Family(None, tuple(alone))] if alone else [])


def _height(family: Family, grid: Grid) -> float:
    return max(-(-len(family.lrls) // grid.across), 1) * grid.cell[1]


def _columns(families: Sequence[Family], grid: Grid) -> Iterator[list[Family]]:
    """The families in their order, in columns of about the same height."""
    left = list(families)
    for column in range(COLUMNS, 0, -1):
        target = sum(_height(family, grid) + GAP for family in left) / column
        taken, height = [], 0.0
        while left and (height == 0 or column == 1 or height + _height(left[0], grid) / 2 < target):
            height += _height(left[0], grid) + GAP
            taken.append(left.pop(0))
        yield taken


def _family(family: Family, grid: Grid, nodes: Mapping[str, GraphNode], corner: Point) -> Iterator[str]:
    x, y = corner
    middle = y + grid.cell[1] * 0.38
    if family.hrl is not None:
        place = (x + HEAD - grid.cell[0] / 2 - 6, middle)
        yield _node(family.hrl, "hrl", grid, nodes[family.hrl], place, is_head=True)
    else:
        yield element("text", "like no HRL", class_="quiet", x=x, y=middle + 4, font_size=10)
    for i, lrl in enumerate(family.lrls):
        row, column = divmod(i, grid.across)
        place = (x + HEAD + (column + 0.5) * grid.cell[0], middle + row * grid.cell[1])
        yield _node(lrl, "lrl", grid, nodes[lrl], place)


def _node(lang: str, side: str, grid: Grid, node: GraphNode, place: Point, *, is_head: bool = False) -> str:
    x, y = place
    radius = grid.radius + (1.5 if is_head else 0)
    parts = [
        element("title", plain(lang)),
        element("circle", class_="disc", cx=x, cy=y, r=radius - grid.line, stroke_width=2 * grid.line),
        *ring(place, radius, grid.line),
    ]
    style: Style = {"class_": "name", "font_family": MONO}
    if is_head:
        at: Style = {"x": x - radius - ring_width(grid.line) - 3, "y": y + 4, "text_anchor": "end", "font_size": 11}
        parts.append(element("text", plain(shorten(lang, 11, HEAD - 34)), **style, **at))
    elif grid.font:
        below: Style = {"x": x, "y": y + radius + 14, "text_anchor": "middle", "font_size": grid.font}
        parts.append(element("text", plain(shorten(lang, grid.font, grid.cell[0] - 3)), **style, **below))
    else:
        parts.append(element("text", plain(lang), class_="name unseen", x=x, y=y))
    tasks = " ".join(map(str, node.tasks))
    return element("g", *parts, class_=f"node {side} {node.hue}", data_tasks=tasks)
