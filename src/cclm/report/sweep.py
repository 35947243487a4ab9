"""The report of a sweep over thresholds: the paper's Figure 2, a table of all leaves, and the steps saved."""

from collections.abc import Mapping, Sequence

from cclm.formats.sweep import Leaf, Point, Steps, Sweep
from cclm.report.document import (
    DASH,
    Cell,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    as_markdown,
    decimal,
    document_page,
    integer,
    number_column,
    percent,
    plural,
)
from cclm.report.svg import Style, axis_range, element, frame, limit, line, number, paint, plain, shorten, text, ticks

MOST_NAMED = 12
"""The most admissions listed per leaf."""
WIDTH, HEIGHT = 400.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 388.0, 62.0, 268.0
PANELS = (("weighted", "weighted dev loss, bits per token", 3), ("bleu", "mean BLEU on the test sets", 2))
COLOURS = {"max": "orange", "avg": "blue"}
_RING: Style = paint("rule") | {"fill": "none", "stroke_width": 1.6}


def sweep_page(sweep: Sweep) -> str:
    """The report as one HTML page."""
    return document_page(sweep_document(sweep))


def sweep_markdown(sweep: Sweep, *, pictures: str | None = None) -> str:
    """The report as Markdown; with `pictures`, the folder of `figure-2.svg`, the figure is linked."""
    return as_markdown(sweep_document(sweep), pictures)


def sweep_document(sweep: Sweep) -> Document:
    caption = (
        "Figure 2 of the paper with the results of this sweep. Only the weighted dev loss decides which threshold is"
        " chosen; test sets are not used for the choice."
    )
    figure = Section(
        "figure-2", "Loss and BLEU against the threshold", [Figure("Figure 2", panels(sweep), caption, "figure-2.svg")]
    )
    leaves = Section("leaves", "Leaves", [_leaves(sweep)])
    cost = Section("cost", "Cost", [Paragraph(_steps_saved(sweep.steps))])
    return Document("cclm sweep", sweep.recipe, _lead(sweep), [figure, leaves, cost])


def _lead(sweep: Sweep) -> str:
    chosen = sweep.chosen
    best = next((leaf for leaf in sweep.leaves if _point(leaf) == _point(chosen)), None)
    loss = f", with a weighted dev loss of {decimal(best.weighted, 3)} bits per token" if best else ""
    tried = f"{plural(len(sweep.thresholds), 'threshold')} by {', '.join(sweep.aggregates)}"
    return f"{tried}. Chosen on the dev sets: threshold {chosen.threshold:g}, {chosen.aggregate}{loss}."


def _point(leaf: Point) -> tuple[float, str]:
    return leaf.threshold, leaf.aggregate


def _leaves(sweep: Sweep) -> Table:
    leaves = sorted(sweep.leaves, key=_point)
    late = sorted({lang for leaf in leaves for lang, step in leaf.admissions.items() if step})
    columns: dict[str, Sequence[Cell]] = {
        "weighted": number_column([leaf.weighted for leaf in leaves], 3, lowest=True),
        "macro": number_column([leaf.macro for leaf in leaves], 3, lowest=True),
        "BLEU": number_column([leaf.bleu for leaf in leaves]),
        "chrF": number_column([leaf.chrf for leaf in leaves]),
        "steps": [Cell(integer(leaf.steps)) for leaf in leaves],
        "best": [Cell(integer(leaf.best)) for leaf in leaves],
        "admissions": [Cell(_admissions(leaf.admissions, late)) for leaf in leaves],
        "same as": [Cell(_name(leaf.same_as) if leaf.same_as else "") for leaf in leaves],
    }
    rows = [
        [Cell(_name(leaf), best=_point(leaf) == _point(sweep.chosen)), *row]
        for leaf, *row in zip(leaves, *columns.values(), strict=True)
    ]
    note = (
        "Bold: the chosen leaf, and the best of each column. Weighted, macro: dev loss of the selected checkpoint in"
        " bits per token. Best: the step of that checkpoint. Admissions: the steps at which languages were admitted"
        " that were not trained on from the start. Same as: a leaf with the same decisions, and therefore the same"
        " model."
    )
    return Table("All leaves of the sweep", ("leaf", *columns), rows, note, text_columns=(0, 7, 8))


def _admissions(admissions: Mapping[str, int], late: Sequence[str]) -> str:
    """The languages in `late` with their steps, in the order of admission."""
    admitted = sorted((lang for lang in late if lang in admissions), key=lambda lang: admissions[lang])
    items = [f"{lang} {integer(admissions[lang])}" for lang in admitted]
    items += [f"{lang} never" for lang in late if lang not in admissions]
    more = [f"and {len(items) - MOST_NAMED} more"] if len(items) > MOST_NAMED else []
    return ", ".join(items[:MOST_NAMED] + more) or DASH


def _name(leaf: Point) -> str:
    return f"{leaf.threshold:g} {leaf.aggregate}"


def _steps_saved(steps: Steps) -> str:
    trained, independent, fewest = steps.trained, steps.independent, steps.fewest
    saved = f", {percent(1 - trained / independent)} fewer than" if trained < independent else ", against"
    alone = f"{integer(independent)} that independent runs would have taken"
    return (
        f"Leaves share their steps until their first different decision. The sweep trained {integer(trained)}"
        f" steps{saved} the {alone}; these leaves need at least {integer(fewest)}."
    )


