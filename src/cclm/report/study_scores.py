"""The results of a study, and its score tables: the paper's Tables 1 to 4, one per language, external scorers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cclm.formats.scores import METRICS, MetricName
from cclm.formats.study import Arm, Comparison, Metric, MoreScores, StudyResults, Trial
from cclm.paper import tables
from cclm.report.document import (
    DASH,
    Block,
    Cell,
    Paragraph,
    Section,
    Table,
    cross_table,
    decimal,
    decimals_for,
    mark_best,
    mean,
    number_column,
    percent,
    with_deviation,
)

ARMS = {
    "bitext": "Bitext Models",
    "uniform": "Uniform Sampling (tau = inf)",
    "tau-5": "Temperature-Based Sampling (tau = 5)",
    "proportional": "Proportional Sampling (tau = 1)",
    "multidds": "MultiDDS",
    "multidds-s": "MultiDDS-S",
    "ccl-m-max": "CCL-M-max",
    "ccl-m-avg": "CCL-M-avg",
}
SAMPLERS = {
    "ccl-m-avg": "CCL-M-avg",
    "gate-uniform": "+ Uni.",
    "gate-tau-5": "+ Temp.",
    "gate-proportional": "+ Prop.",
}


@dataclass(frozen=True)
class PaperFigures:
    """The figures that the paper prints for one language set in one direction."""

    languages: str
    direction: str

    @property
    def _column(self) -> str:
        return f"{self.direction}_{self.languages}"

    def over(self, arm: str, group: str) -> float | None:
        """Mean BLEU of an arm over a group: `all` (Tables 1 and 4), `hrl` or `lrl` (Tables 2 and 3)."""
        if group == "all":
            rows = (tables()["table1_main"].get(ARMS.get(arm)), tables()["table4_sampling"].get(SAMPLERS.get(arm)))
            return next((row[self._column] for row in rows if row), None)
        table = tables()["table2_m2o" if self.direction == "m2o" else "table3_o2m"]
        row = table.get("Bi." if arm == "bitext" else ARMS.get(arm)) or {}
        value: float | None = row.get(f"{self.languages}_{group}s")
        return value

    def of_language(self, arm: str, lang: str) -> float | None:
        """BLEU of an arm in one language."""
        value: float | None = tables()["individual_bleu"][self._column].get(ARMS.get(arm), {}).get(lang)
        return value

    def pairs(self, lang: str) -> int | None:
        """The number of training pairs."""
        value: int | None = tables()["statistics"][self.languages].get(lang, {}).get("train")
        return value

    def loss(self, lang: str) -> float | None:
        """L*, the dev loss of the bitext model."""
        row: Mapping[str, float] = tables()["bitext_dev_loss"][self.languages].get(lang, {})
        return row.get("xxx_eng" if self.direction == "m2o" else "eng_xxx")

    def similarity(self, lrl: str, hrl: str) -> float | None:
        """The similarity between an LRL and an HRL."""
        value: float | None = tables()["similarity"][self.languages].get(lrl, {}).get(hrl)
        return value


def paper_figures(recipe: str) -> PaperFigures | None:
    """The figures for one of the paper's recipes, by its name or file name; None for any other recipe."""
    match = re.fullmatch(r"(?:.*[/\\])?ted8-(related|diverse)-(m2o|o2m)(?:[-.].*)?", recipe)
    return PaperFigures(*match.groups()) if match else None


SIGNS = ("†", "‡", "§")
LEVEL = 0.05
NO_ARM = Arm(seeds=0)


