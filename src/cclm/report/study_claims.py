"""The comparisons of a study: the primary ones, the forest plot, and a table of all differences by seed."""

from collections.abc import Callable, Sequence

from cclm.formats.scores import METRICS, MetricName
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
from cclm.report.study_scores import Study
from cclm.report.svg import Style, axis_range, element, frame, limit, line, paint, plain, text, ticks

ENOUGH_SEEDS = 5
NO_SCORE = 0.05
"""Scores below this are displayed as 0.0."""
OVER = {"all": "all languages", "hrl": "the HRLs", "lrl": "the LRLs"}
INTERVAL = "95\u00a0% interval"
_RESAMPLED = "Interval and p: bootstrap of the test sentences, one seed."
DIAMOND = "Diamond: mean over seeds, filled if the comparison was declared before the run."
LINE = "Line: 95\u00a0% interval of the paired t-test over seeds. Small dots: the seeds."
SENTENCES = "Line: 95\u00a0% interval of a paired bootstrap of the test sentences of one seed."
BOOTSTRAP = (
    "The study has one seed: intervals and p come from a paired bootstrap of its test sentences. They show how certain"
    " the difference between two models is, but not whether one method is better: another seed gives other models."
)
ONE_SEED = "One seed gives no interval and no p: the difference between two runs does not show which method is better."
FEW_SEEDS = "seeds are few: with fewer than five, only large differences can be detected."

WIDTH, LEFT, RIGHT = 800.0, 262.0, 606.0
ROW, HEAD = 26.0, 30.0
GROUPS = {"primary": "primary: declared before the run", "exploratory": "exploratory"}


def claims_section(study: Study) -> Section:
    """The primary comparisons as sentences and as a table, and all comparisons in one figure."""
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
    return Section("claims", "Primary comparisons", blocks)


def _caption(study: Study) -> str:
    if len(study.seeds) > 1:
        return f"{DIAMOND} {LINE}"
    diamond = DIAMOND.replace("mean over seeds", "the difference")
    return f"{diamond} {SENTENCES}" if study.resampled else diamond


def _sentence(study: Study, comparison: Comparison) -> str:
    """The conclusion of a comparison; there is none if both arms score 0, where the test sees no difference."""
    scores = [study.mean(arm, comparison.metric, comparison.over) for arm in (comparison.first, comparison.second)]
    if all(score is not None and score < NO_SCORE for score in scores):
        name = METRICS[comparison.metric]
        return f"{comparison.first} and {comparison.second} both score 0.0 {name}: no conclusion is possible."
    sentence = comparison.sentence.strip()
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _without_primary(study: Study) -> str:
    declared = [" − ".join(pair) for pair in study.results.study.primary]
    if declared:
        return f"Declared before the run, but not possible with the trials that finished: {', '.join(declared)}."
    return "No comparison was declared before the run: all comparisons are exploratory."


def _primary_table(study: Study) -> Table:
    rows = [
        [Cell(_pair(comparison)), *_numbers(comparison), Cell(p_value(comparison.holm))] for comparison in study.primary
    ]
    head = ("first − second", study.endpoint_name, INTERVAL, "p", "p, Holm")
    method = _RESAMPLED if study.resampled else "Differences are paired by seed."
    note = f"{method} p, Holm: adjusted for {plural(len(rows), 'primary comparison')}."
    return Table(f"Primary comparisons, mean {study.endpoint_name} over all languages", head, rows, note)


def _numbers(comparison: Comparison) -> list[Cell]:
    low, high = comparison.low, comparison.high
    return [Cell(signed(comparison.mean)), Cell(interval(low, high)), Cell(p_value(comparison.p))]


def differences_section(study: Study) -> Section:
    """All comparisons with the difference of each seed, one table per metric and group of languages."""
    kinds = dict.fromkeys((comparison.metric, comparison.over) for comparison in study.comparisons)
    ordered = sorted(kinds, key=lambda kind: kind != (study.endpoint, "all"))
    blocks: list[Block] = [_by_seed(study, *kind) for kind in ordered]
    blocks += [_by_language(study, metric) for metric, over in ordered if over == "all" and study.resampled]
    return Section("differences", "All comparisons", blocks or [Paragraph("Too few trials finished to compare arms.")])


def _by_seed(study: Study, metric: MetricName, over: str) -> Table:
    shown = [comparison for comparison in study.comparisons if (comparison.metric, comparison.over) == (metric, over)]
    seeds = sorted({seed for comparison in shown for seed in comparison.differences}, key=_by_number)
    rows = [
        [
            Cell(_pair(comparison), best=study.status(comparison) == "primary"),
            *(Cell(signed(comparison.differences.get(seed))) for seed in seeds),
            *_numbers(comparison),
        ]
        for comparison in shown
    ]
    head = ("first − second", *(f"seed {seed}" for seed in seeds), "mean", INTERVAL, "p")
    primary = "Bold: primary; the others are exploratory" if any(row[0].best for row in rows) else "All exploratory"
    note = f"{primary}. p is not adjusted here: of many comparisons, some have a small p by chance."
    note += f" {_RESAMPLED}" if study.resampled else ""
    caption = f"{METRICS[metric]} over {OVER.get(over, over)}, first − second"
    return Table(caption, head, rows, note)


def _by_language(study: Study, metric: MetricName) -> Table:
    """The differences in each language, for studies with a single seed."""
    shown = {
        _pair(comparison): comparison.languages
        for comparison in study.comparisons
        if comparison.metric == metric and comparison.languages
    }

    def cell(pair: str, lang: str) -> Cell:
        row = shown[pair].get(lang)
        return Cell(DASH) if row is None else Cell(signed(row.difference), mark=_stars(row.p))

    return cross_table(
        f"{METRICS[metric]} of each language, first − second",
        ("first − second", list(shown)),
        ("language", study.languages),
        cell,
        "* p < 0.05, ** p < 0.01, not adjusted; bootstrap of the test sentences of one seed. results.json has the"
        " intervals.",
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
    title += " (one seed, test sentences resampled)" if study.resampled else ""
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
    """Both names, shortened in the middle if they do not fit: names of related arms differ at their ends."""
    available = 34 - len(" − ")
    half = max(available // 2, available - min(len(first), len(second)))
    return " − ".join(
        name if len(name) <= half else f"{name[: half // 2]}…{name[-(half // 2 - 1) :]}" for name in (first, second)
    )


def _diamond(x: float, y: float, *, primary: bool) -> str:
    """The marker of the mean; filled for primary comparisons, otherwise hollow."""
    shape = f"M{x - 6:.1f} {y:.1f}l6 -6 6 6 -6 6z"
    style = paint("blue") if primary else paint("ground", "faint") | {"stroke_width": 1.4}
    return element("path", d=shape, **style)


def _describe_forest(shown: Sequence[Comparison], study: Study) -> str:
    lines = (
        f"{comparison.first} minus {comparison.second} ({study.status(comparison)}): {signed(comparison.mean)}"
        + (f", interval {interval(comparison.low, comparison.high)}" if comparison.low is not None else "")
        for comparison in shown
    )
    return "; ".join(lines) + "."
