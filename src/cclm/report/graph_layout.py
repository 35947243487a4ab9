"""The layout of a drawing of the language graph: which languages are drawn, where, and a description in text."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cclm.curriculum import LanguageGraph
from cclm.report.svg import text_width

MOST = 120
"""The most languages per side in one drawing: more rows cannot be read."""
ALL_EDGES = 40
"""The most languages per side for which all edges are drawn: more faint edges cannot be told apart."""
ARROW = 11.0
NAME_WIDTH = 110.0
"""Pixels for a name beside its node in a page; longer names are shortened."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """Sizes in pixels for drawings with at most `up_to` languages per side."""

    up_to: int
    pitch: float
    radius: float
    font: float
    small_font: float
    line: float


SCALES = (
    Scale(up_to=8, pitch=78, radius=24, font=15, small_font=13, line=1.0),
    Scale(up_to=40, pitch=30, radius=9, font=13, small_font=11, line=0.75),
    Scale(up_to=MOST, pitch=17, radius=5, font=11, small_font=9.5, line=0.55),
)
PAGE_SCALES = (Scale(up_to=8, pitch=62, radius=21, font=13.5, small_font=11.5, line=0.9), *SCALES[1:])


@dataclass(frozen=True)
class Layout:
    """The centre of every drawn language, from top to bottom, and the size of the drawing."""

    hrls: dict[str, Point]
    lrls: dict[str, Point]
    scale: Scale
    width: float
    top: float
    bottom: float
    names_inside: bool
    readiness_x: float


@dataclass(frozen=True)
class GraphNode:
    """A language in a page: the CSS classes of its colour, and the indices of its tasks in the page's data."""

    hue: str
    tasks: tuple[int, ...]


@dataclass(frozen=True)
class GraphView:
    """A graph with its layout and the state of its languages."""

    graph: LanguageGraph
    layout: Layout
    admitted: frozenset[str] | None = None
    """The languages admitted so far; None for a drawing of the graph alone."""
    readiness: Mapping[str, float] = field(default_factory=dict)
    nodes: Mapping[str, GraphNode] | None = None
    """Set for a drawing in a page, whose script shows the state at each step; None for an SVG file."""

    def nearest(self, lrl: str) -> str | None:
        """The nearest HRL; None for an LRL that is similar to no HRL."""
        return self.graph.nearest[lrl] if nearness(self.graph, lrl) else None

    def state(self, lang: str) -> str:
        """The CSS classes of a node: `hrl`, `lrl`, `lrl admitted` or `lrl waiting`."""
        if lang in self.layout.hrls:
            return "hrl"
        if self.admitted is None:
            return "lrl"
        return "lrl admitted" if lang in self.admitted else "lrl waiting"

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs (HRL, LRL) that get an edge; faint edges first, so that strong ones are drawn over them."""
        hrls, lrls = self.layout.hrls, self.layout.lrls
        pairs = [(hrl, lrl) for lrl in lrls for hrl in hrls]
        if max(len(hrls), len(lrls)) > ALL_EDGES or self.left_out():
            pairs = [(hrl, lrl) for hrl, lrl in pairs if hrl == self.nearest(lrl)]
        return sorted(
            pairs, key=lambda pair: (pair[0] == self.nearest(pair[1]), self.graph.similarity[pair[1]][pair[0]])
        )

    def ends(self, hrl: str, lrl: str) -> tuple[Point, Point]:
        """The end points of an edge: the rims of the nodes, with space for an arrow if the LRL gets one."""
        (x1, y1), (x2, y2) = self.layout.hrls[hrl], self.layout.lrls[lrl]
        scale = self.layout.scale
        arrow = ARROW * scale.line if self.nearest(lrl) else 0.0
        rim = scale.radius + (ring_width(scale.line) if self.nodes else 0.0)
        return (x1 + rim, y1), (x2 - rim - arrow, y2)

    def description(self) -> str:
        """A description of the drawing for screen readers."""
        sides = f"{len(self.graph.high_resource)} high-resource and {len(self.graph.low_resource)} low-resource"
        return f"{sides} languages. {'; '.join(map(self._describe_lrl, self.layout.lrls))}. {self.left_out()}"

    def _describe_lrl(self, lrl: str) -> str:
        hrl = self.nearest(lrl)
        near = f"nearest to {hrl} ({self.graph.similarity[lrl][hrl]:.2f})" if hrl else "similar to no HRL"
        state = self.state(lrl).removeprefix("lrl").strip()
        return f"{lrl}: {near}" + (f", {state}" if state else "")

    def legend(self) -> list[str]:
        """The lines of the legend, which fit the width of the drawing."""
        items = ["strong line: nearest HRL and its similarity"]
        if self.admitted is not None:
            items = ["● admitted", "○ waiting", *items]
        if self.readiness:
            items.append("number at the right: HRLs-evaluated competence")
        lines = [items[0]]
        for item in items[1:]:
            longer = f"{lines[-1]}\u2003{item}"
            lines = [*lines[:-1], longer] if text_width(longer, 12) < self.layout.width - 24 else [*lines, item]
        return [*lines, *filter(None, [self.left_out()])]

    def left_out(self) -> str:
        """A note on the languages that are not drawn; empty if all are drawn."""
        hrls = len(self.graph.high_resource) - len(self.layout.hrls)
        lrls = set(self.graph.low_resource) - set(self.layout.lrls)
        admitted = "" if self.admitted is None else f" ({len(lrls & self.admitted):,} admitted)"
        parts = [f"{_count(len(lrls), 'LRL')} less similar to any HRL{admitted}"] if lrls else []
        parts += [f"{_count(hrls, 'HRL')} not nearest to any LRL drawn"] if hrls else []
        return f"not drawn: {' and '.join(parts)}" if parts else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number > 1 else ''}"


def draws_families(graph: LanguageGraph) -> bool:
    """Whether a page draws each HRL with the LRLs nearest to it, instead of two columns that nobody could survey."""
    return max(len(graph.high_resource), len(graph.low_resource)) > ALL_EDGES


def ring_width(line: float) -> float:
    """Pixels that the ring around a node of a page takes, where lines are this thick."""
    return 5.5 * line


def nearness(graph: LanguageGraph, lrl: str) -> float:
    """The similarity to the nearest HRL; 0 for an LRL that is similar to no HRL."""
    return graph.similarity[lrl][graph.nearest[lrl]]


def drawn_languages(graph: LanguageGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The HRLs and LRLs to draw: all, or with very many the most similar LRLs and their nearest HRLs."""
    hrls, lrls = graph.high_resource, graph.low_resource
    if max(len(hrls), len(lrls)) > MOST:
        lrls = tuple(sorted(lrls, key=lambda lrl: -nearness(graph, lrl)))[:MOST]
        needed = {graph.nearest[lrl] for lrl in lrls if nearness(graph, lrl)}
        hrls = tuple(hrl for hrl in hrls if hrl in needed) or hrls[:MOST]
    return hrls, order_lrls(graph, lrls)


