"""What a study may claim: the comparisons declared beforehand, the forest plot, then every difference by seed."""

from collections.abc import Callable, Sequence

from cclm.formats.study import Comparison
from cclm.report.document import (
    DASH,
    Block,
    Cell,
    Figure,
    Paragraph,
    Section,
    Table,
    cross_table,
    interval,
    p_value,
    plural,
    signed,
)
from cclm.report.study import METRICS, Study
from cclm.report.svg import Style, axis_range, element, frame, limit, line, paint, plain, text, ticks

ENOUGH_SEEDS = 5
NO_SCORE = 0.05
"""Scores below this are shown as 0.0."""
OVER = {"all": "all languages", "hrl": "the HRLs", "lrl": "the LRLs"}
INTERVAL = "95\u00a0% interval"
DIAMOND = "Diamond: mean over seeds, full where the comparison was declared before the run."
LINE = "Line: 95\u00a0% interval of the paired t-test over seeds. Small dots: the seeds."
SENTENCES = "Line: 95\u00a0% interval of a paired bootstrap of the test sentences, of one seed."
BOOTSTRAP = (
    "One seed: intervals and p are of a paired bootstrap of its test sentences. They say how certain the difference"
    " between two models is; of the methods they say nothing, for another seed gives other models."
)
ONE_SEED = "One seed gives no interval and no p: what two single runs differ by says nothing of the methods."
FEW_SEEDS = "seeds are few: with fewer than five, only a large difference stands out from chance."

WIDTH, LEFT, RIGHT = 800.0, 262.0, 606.0
ROW, HEAD = 26.0, 30.0
GROUPS = {"primary": "primary: declared before the run", "exploratory": "exploratory"}


def claims_section(study: Study) -> Section:
    """The primary comparisons in sentences and numbers, and all comparisons in one figure."""
    blocks: list[Block] = []
    if study.primary:
        blocks += [Paragraph(_sentence(study, comparison), strong=True) for comparison in study.primary]
        blocks.append(_primary_table(study))
    else:
        blocks.append(Paragraph(_without_primary(study)))
    seeds = len(study.seeds)
    if seeds < ENOUGH_SEEDS:
        one_seed = BOOTSTRAP if study.resampled else ONE_SEED
        blocks.append(Paragraph(one_seed if seeds == 1 else f"{seeds} {FEW_SEEDS}"))
    if any(study.is_at_endpoint(comparison) for comparison in study.comparisons):
        blocks.append(Figure("Differences and their intervals", [forest_plot(study)], _caption(study), "forest.svg"))
    return Section("claims", "What was asked, and what came out", blocks)


def _caption(study: Study) -> str:
    if len(study.seeds) > 1:
        return f"{DIAMOND} {LINE}"
    diamond = DIAMOND.replace("mean over seeds", "the difference")
    return f"{diamond} {SENTENCES}" if study.resampled else diamond


def _sentence(study: Study, comparison: Comparison) -> str:
    """The sentence of a comparison. Where neither arm scores anything, a difference of 0 excludes no gain."""
    scores = [study.mean(arm, comparison.metric, comparison.over) for arm in (comparison.first, comparison.second)]
    if all(score is not None and score < NO_SCORE for score in scores):
        name = METRICS.get(comparison.metric, comparison.metric)
        return (
            f"{comparison.first} and {comparison.second} both score 0.0 {name}: nothing follows from their difference."
        )
    sentence = comparison.sentence.strip()
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _without_primary(study: Study) -> str:
    declared = [" − ".join(pair) for pair in study.results.study.primary]
    if declared:
        return f"Declared before the run, but impossible with the trials that finished: {', '.join(declared)}."
    return "No comparison was declared before the run: all of them are exploratory."


def _primary_table(study: Study) -> Table:
    rows = [
        [
            Cell(_pair(one)),
            Cell(signed(one.mean)),
            Cell(interval(one.low, one.high)),
            Cell(p_value(one.p)),
            Cell(p_value(one.holm)),
        ]
        for one in study.primary
    ]
    head = ("first − second", study.endpoint_name, INTERVAL, "p", "p, Holm")
    how = (
        "Interval and p: bootstrap of the test sentences, one seed."
        if study.resampled
        else "Differences are paired by seed."
    )
    note = f"{how} p, Holm: adjusted for {plural(len(rows), 'primary comparison')}."
    return Table(f"Primary comparisons, mean {study.endpoint_name} over all languages", head, rows, note)


def differences_section(study: Study) -> Section:
    """Every comparison of the study with the difference of each seed, one table per metric and group."""
    kinds = dict.fromkeys((one.metric, one.over) for one in study.comparisons)
    ordered = sorted(kinds, key=lambda kind: kind != (study.endpoint, "all"))
    blocks: list[Block] = [_by_seed(study, *kind) for kind in ordered]
    blocks += [_by_language(study, metric) for metric, over in ordered if over == "all" and study.resampled]
    nothing = [Paragraph("Nothing to compare: too few trials finished.")]
    return Section("differences", "Every difference", blocks or nothing)


def _by_seed(study: Study, metric: str, over: str) -> Table:
    shown = [one for one in study.comparisons if (one.metric, one.over) == (metric, over)]
    seeds = sorted({seed for one in shown for seed in one.differences}, key=_by_number)
    rows = [
        [
            Cell(_pair(one), best=study.status(one) == "primary"),
            *(Cell(signed(one.differences.get(seed))) for seed in seeds),
            Cell(signed(one.mean)),
            Cell(interval(one.low, one.high)),
            Cell(p_value(one.p)),
        ]
        for one in shown
    ]
    head = ("first − second", *(f"seed {seed}" for seed in seeds), "mean", INTERVAL, "p")
    primary = "Bold: primary. All others are exploratory" if any(row[0].best for row in rows) else "All exploratory"
    note = f"{primary}; p is not adjusted here, and of many some are small by chance alone."
    note += " Interval and p: bootstrap of the test sentences, one seed." if study.resampled else ""
    caption = f"{METRICS.get(metric, metric)} over {OVER.get(over, over)}, first − second"
    return Table(caption, head, rows, note)