def figure_2(sweep: Sweep) -> str:
    """Both panels side by side, as a complete SVG document."""
    bodies = [
        element("g", "\n".join(_body(sweep, *panel)), transform=f"translate({number(i * WIDTH)} 0)")
        for i, panel in enumerate(PANELS)
    ]
    return frame(bodies, 2 * WIDTH, HEIGHT, title=f"{sweep.recipe}: thresholds", description=_describe(sweep))


def panels(sweep: Sweep) -> list[str]:
    """The panels as separate SVG documents, so that a narrow page can stack them."""
    return [
        frame(
            _body(sweep, *panel), WIDTH, HEIGHT, title=f"{panel[1]} against the threshold", description=_describe(sweep)
        )
        for panel in PANELS
    ]


def _body(sweep: Sweep, key: str, title: str, digits: int) -> list[str]:
    """One panel: title, legend, axes, the rival as a dotted line, one curve per aggregate, a ring for the choice."""
    leaves = [(leaf, getattr(leaf, key)) for leaf in sweep.leaves if getattr(leaf, key) is not None]
    head = [text(title, 8, 20, "ink", font_weight="600")]
    if not leaves:
        return [*head, text("not scored yet", WIDTH / 2, (TOP + BOTTOM) / 2, text_anchor="middle")]
    rival = getattr(sweep.rival, key) if sweep.rival else None
    low, high = axis_range([value for _, value in leaves] + ([] if rival is None else [rival]), 0.12)
    thresholds = sorted({leaf.threshold for leaf in sweep.leaves})
    left, right = axis_range(thresholds, 0.05)

    def at(threshold: float, value: float) -> tuple[float, float]:
        across = (limit(threshold, left, right) - left) / (right - left)
        up = (limit(value, low, high) - low) / (high - low)
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
    for aggregate in sweep.aggregates:
        members = [(leaf, value) for leaf, value in leaves if leaf.aggregate == aggregate]
        members.sort(key=lambda member: member[0].threshold)
        points = [at(leaf.threshold, value) for leaf, value in members]
        parts += _curve(aggregate, points, [_hover(leaf, value, digits) for leaf, value in members])
    chosen = [at(leaf.threshold, value) for leaf, value in leaves if _point(leaf) == _point(sweep.chosen)]
    rings = [element("circle", cx=x, cy=y, r=8, **_RING) for x, y in chosen]
    return [*head, *_legend(sweep, rival is not None), *parts, *rings]


def _labelled(thresholds: Sequence[float]) -> Sequence[float]:
    """At most ten evenly spaced thresholds: more labels would overlap."""
    return thresholds[:: -(-len(thresholds) // 10)]


def _curve(aggregate: str, points: Sequence[tuple[float, float]], hovers: Sequence[str]) -> list[str]:
    if not points:
        return []
    route = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    colour = COLOURS.get(aggregate, "muted")
    stroke = f"{colour}-line" if aggregate in COLOURS else "faint"
    path = element("path", d=route, stroke_width=1.8, **(paint(stroke) | {"fill": "none"}))
    return [path, *(_mark(aggregate, *point, hover) for point, hover in zip(points, hovers, strict=True))]


def _mark(aggregate: str, x: float, y: float, hover: str = "") -> str:
    """A disc for avg and a square for max, for readers who cannot distinguish the colours."""
    title = [element("title", hover)] if hover else []
    colour = paint(COLOURS.get(aggregate, "muted"))
    if aggregate == "max":
        return element("rect", *title, x=x - 3.6, y=y - 3.6, width=7.2, height=7.2, **colour)
    return element("circle", *title, cx=x, cy=y, r=4, **colour)


def _hover(leaf: Leaf, value: float, digits: int) -> str:
    return plain(f"threshold {leaf.threshold:g}, {leaf.aggregate}: {decimal(value, digits)}")


def _legend(sweep: Sweep, has_rival: bool) -> list[str]:
    parts, x = [], 12.0
    for aggregate in sweep.aggregates:
        parts += [_mark(aggregate, x, 40), text(shorten(aggregate, 12, 80), x + 10, 44)]
        x += 60
    if has_rival and sweep.rival:
        dots = line(x, 40, x + 22, 40, "rule", stroke_width=1.5, stroke_dasharray="2 4")
        parts += [dots, text(shorten(sweep.rival.name, 12, 130), x + 28, 44)]
    ring = element("circle", cx=WIDTH - 70, cy=40, r=6, **_RING)
    return [*parts, ring, text("chosen", WIDTH - 58, 44)]


def _describe(sweep: Sweep) -> str:
    chosen = sweep.chosen
    lines = (
        f"{leaf.aggregate} at {leaf.threshold:g}: {decimal(leaf.weighted, 3)} bits, BLEU {decimal(leaf.bleu)}"
        for leaf in sweep.leaves
    )
    return f"{'; '.join(lines)}. Chosen: {chosen.aggregate} at {chosen.threshold:g}."
