"""The paper's Tables 1 to 4 and its individual BLEU, with the numbers of a study."""

from collections.abc import Callable, Sequence

from cclm.report.document import Block, Cell, Section, Table, Words, crossed
from cclm.report.paper_figures import SAMPLERS
from cclm.report.study import METRICS, Study
from cclm.report.study_more_scores import more_scores
from cclm.report.written import best_of, column, with_spread

NUMBERS = {"many-to-one": "Table 2", "one-to-many": "Table 3"}


def scores(study: Study) -> Section:
    """All tables of scores."""
    if not study.finished():
        return Section("scores", "Scores", [Words("No trial has finished: there are no scores.")])
    blocks: list[Block] = [_main(study), *(_halves(study, metric) for metric in METRICS)]
    within = [arm for arm in SAMPLERS if arm in study.arms]
    if len(within) > 1:
        blocks.append(_samplers(study, within))
    blocks.append(_individual(study, "bleu"))
    if study.paper:
        blocks.append(_of_the_paper(study))
    blocks += [_individual(study, "chrf"), *more_scores(study)]
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
    which = NUMBERS.get(study.results["data"]["direction"], "Tables 2 and 3")
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
    found = {lang: dict(zip(arms, column([value(arm, lang) for arm in arms]), strict=True)) for lang in study.languages}
    return crossed(caption, ("arm", arms), ("language", study.languages), lambda arm, lang: found[lang][arm], note)


def _over(study: Study, arms: Sequence[str], metric: str, group: str) -> list[Cell]:
    means = [study.mean(arm, metric, group) for arm in arms]
    texts = [with_spread(mean, study.by_seed(arm, metric, group)) for arm, mean in zip(arms, means, strict=True)]
    return [Cell(text, best=best) for text, best in zip(texts, best_of(means), strict=True)]


def _beside(
    study: Study, arms: Sequence[str], head: list[str], columns: list[list[Cell]], title: str, group: str
) -> None:
    """The paper's column beside ours, where there is one."""
    printed = [study.paper.over(arm, group) if study.paper else None for arm in arms]
    if any(value is not None for value in printed):
        head.append(title)
        columns.append(column(printed))


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
