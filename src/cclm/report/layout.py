"""Where each language stands in the drawing of a graph, and which ones when there are too many to draw."""

from dataclasses import dataclass

from cclm.curriculum import LanguageGraph
from cclm.report.svg import text_width

MOST = 120
"""Languages a side in one drawing: more rows than this nobody reads."""
ALL_EDGES = 40
"""Languages a side up to which every edge is drawn; above it the faint ones are only fog."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """How large things are drawn, in pixels; `up_to` so many languages a side."""

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


@dataclass(frozen=True)
class Places:
    """Centre of every language that is drawn, from top to bottom, and the frame around them."""

    hrls: dict[str, Point]
    lrls: dict[str, Point]
    scale: Scale
    width: float
    top: float
    bottom: float
    names_inside: bool
    readiness_x: float


def drawn(graph: LanguageGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The HRLs and LRLs to draw: all, or of very many the LRLs most like an HRL, with the HRLs nearest to them."""
    hrls, lrls = graph.high_resource, graph.low_resource
    if max(len(hrls), len(lrls)) > MOST:
        lrls = tuple(sorted(lrls, key=lambda lrl: -nearness(graph, lrl)))[:MOST]
        needed = {graph.nearest[lrl] for lrl in lrls if nearness(graph, lrl)}
        hrls = tuple(hrl for hrl in hrls if hrl in needed) or hrls[:MOST]
    return hrls, in_order(graph, lrls)


def in_order(graph: LanguageGraph, lrls: tuple[str, ...]) -> tuple[str, ...]:
    """LRLs in the order of their nearest HRLs, so that no two strong edges cross; those like nobody last."""
    rank = {hrl: i for i, hrl in enumerate(graph.high_resource)}
    return tuple(sorted(lrls, key=lambda lrl: (not nearness(graph, lrl), rank[graph.nearest[lrl]])))


def nearness(graph: LanguageGraph, lrl: str) -> float:
    """How similar the nearest HRL is; 0 for an LRL like nobody, which has no nearest."""
    return graph.similarity[lrl][graph.nearest[lrl]]


def places(graph: LanguageGraph, *, head: float, with_readiness: bool) -> Places:
    """The layout below a head of this height."""
    hrls, lrls = drawn(graph)
    scale = next(scale for scale in SCALES if max(len(hrls), len(lrls)) <= scale.up_to)
    inside = scale is SCALES[0] and max(map(len, hrls + lrls)) <= 4
    left, right = (_beside(side, scale, inside) for side in (hrls, lrls))
    readiness = scale.font * 4 if with_readiness else 0.0
    rows = scale.pitch * max(len(hrls), len(lrls))
    span = min(max(400.0, 0.55 * rows), 640.0)
    content = left + span + right + readiness
    width = max(content + 2 * 40, 620.0)
    hrl_x = (width - content) / 2 + left
    return Places(
        hrls=_column(hrls, hrl_x, head, rows),
        lrls=_column(lrls, hrl_x + span, head, rows),
        scale=scale,
        width=width,
        top=head,
        bottom=head + rows,
        names_inside=inside,
        readiness_x=hrl_x + span + right,
    )


def _beside(names: tuple[str, ...], scale: Scale, inside: bool) -> float:
    """From the centre of a node to the far end of the names beside it."""
    name = 0.0 if inside else max(text_width(name, scale.font) for name in names)
    return scale.radius + 10 + name


def _column(names: tuple[str, ...], x: float, top: float, rows: float) -> dict[str, Point]:
    return {name: (x, top + rows * (i + 0.5) / len(names)) for i, name in enumerate(names)}