@dataclass(frozen=True)
class Study:
    """The content of results.json, with the values that several sections of the report need."""

    results: StudyResults

    @property
    def name(self) -> str:
        return self.results.study.name

    @property
    def seeds(self) -> list[int]:
        return self.results.study.seeds

    @property
    def endpoint(self) -> MetricName:
        return self.results.study.endpoint

    @property
    def endpoint_name(self) -> str:
        return METRICS[self.endpoint]

    @property
    def comparisons(self) -> list[Comparison]:
        return self.results.comparisons

    @cached_property
    def arms(self) -> list[str]:
        """The declared arms, then other trained ones, such as the bitext models."""
        trained = (trial.arm for trial in self.results.trials)
        return list(dict.fromkeys([*self.results.study.arms, *self.results.arms, *trained]))

    @cached_property
    def languages(self) -> list[str]:
        """The scored LRLs, then HRLs, as in the paper's tables; then other scored tasks."""
        declared = [*self.results.data.low_resource, *self.results.data.high_resource]
        scored = dict.fromkeys(lang for trial in self.finished() for lang in trial.rows)
        tasks = sorted(scored, key=lambda lang: self.side(lang) != "lrl")
        return [lang for lang in declared if lang in scored] + [lang for lang in tasks if lang not in declared]

    @cached_property
    def resampled(self) -> bool:
        """Whether intervals come from a bootstrap of test sentences, as they do with a single seed."""
        return any(comparison.resamples for comparison in self.comparisons)

    @property
    def over_seeds(self) -> str:
        """A suffix for captions of means over seeds; empty with a single seed."""
        return ", mean over seeds" if len(self.seeds) > 1 else ""

    @cached_property
    def paper(self) -> PaperFigures | None:
        """The paper's figures, if the recipe is one of the paper's."""
        return paper_figures(self.results.study.recipe)

    def side(self, task: str) -> str:
        """`hrl` or `lrl`, for a language or for a task between a language and the pivot."""
        data = self.results.data
        language = task.removesuffix(f"-{data.pivot}").removeprefix(f"{data.pivot}-")
        return "hrl" if task in data.high_resource or language in data.high_resource else "lrl"

    def finished(self, arm: str | None = None) -> list[Trial]:
        """The finished trials of an arm, or of all arms."""
        return [trial for trial in self.results.trials if trial.is_finished and arm in (None, trial.arm)]

    def failed(self) -> list[Trial]:
        return [trial for trial in self.results.trials if not trial.is_finished]

    def arm(self, name: str) -> Arm:
        """The averages of an arm; empty if none of its trials finished."""
        return self.results.arms.get(name, NO_ARM)

    def mean(self, arm: str, metric: str, over: str) -> float | None:
        """An arm's score over a group of languages, mean over seeds."""
        means: Metric | None = getattr(self.arm(arm), metric)
        value: float | None = getattr(means, over) if means else None
        return value

    def of_language(self, arm: str, metric: str, lang: str) -> float | None:
        """An arm's score in one language, mean over seeds."""
        return (self.arm(arm).languages or {}).get(lang, {}).get(metric)

    def more_scores(self, arm: str) -> Mapping[str, MoreScores]:
        """An arm's scores beside BLEU and chrF by name, mean over seeds."""
        return self.arm(arm).more_scores or {}

    def by_seed(self, arm: str, metric: str, over: str) -> list[float]:
        """An arm's score over a group of languages, one value per seed."""
        scores = []
        for trial in self.finished(arm):
            values = [row[metric] for lang, row in trial.rows.items() if over in ("all", "worst", self.side(lang))]
            if values:
                scores.append(min(values) if over == "worst" else mean(values))
        return scores

    def average(self, arm: str, key: str) -> float | None:
        """A field of the trials, such as `tokens`, mean over seeds."""
        values = [getattr(trial, key) for trial in self.finished(arm) if getattr(trial, key) is not None]
        return mean(values) if values else None

    def is_at_endpoint(self, comparison: Comparison) -> bool:
        """Whether a comparison is of the endpoint: the declared metric, mean over all languages."""
        return comparison.metric == self.endpoint and comparison.over == "all"

    def status(self, comparison: Comparison) -> str:
        """`primary` if it was declared before the run and is at the endpoint, otherwise `exploratory`."""
        return "primary" if comparison.primary and self.is_at_endpoint(comparison) else "exploratory"

    @cached_property
    def primary(self) -> list[Comparison]:
        """The comparisons that were declared before the run, at the endpoint."""
        return [comparison for comparison in self.comparisons if self.status(comparison) == "primary"]

    def marks(self) -> dict[str, list[tuple[str, str]]]:
        """Footnotes by arm: (sign, text) for every significant primary comparison over seeds that the arm won."""
        footnotes: dict[str, list[tuple[str, str]]] = {}
        for i, comparison in enumerate([] if self.resampled else self.primary):
            if comparison.holm is not None and comparison.holm < LEVEL and comparison.mean:
                pair = [comparison.first, comparison.second]
                better, worse = pair if comparison.mean > 0 else pair[::-1]
                sign = SIGNS[i] if i < len(SIGNS) else f"({i + 1})"
                footnotes.setdefault(better, []).append((sign, f"{sign} better than {worse}"))
        return footnotes