def order_lrls(graph: LanguageGraph, lrls: tuple[str, ...]) -> tuple[str, ...]:
    """LRLs in the order of their nearest HRLs, so that no two strong edges cross; isolated LRLs come last."""
    rank = {hrl: i for i, hrl in enumerate(graph.high_resource)}
    return tuple(sorted(lrls, key=lambda lrl: (not nearness(graph, lrl), rank[graph.nearest[lrl]])))


def picture_layout(graph: LanguageGraph, *, head: float, with_readiness: bool) -> Layout:
    """The layout of an SVG file, below a title of height `head`; names are never shortened."""
    hrls, lrls = drawn_languages(graph)
    scale = _scale(SCALES, hrls, lrls)
    readiness = scale.font * 4 if with_readiness else 0.0
    return _layout((hrls, lrls), scale, head, readiness, (400.0, 640.0), 620.0, float("inf"))


def page_layout(graph: LanguageGraph, readings: int) -> Layout:
    """The layout in a page: narrow enough for phones, with space for `readings` numbers beside an LRL."""
    hrls, lrls = drawn_languages(graph)
    scale = _scale(PAGE_SCALES, hrls, lrls)
    room = scale.font * 3 * readings + ring_width(scale.line)
    return _layout((hrls, lrls), scale, 30.0, room, (260.0, 460.0), 300.0, NAME_WIDTH)


def _scale(scales: tuple[Scale, ...], hrls: tuple[str, ...], lrls: tuple[str, ...]) -> Scale:
    return next(scale for scale in scales if max(len(hrls), len(lrls)) <= scale.up_to)


def _layout(
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    scale: Scale,
    head: float,
    readiness: float,
    spans: tuple[float, float],
    least_width: float,
    name_width: float,
) -> Layout:
    """`spans` are the smallest and the largest distance between the two columns."""
    hrls, lrls = sides
    inside = scale.up_to == SCALES[0].up_to and max(map(len, hrls + lrls)) <= 4
    left, right = (_node_extent(side, scale, inside, name_width) for side in sides)
    if name_width < float("inf"):  # in a page, where nodes have rings, and HRLs numbers too
        left, right = left + (readiness if inside else ring_width(scale.line)), right + ring_width(scale.line)
    rows = scale.pitch * max(len(hrls), len(lrls))
    span = min(max(spans[0], 0.55 * rows), spans[1])
    content = left + span + right + readiness
    width = max(content + 2 * (40 if name_width == float("inf") else 8), least_width)
    hrl_x = (width - content) / 2 + left
    return Layout(
        hrls=_column(hrls, hrl_x, head, rows),
        lrls=_column(lrls, hrl_x + span, head, rows),
        scale=scale,
        width=width,
        top=head,
        bottom=head + rows,
        names_inside=inside,
        readiness_x=hrl_x + span + right,
    )


def _node_extent(names: tuple[str, ...], scale: Scale, inside: bool, name_width: float) -> float:
    """The distance from the centre of a node to the end of the name beside it."""
    width = 0.0 if inside else min(max(text_width(name, scale.font) for name in names), name_width)
    return scale.radius + 10 + width


def _column(names: tuple[str, ...], x: float, top: float, rows: float) -> dict[str, Point]:
    return {name: (x, top + rows * (i + 0.5) / len(names)) for i, name in enumerate(names)}
