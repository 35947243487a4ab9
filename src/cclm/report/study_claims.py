"""What a study may claim: the comparisons declared beforehand, then every difference, seed by seed."""

from collections.abc import Mapping
from typing import Any

from cclm.report.document import Block, Cell, Figure, Section, Table, Words
from cclm.report.forest import forest
from cclm.report.study import METRICS, Study
from cclm.report.written import chance, interval, signed

ENOUGH_SEEDS = 5
OVER = {"all": "all", "hrl": "HRLs", "lrl": "LRLs"}
READING = (
    "Diamond: mean over seeds, full where the comparison was declared before the run. Line: 95 % interval of the"
    " paired t-test over seeds. Small dots: the seeds."
)


def claims(study: Study) -> Section:
    """The primary comparisons in words and numbers, and all in one picture."""
    blocks: list[Block] = []
    if study.primary:
        blocks += [Words(_sentence(comparison), strong=True) for comparison in study.primary]
        blocks.append(_primary_table(study))
    else:
        blocks.append(Words(_without_primary(study)))
    if 1 < len(study.seeds) < ENOUGH_SEEDS:
        few = f"{len(study.seeds)} seeds are few: with fewer than five, only a large difference stands out from chance."
        blocks.append(Words(few))
    if any(study.at_the_endpoint(comparison) for comparison in study.comparisons):
        blocks.append(Figure([forest(study)], READING, "forest.svg"))
    return Section("claims", "What was asked, and what came out", blocks)


def _sentence(comparison: Mapping[str, Any]) -> str:
    sentence = str(comparison["sentence"]).strip()
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _without_primary(study: Study) -> str:
    declared = [" − ".join(pair) for pair in study.results["study"]["primary"]]
    if declared:
        return f"Declared before the run, but not to be had from the trials that finished: {', '.join(declared)}."
    return "No comparison was declared before the run: all of them are exploratory."


def _primary_table(study: Study) -> Table:
    rows = [
        [
            Cell(_pair(one)),
            Cell(signed(one["mean"])),
            Cell(interval(one.get("low"), one.get("high"))),
            Cell(chance(one.get("p"))),
            Cell(chance(one.get("holm"))),
        ]
        for one in study.primary
    ]
    head = ("first − second", study.endpoint_name, "95 % interval", "p", "p, Holm")
    declared = "declared before the run" if len(rows) == 1 else f"the {len(rows)} declared before the run"
    note = f"p, Holm: adjusted for all primary comparisons ({declared}). Differences are paired by seed."
    return Table(f"Primary comparisons, mean {study.endpoint_name} over all languages", head, rows, note)


def differences(study: Study) -> Section:
    """Every comparison of the study with the difference of each seed."""
    seeds = sorted({seed for one in study.comparisons for seed in one["differences"]}, key=_by_number)
    rows = [
        [
            Cell(_pair(one)),
            Cell(METRICS.get(one["metric"], one["metric"])),
            Cell(OVER.get(one["over"], one["over"])),
            *(Cell(signed(one["differences"].get(seed))) for seed in seeds),
            Cell(signed(one["mean"])),
            Cell(interval(one.get("low"), one.get("high"))),
            Cell(chance(one.get("p"))),
            Cell(study.status(one)),
        ]
        for one in study.comparisons
    ]
    columns = [f"seed {seed}" for seed in seeds]
    head = ("first − second", "metric", "over", *columns, "mean", "95 % interval", "p", "")
    note = "p as it is, adjusted for nothing: of many exploratory comparisons some are small by chance alone."
    table = Table("Differences, paired by seed", head, rows, note, words=(0, 1, 2, len(head) - 1))
    blocks: list[Block] = [table] if rows else [Words("Nothing to compare: too few trials finished.")]
    return Section("differences", "Every difference", blocks)


def _by_number(seed: str) -> tuple[int, str]:
    return (int(seed), "") if seed.isdecimal() else (0, seed)


def _pair(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['first']} − {comparison['second']}"
