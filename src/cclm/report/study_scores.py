"""The scores of a study: the paper's Tables 1 to 4, every language, off-target rates and the user's own scorers."""

from collections.abc import Callable, Sequence

from cclm.report.document import (
    DASH,
    Block,
    Cell,
    Paragraph,
    Section,
    Table,
    best_of,
    cross_table,
    decimal,
    digits_of,
    number_column,
    percent,
    with_deviation,
)
from cclm.report.paper_figures import SAMPLERS
from cclm.report.study import METRICS, Study

TABLES = {"many-to-one": "Table 2", "one-to-many": "Table 3"}
OFF_TARGET, OF_REFERENCES = "off_target", "off_target_references"
GROUPS = {"all": "mean", "lrl": "LRLs", "hrl": "HRLs"}
REFERENCES = "the references"


def scores_section(study: Study) -> Section:
    """All tables of scores."""
    if not study.finished():
        return Section("scores", "Scores", [Paragraph("No trial has finished: there are no scores.")])
    blocks: list[Block] = [_main(study), *(_halves(study, metric) for metric in METRICS)]
    within = [arm for arm in SAMPLERS if arm in study.arms]
    if len(within) > 1:
        blocks.append(_samplers(study, within))
    blocks.append(_individual(study, "bleu"))
    if study.paper:
        blocks.append(_of_the_paper(study))
    blocks += [_individual(study, "chrf"), *_more_scores(study)]
    return Section("scores", "Scores", blocks)


def _main(study: Study) -> Table:
    marks = study.marks()
    columns = [_over(study, study.arms, "bleu", "all"), _over(study, study.arms, "chrf", "all")]
    endpoint = list(METRICS).index(study.endpoint) if study.endpoint in METRICS else 0
    columns[endpoint] = [
        Cell(cell.text, cell.best, "".join(sign for sign, _ in marks.get(arm, [])))
        for arm, cell in zip(study.arms, columns[endpoint], strict=True)
    ]
    head = ["arm", "seeds", "BLEU", "chrF"]
    _beside(study, study.arms, head, columns, "paper", "all")
    said = "; ".join(words for signs in marks.values() for _, words in signs)
    note = f"{_spread(study)} {said + ', by a primary comparison (Holm-adjusted p < 0.05).' if said else ''}".strip()
    return _table("Table 1: mean over all languages", head, study.arms, [_seeds(study), *columns], note)


def _halves(study: Study, metric: str) -> Table:
    which = TABLES.get(study.results.data.direction, "Tables 2 and 3")
    head: list[str] = ["arm"]
    columns: list[list[Cell]] = []
    for group, title in (("lrl", "LRLs"), ("hrl", "HRLs"), ("worst", "worst language")):
        head.append(title)
        columns.append(_over(study, study.arms, metric, group))
        if metric == "bleu":
            _beside(study, study.arms, head, columns, "paper", group)
    caption = f"{which}: low-resource and high-resource languages, {METRICS[metric]}"
    return _table(caption, head, study.arms, columns, _spread(study))


def _samplers(study: Study, within: list[str]) -> Table:
    head, columns = ["arm", "BLEU", "chrF"], [_over(study, within, metric, "all") for metric in METRICS]
    _beside(study, within, head, columns, "paper", "all")
    return _table("Table 4: samplers inside the curriculum, over all languages", head, within, columns, _spread(study))


def _individual(study: Study, metric: str) -> Table:
    caption = f"{METRICS[metric]} of each language"
    return _by_language(study, caption, lambda arm, lang: study.of_language(arm, metric, lang), "Mean over seeds.")


def _of_the_paper(study: Study) -> Table:
    paper = study.paper
    assert paper is not None
    note = "Left as printed, but for the heads of two tables, which are swapped in print."
    return _by_language(study, "BLEU of each language in the paper", paper.of_language, note)


def _by_language(study: Study, caption: str, value: Callable[[str, str], float | None], note: str) -> Table:
    arms = [arm for arm in study.arms if any(value(arm, lang) is not None for lang in study.languages)]
    found = {
        lang: dict(zip(arms, number_column([value(arm, lang) for arm in arms]), strict=True))
        for lang in study.languages
    }
    return cross_table(caption, ("arm", arms), ("language", study.languages), lambda arm, lang: found[lang][arm], note)


