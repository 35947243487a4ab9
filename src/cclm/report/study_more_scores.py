"""Scores beside BLEU and chrF, where a study has them: off-target rates, and what scorers of one's own gave."""

from collections.abc import Sequence

from cclm.report.document import Block, Cell, Table, crossed
from cclm.report.study import Study
from cclm.report.written import NOTHING, best_of, decimal, digits_of, percent

OFF_TARGET, OF_REFERENCES = "off_target", "off_target_references"
GROUPS = {"all": "mean", "lrl": "LRLs", "hrl": "HRLs"}
REFERENCES = "the references"


def more_scores(study: Study) -> list[Block]:
    """A table for each: the means over groups, then every language."""
    names = dict.fromkeys(name for arm in study.arms for name in study.more_scores(arm))
    return [
        _off_target(study) if name == OFF_TARGET else _of_scorer(study, name) for name in names if name != OF_REFERENCES
    ]


def _off_target(study: Study) -> Table:
    """The references are the same for all arms: what the identifier says of them is a row by itself."""
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
        " identifier errs, most of all between near relatives: what it says of the references is its own error."
    )
    down = [*rows, REFERENCES] if references else list(rows)
    across = ("language", _columns(study))
    return crossed("Off-target rate", ("arm", down), across, lambda arm, place: cells[arm, place], note)


def _of_scorer(study: Study, name: str) -> Table:
    """Whether more of it is better is for its scorer to know: nothing is bold."""
    rows = {arm: _row(study, arm, name) for arm in _arms(study, name)}
    digits = digits_of(value for row in rows.values() for value in row.values() if value is not None)

    def cell(arm: str, place: str) -> Cell:
        return Cell(decimal(rows[arm].get(place), digits))

    note = f"What the scorer {name} gave the sentences of each language on average{study.over_seeds}."
    return crossed(name, ("arm", list(rows)), ("language", _columns(study)), cell, note)


def _arms(study: Study, name: str) -> list[str]:
    return [arm for arm in study.arms if name in study.more_scores(arm)]


def _columns(study: Study) -> Sequence[str]:
    return [*GROUPS.values(), *study.languages]


def _row(study: Study, arm: str, name: str) -> dict[str, float | None]:
    """The means under their titles, and the languages."""
    found = study.more_scores(arm)[name]
    return {**{title: found.get(group) for group, title in GROUPS.items()}, **found["languages"]}


def _share(value: float | None) -> str:
    return NOTHING if value is None else percent(value, 1)