TABLES = {"many-to-one": "Table 2", "one-to-many": "Table 3"}
OFF_TARGET, OFF_TARGET_REFERENCES = "off_target", "off_target_references"
GROUPS = {"all": "mean", "lrl": "LRLs", "hrl": "HRLs"}
REFERENCES = "the references"


def scores_section(study: Study) -> Section:
    if not study.finished():
        return Section("scores", "Scores", [Paragraph("No trial has finished yet.")])
    blocks: list[Block] = [_all_languages(study), *(_high_and_low(study, metric) for metric in METRICS)]
    gated = [arm for arm in SAMPLERS if arm in study.arms]
    if len(gated) > 1:
        blocks.append(_samplers(study, gated))
    for metric in METRICS:
        blocks.append(_each_language(study, metric))
        if metric == "bleu" and study.paper:
            blocks.append(_each_language_in_the_paper(study))
    return Section("scores", "Scores", [*blocks, *_more_scores(study)])


def _all_languages(study: Study) -> Table:
    marks = study.marks()
    columns = [_over(study, study.arms, metric, "all") for metric in METRICS]
    endpoint = list(METRICS).index(study.endpoint)
    columns[endpoint] = [
        Cell(cell.text, cell.best, "".join(sign for sign, _ in marks.get(arm, [])))
        for arm, cell in zip(study.arms, columns[endpoint], strict=True)
    ]
    head = ["arm", "seeds", *METRICS.values()]
    _add_paper_column(study, study.arms, head, columns, "all")
    footnotes = "; ".join(text for signs in marks.values() for _, text in signs)
    footnotes += " in a primary comparison (Holm-adjusted p < 0.05)." if footnotes else ""
    note = f"{_explanation(study)} {footnotes}".strip()
    seeds = [Cell(str(len(study.finished(arm)))) for arm in study.arms]
    return _table("Table 1: mean over all languages", head, study.arms, [seeds, *columns], note)


def _high_and_low(study: Study, metric: MetricName) -> Table:
    number = TABLES.get(study.results.data.direction, "Tables 2 and 3")
    head: list[str] = ["arm"]
    columns: list[list[Cell]] = []
    for group, title in (("lrl", "LRLs"), ("hrl", "HRLs"), ("worst", "worst language")):
        head.append(title)
        columns.append(_over(study, study.arms, metric, group))
        if metric == "bleu":
            _add_paper_column(study, study.arms, head, columns, group)
    caption = f"{number}: low-resource and high-resource languages, {METRICS[metric]}"
    return _table(caption, head, study.arms, columns, _explanation(study))


def _samplers(study: Study, arms: list[str]) -> Table:
    head, columns = ["arm", *METRICS.values()], [_over(study, arms, metric, "all") for metric in METRICS]
    _add_paper_column(study, arms, head, columns, "all")
    caption = "Table 4: samplers inside the curriculum, mean over all languages"
    return _table(caption, head, arms, columns, _explanation(study))


def _each_language(study: Study, metric: MetricName) -> Table:
    caption = f"{METRICS[metric]} of each language"
    return _by_language(
        study,
        caption,
        lambda arm, lang: study.of_language(arm, metric, lang),
        "Mean over seeds; the best of each language is bold.",
    )


def _each_language_in_the_paper(study: Study) -> Table:
    paper = study.paper
    assert paper is not None
    note = "As printed, except that the swapped headings of two tables are corrected."
    return _by_language(study, "BLEU of each language in the paper", paper.of_language, note)


def _by_language(study: Study, caption: str, value: Callable[[str, str], float | None], note: str) -> Table:
    arms = [arm for arm in study.arms if any(value(arm, lang) is not None for lang in study.languages)]
    cells = {
        lang: dict(zip(arms, number_column([value(arm, lang) for arm in arms]), strict=True))
        for lang in study.languages
    }
    return cross_table(caption, ("arm", arms), ("language", study.languages), lambda arm, lang: cells[lang][arm], note)