def _over(study: Study, arms: Sequence[str], metric: str, group: str) -> list[Cell]:
    means = [study.mean(arm, metric, group) for arm in arms]
    texts = [with_deviation(mean, study.by_seed(arm, metric, group)) for arm, mean in zip(arms, means, strict=True)]
    return [Cell(text, best=best) for text, best in zip(texts, best_of(means), strict=True)]


def _beside(
    study: Study, arms: Sequence[str], head: list[str], columns: list[list[Cell]], title: str, group: str
) -> None:
    """Adds the paper's column beside ours, if it has one."""
    printed = [study.paper.over(arm, group) if study.paper else None for arm in arms]
    if any(value is not None for value in printed):
        head.append(title)
        columns.append(number_column(printed))


def _spread(study: Study) -> str:
    best = "the best of a column is bold."
    several = len(study.seeds) > 1
    return f"Mean over seeds ± standard deviation between them; {best}" if several else best.capitalize()


def _seeds(study: Study) -> list[Cell]:
    return [Cell(str(len(study.finished(arm)))) for arm in study.arms]


def _table(
    caption: str, head: Sequence[str], arms: Sequence[str], columns: Sequence[Sequence[Cell]], note: str
) -> Table:
    return Table(caption, head, [[Cell(arm), *row] for arm, *row in zip(arms, *columns, strict=True)], note)


def _more_scores(study: Study) -> list[Block]:
    """One table per score: the means over groups, then every language."""
    names = dict.fromkeys(name for arm in study.arms for name in study.more_scores(arm))
    return [
        _off_target(study) if name == OFF_TARGET else _of_scorer(study, name) for name in names if name != OF_REFERENCES
    ]


def _off_target(study: Study) -> Table:
    """The references are the same for all arms, so that the identifier's error on them is one row of its own."""
    rows = {arm: _row(study, arm, OFF_TARGET) for arm in _arms(study, OFF_TARGET)}
    cells = {}
    for place in _columns(study):
        shares = [row.get(place) for row in rows.values()]
        for arm, share, best in zip(rows, shares, best_of(shares, 3, lowest=True), strict=True):
            cells[arm, place] = Cell(_share(share), best=best)
    references = [_row(study, arm, OF_REFERENCES) for arm in _arms(study, OF_REFERENCES)][:1]
    cells |= {(REFERENCES, place): Cell(_share(row.get(place))) for row in references for place in _columns(study)}
    note = (
        f"Share of the translations in another language than asked for{study.over_seeds}; the lowest is bold. The"
        " identifier errs, most of all between close relatives; its rate on the references is its own error."
    )
    down = [*rows, REFERENCES] if references else list(rows)
    across = ("language", _columns(study))
    return cross_table("Off-target rate", ("arm", down), across, lambda arm, place: cells[arm, place], note)


def _of_scorer(study: Study, name: str) -> Table:
    """Nothing is bold: only the scorer's author knows whether higher is better."""
    rows = {arm: _row(study, arm, name) for arm in _arms(study, name)}
    digits = digits_of(value for row in rows.values() for value in row.values() if value is not None)

    def cell(arm: str, place: str) -> Cell:
        return Cell(decimal(rows[arm].get(place), digits))

    note = f"What the scorer {name} gave the sentences of each language on average{study.over_seeds}."
    return cross_table(name, ("arm", list(rows)), ("language", _columns(study)), cell, note)


def _arms(study: Study, name: str) -> list[str]:
    return [arm for arm in study.arms if name in study.more_scores(arm)]


def _columns(study: Study) -> Sequence[str]:
    return [*GROUPS.values(), *study.languages]


def _row(study: Study, arm: str, name: str) -> dict[str, float | None]:
    """The means under their titles, then the languages."""
    found = study.more_scores(arm)[name]
    return {**{title: getattr(found, group) for group, title in GROUPS.items()}, **found.languages}


def _share(value: float | None) -> str:
    return DASH if value is None else percent(value, 1)