def _by_language(study: Study, metric: str) -> Table:
    """The differences in each language within one seed."""
    shown = {_pair(one): one.languages for one in study.comparisons if one.metric == metric and one.languages}

    def cell(pair: str, lang: str) -> Cell:
        row = shown[pair].get(lang)
        return Cell(DASH) if row is None else Cell(signed(row.difference), mark=_stars(row.p))

    return cross_table(
        f"{METRICS.get(metric, metric)} of each language, first − second",
        ("first − second", list(shown)),
        ("language", study.languages),
        cell,
        "* p < 0.05, ** p < 0.01, not adjusted: bootstrap of the test sentences, one seed. The intervals are in"
        " results.json.",
    )


def _stars(p: float) -> str:
    return "**" if p < 0.01 else "*" if p < 0.05 else ""


def _by_number(seed: str) -> tuple[int, str]:
    return (int(seed), "") if seed.isdecimal() else (0, seed)


def _pair(comparison: Comparison) -> str:
    return f"{comparison.first} − {comparison.second}"


def forest_plot(study: Study) -> str:
    """The differences at the endpoint as a complete SVG document: one row per comparison, the primary ones first."""
    shown = [comparison for comparison in study.comparisons if study.is_at_endpoint(comparison)]
    low, high = axis_range([0.0, *(value for comparison in shown for value in _extent(comparison))])
    scale = (RIGHT - LEFT) / (high - low)

    def x(value: float) -> float:
        return LEFT + (limit(value, low, high) - low) * scale

    rows, y = [], 6.0
    for status, title in GROUPS.items():
        members = [comparison for comparison in shown if study.status(comparison) == status]
        if members:
            rows.append(text(title, 8, y + HEAD - 10, letter_spacing="0.03em"))
            y += HEAD
        for comparison in members:
            rows += _forest_row(comparison, y + ROW / 2, x, primary=status == "primary")
            y += ROW
    axis = [line(x(value), 6, x(value), y) for value, _ in ticks(low, high)]
    axis += [text(label, x(value), y + 18, text_anchor="middle") for value, label in ticks(low, high)]
    axis.append(line(x(0), 6, x(0), y, "rule", stroke_width=1.2))
    title = f"difference in mean {study.endpoint_name}, first − second"
    title += " (one seed, its sentences resampled)" if study.resampled else ""
    axis.append(text(title, (LEFT + RIGHT) / 2, y + 38, text_anchor="middle"))
    description = _describe_forest(shown, study)
    return frame(axis + rows, WIDTH, y + 50, title=f"{study.name}: {title}", description=description)


def _extent(comparison: Comparison) -> list[float]:
    ends = [comparison.mean, comparison.low, comparison.high, *comparison.differences.values()]
    return [value for value in ends if value is not None]


def _forest_row(comparison: Comparison, y: float, x: Callable[[float], float], *, primary: bool) -> list[str]:
    """The names, the interval as a line, the seeds as dots, the mean as a diamond, and the numbers."""
    weight: Style = {"font_weight": "600"} if primary else {}
    parts = [text(_short_pair(comparison.first, comparison.second), 8, y + 4, "ink", **weight)]
    low, high, mean = comparison.low, comparison.high, comparison.mean
    if low is not None and high is not None:
        colour, width = ("blue-line", 2.0) if primary else ("faint", 1.4)
        parts.append(line(x(low), y, x(high), y, colour, stroke_width=width))
    several = comparison.differences if len(comparison.differences) > 1 else {}
    for seed, value in several.items():
        hover = element("title", plain(f"seed {seed}: {signed(value)}"))
        parts.append(element("circle", hover, cx=x(value), cy=y + 7, r=1.8, fill_opacity="0.75", **paint("muted")))
    parts.append(_diamond(x(mean), y, primary=primary))
    label = signed(mean) + (f"  [{interval(low, high)}]" if low is not None else "")
    return [*parts, text(label, RIGHT + 14, y + 4, "ink" if primary else "muted", **weight)]


def _short_pair(first: str, second: str) -> str:
    """Both names as far as there is room, the longer one cut in its middle: related names differ at their ends."""
    room = 34 - len(" − ")
    half = max(room // 2, room - min(len(first), len(second)))
    return " − ".join(
        name if len(name) <= half else f"{name[: half // 2]}…{name[-(half // 2 - 1) :]}" for name in (first, second)
    )


def _diamond(x: float, y: float, *, primary: bool) -> str:
    """The mean: full if the comparison was declared beforehand, otherwise hollow."""
    shape = f"M{x - 6:.1f} {y:.1f}l6 -6 6 6 -6 6z"
    style = paint("blue") if primary else paint("ground", "faint") | {"stroke_width": 1.4}
    return element("path", d=shape, **style)


def _describe_forest(shown: Sequence[Comparison], study: Study) -> str:
    lines = (
        f"{one.first} minus {one.second} ({study.status(one)}): {signed(one.mean)}"
        + (f", interval {interval(one.low, one.high)}" if one.low is not None else "")
        for one in shown
    )
    return "; ".join(lines) + "."