def _over(study: Study, arms: Sequence[str], metric: str, group: str) -> list[Cell]:
    means = [study.mean(arm, metric, group) for arm in arms]
    texts = [with_deviation(mean, study.by_seed(arm, metric, group)) for arm, mean in zip(arms, means, strict=True)]
    return [Cell(text, best=best) for text, best in zip(texts, mark_best(means), strict=True)]


def _add_paper_column(
    study: Study, arms: Sequence[str], head: list[str], columns: list[list[Cell]], group: str
) -> None:
    """Appends the paper's BLEU over a group of languages, if the paper has it for any of the arms."""
    printed = [study.paper.over(arm, group) if study.paper else None for arm in arms]
    if any(value is not None for value in printed):
        head.append("paper")
        columns.append(number_column(printed))


def _explanation(study: Study) -> str:
    best = "the best of each column is bold."
    return f"Mean over seeds ± standard deviation; {best}" if len(study.seeds) > 1 else best.capitalize()


def _table(
    caption: str, head: Sequence[str], arms: Sequence[str], columns: Sequence[Sequence[Cell]], note: str
) -> Table:
    return Table(caption, head, [[Cell(arm), *row] for arm, *row in zip(arms, *columns, strict=True)], note)


def _more_scores(study: Study) -> list[Block]:
    """One table per score: the means over groups, then every language."""
    names = dict.fromkeys(name for arm in study.arms for name in study.more_scores(arm))
    return [
        _off_target(study) if name == OFF_TARGET else _scorer(study, name)
        for name in names
        if name != OFF_TARGET_REFERENCES
    ]


def _off_target(study: Study) -> Table:
    """The rates of each arm. The references are the same for all arms and get one row of their own."""
    rows = {arm: _row(study, arm, OFF_TARGET) for arm in _arms_with(study, OFF_TARGET)}
    cells = {}
    for column in _columns(study):
        shares = [row.get(column) for row in rows.values()]
        for arm, share, best in zip(rows, shares, mark_best(shares, 3, lowest=True), strict=True):
            cells[arm, column] = Cell(_share(share), best=best)
    references = [_row(study, arm, OFF_TARGET_REFERENCES) for arm in _arms_with(study, OFF_TARGET_REFERENCES)][:1]
    cells |= {(REFERENCES, column): Cell(_share(row.get(column))) for row in references for column in _columns(study)}
    note = (
        f"Share of translations in the wrong language{study.over_seeds}; the lowest is bold. The language identifier"
        " makes mistakes, above all between related languages: its rate on the references is its own error rate."
    )
    names = [*rows, REFERENCES] if references else list(rows)
    columns = ("language", _columns(study))
    return cross_table("Off-target rate", ("arm", names), columns, lambda arm, column: cells[arm, column], note)


def _scorer(study: Study, name: str) -> Table:
    """Nothing is bold: whether higher is better depends on the scorer."""
    rows = {arm: _row(study, arm, name) for arm in _arms_with(study, name)}
    digits = decimals_for(value for row in rows.values() for value in row.values() if value is not None)

    def cell(arm: str, column: str) -> Cell:
        return Cell(decimal(rows[arm].get(column), digits))

    note = f"Scores of the external scorer {name}, mean over the sentences of each language{study.over_seeds}."
    return cross_table(name, ("arm", list(rows)), ("language", _columns(study)), cell, note)


def _arms_with(study: Study, name: str) -> list[str]:
    return [arm for arm in study.arms if name in study.more_scores(arm)]


def _columns(study: Study) -> Sequence[str]:
    return [*GROUPS.values(), *study.languages]


def _row(study: Study, arm: str, name: str) -> dict[str, float | None]:
    """A score of an arm by column: the means over groups, then the languages."""
    scores = study.more_scores(arm)[name]
    return {**{title: getattr(scores, group) for group, title in GROUPS.items()}, **scores.languages}


def _share(value: float | None) -> str:
    return DASH if value is None else percent(value, 1)
