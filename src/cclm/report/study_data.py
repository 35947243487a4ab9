"""What a study was made of: its arms, its data, L*, similarities, and the trials that failed."""

import json
from typing import Any

from cclm.report.document import Block, Cell, Section, Table, crossed
from cclm.report.study import Study
from cclm.report.written import NOTHING, column, decimal, whole

SIDES = {"lrl": "LRL", "hrl": "HRL"}


def failures(study: Study) -> Section:
    """The trials that did not come to an end, each with the reason."""
    rows = [
        [Cell(trial["arm"]), Cell(str(trial["seed"])), Cell(trial["run"]), Cell(trial.get("why") or NOTHING)]
        for trial in study.failed()
    ]
    note = "They are in no mean and in no comparison."
    return Section(
        "failures", "What failed", [Table("Failed trials", ("arm", "seed", "run", "why"), rows, note, (0, 2, 3))]
    )


def data(study: Study) -> Section:
    """Sentence pairs, dev losses of the bitext models, similarities, and what each arm changes in the recipe."""
    blocks: list[Block] = [_statistics(study)]
    if study.results.get("similarity"):
        blocks.append(_similarities(study))
    blocks.append(_arms(study))
    return Section("data", "What it was made of", blocks)


def _statistics(study: Study) -> Table:
    sizes, losses = study.results["data"]["sizes"], (study.results.get("benchmark") or {}).get("losses") or {}
    languages = [*study.results["data"]["low_resource"], *study.results["data"]["high_resource"]]
    tasks = [*languages, *(lang for lang in losses if lang not in languages)]
    columns: dict[str, list[str]] = {"": [SIDES[study.side(lang)] for lang in tasks]}
    for split in ("train", "dev", "test"):
        columns[split] = [whole(sizes.get(lang, {}).get(split)) for lang in tasks]
    columns["L*"] = [decimal(losses.get(lang), 3) for lang in tasks]
    if study.paper:
        columns["train, paper"] = [whole(study.paper.pairs(lang)) for lang in tasks]
        columns["L*, paper"] = [decimal(study.paper.loss(lang), 3) for lang in tasks]
    rows = [[Cell(lang), *map(Cell, row)] for lang, *row in zip(tasks, *columns.values(), strict=True)]
    note = "Sentence pairs; L*: dev loss of the language's own bitext model, in bits a token."
    return Table("Dataset statistics and dev losses of the bitext models", ("language", *columns), rows, note, (0, 1))


def _similarities(study: Study) -> Table:
    similarity, paper = study.results["similarity"], study.paper
    hrls = list(dict.fromkeys(hrl for row in similarity.values() for hrl in row))
    found: dict[tuple[str, str], Cell] = {}
    for lrl, row in similarity.items():
        for hrl, cell in zip(hrls, column([row.get(hrl) for hrl in hrls]), strict=True):
            printed = paper.similarity(lrl, hrl) if paper else None
            found[hrl, lrl] = cell if printed is None else Cell(f"{cell.text} ({decimal(printed)})", cell.best)
    note = "Bold: the nearest HRL." + (" In brackets: the paper's." if paper else "")
    return crossed("Similarities", ("HRL", hrls), ("LRL", list(similarity)), lambda hrl, lrl: found[hrl, lrl], note)


def _arms(study: Study) -> Table:
    settings = study.results["study"]["arms"]
    rows = [[Cell(arm), Cell(_changes(settings.get(arm)))] for arm in study.arms]
    return Table("What each arm changes in the recipe", ("arm", "settings"), rows, words=(0, 1))


def _changes(settings: dict[str, Any] | None) -> str:
    return ", ".join(f"{key} = {_value(value)}" for key, value in (settings or {}).items()) or NOTHING


def _value(value: Any) -> str:
    """A setting in a few words: an object by its values, named where they are not the name itself."""
    if isinstance(value, dict):
        return " ".join(str(inner) if key == "name" else f"{key}={_value(inner)}" for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
