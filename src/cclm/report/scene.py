"""What a drawing of the language graph shows: who is nearest to whom, in which state, and how to say it in words."""

from collections.abc import Mapping
from dataclasses import dataclass

from cclm.curriculum import LanguageGraph
from cclm.report.layout import ALL_EDGES, Places, Point, nearness
from cclm.report.svg import text_width

# Each at least 4.5:1 under white letters and on white, 3:1 on the dark ground.
COLOURS = ("#2b6cb0", "#b7500f", "#2b7d4b", "#8a4ba6", "#bb3453", "#177b88", "#85680f", "#5b62c9")
NEUTRAL = "#66707d"
ARROW = 11.0


@dataclass(frozen=True)
class Scene:
    """A graph at a moment of training, laid out."""

    graph: LanguageGraph
    places: Places
    admitted: frozenset[str] | None
    readiness: Mapping[str, float]

    def nearest(self, lrl: str) -> str | None:
        """The nearest HRL; none for an LRL that resembles nobody."""
        return self.graph.nearest[lrl] if nearness(self.graph, lrl) else None

    def state(self, lang: str) -> str:
        """The classes of a node: hrl, lrl, lrl admitted or lrl waiting."""
        if lang in self.places.hrls:
            return "hrl"
        if self.admitted is None:
            return "lrl"
        return "lrl admitted" if lang in self.admitted else "lrl waiting"

    def colour(self, lang: str) -> str:
        """An HRL's own colour; an LRL has that of its nearest HRL."""
        hrl = self.nearest(lang) if lang in self.graph.similarity else lang
        return NEUTRAL if hrl is None else COLOURS[list(self.places.hrls).index(hrl) % len(COLOURS)]

    def pairs(self) -> list[tuple[str, str]]:
        """The (HRL, LRL) to draw an edge for: the faint ones first, so that the strong ones lie over them."""
        hrls, lrls = self.places.hrls, self.places.lrls
        pairs = [(hrl, lrl) for lrl in lrls for hrl in hrls]
        if max(len(hrls), len(lrls)) > ALL_EDGES or self.left_out():
            pairs = [(hrl, lrl) for hrl, lrl in pairs if hrl == self.nearest(lrl)]
        return sorted(
            pairs, key=lambda pair: (pair[0] == self.nearest(pair[1]), self.graph.similarity[pair[1]][pair[0]])
        )

    def ends(self, hrl: str, lrl: str) -> tuple[Point, Point]:
        """Where an edge starts and stops: at the rims, with room for the arrow of an LRL that has one."""
        (x1, y1), (x2, y2) = self.places.hrls[hrl], self.places.lrls[lrl]
        scale = self.places.scale
        arrow = ARROW * scale.line if self.nearest(lrl) else 0.0
        return (x1 + scale.radius, y1), (x2 - scale.radius - arrow, y2)

    def description(self) -> str:
        """What the drawing shows, for those who do not see it."""
        sides = f"{len(self.graph.high_resource)} high-resource and {len(self.graph.low_resource)} low-resource"
        return f"{sides} languages. {'; '.join(map(self._said_of, self.places.lrls))}. {self.left_out()}"

    def _said_of(self, lrl: str) -> str:
        hrl = self.nearest(lrl)
        near = f"nearest to {hrl} ({self.graph.similarity[lrl][hrl]:.2f})" if hrl else "like no HRL"
        state = self.state(lrl).removeprefix("lrl").strip()
        return f"{lrl}: {near}" + (f", {state}" if state else "")

    def legend(self) -> list[str]:
        """How to read the drawing, in lines that fit its width."""
        items = ["strong line: nearest HRL and its similarity"]
        if self.admitted is not None:
            items = ["● admitted", "○ waiting", *items]
        if self.readiness:
            items.append("number at the right: HRLs-evaluated competence")
        lines = [items[0]]
        for item in items[1:]:
            longer = f"{lines[-1]}\u2003{item}"
            lines = [*lines[:-1], longer] if text_width(longer, 12) < self.places.width - 24 else [*lines, item]
        return [*lines, *filter(None, [self.left_out()])]

    def left_out(self) -> str:
        """How many languages are not in the drawing, in words; nothing where all are."""
        hrls = len(self.graph.high_resource) - len(self.places.hrls)
        absent = set(self.graph.low_resource) - set(self.places.lrls)
        admitted = "" if self.admitted is None else f" ({len(absent & self.admitted):,} admitted)"
        parts = [f"{_count(len(absent), 'LRL')} less like any HRL{admitted}"] if absent else []
        parts += [f"{_count(hrls, 'HRL')} nearest to none of these"] if hrls else []
        return f"not drawn: {' and '.join(parts)}" if parts else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number > 1 else ''}"
