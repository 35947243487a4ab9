"""What a study may claim: the comparisons declared beforehand, then every difference, seed by seed."""

from collections.abc import Mapping
from typing import Any

from cclm.report.document import Block, Cell, Figure, Section, Table, Words, crossed
from cclm.report.forest import forest
from cclm.report.study import METRICS, Study
from cclm.report.written import NOTHING, chance, count, interval, signed

ENOUGH_SEEDS = 5
OVER = {"all": "all languages", "hrl": "the HRLs", "lrl": "the LRLs"}
INTERVAL = "95\u00a0% interval"
DIAMOND = "Diamond: mean over seeds, full where the comparison was declared before the run."
LINE = "Line: 95\u00a0% interval of the paired t-test over seeds. Small dots: the seeds."
SENTENCES = "Line: 95\u00a0% interval of a paired bootstrap of the test sentences, of one seed."
BOOTSTRAP = (
    "One seed: intervals and p are of a paired bootstrap of its test sentences. They say how sure one can be of the"
    " difference between two models; of the methods they say nothing, for another seed gives other models."
)
ONE_SEED = "One seed gives no interval and no p: what two single runs differ by says nothing of the methods."
FEW_SEEDS = "seeds are few: with fewer than five, only a large difference stands out from chance."


def claims(study: Study) -> Section:
    """The primary comparisons in words and numbers, and all in one picture."""
    blocks: list[Block] = []
    if study.primary:
        blocks += [Words(_sentence(comparison), strong=True) for comparison in study.primary]
        blocks.append(_primary_table(study))
    else:
        blocks.append(Words(_without_primary(study)))
    seeds = len(study.seeds)
    if seeds < ENOUGH_SEEDS:
        one_seed = BOOTSTRAP if study.resampled else ONE_SEED
        blocks.append(Words(one_seed if seeds == 1 else f"{seeds} {FEW_SEEDS}"))
    if any(study.at_the_endpoint(comparison) for comparison in study.comparisons):
        blocks.append(Figure("Differences and their intervals", [forest(study)], _caption(study), "forest.svg"))
    return Section("claims", "What was asked, and what came out", blocks)


def _caption(study: Study) -> str:
    if len(study.seeds) > 1:
        return f"{DIAMOND} {LINE}"
    diamond = DIAMOND.replace("mean over seeds", "the difference")
    return f"{diamond} {SENTENCES}" if study.resampled else diamond


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
    head = ("first − second", study.endpoint_name, INTERVAL, "p", "p, Holm")
    how = (
        "Interval and p: bootstrap of the test sentences, one seed."
        if study.resampled
        else "Differences are paired by seed."
    )
    note = f"{how} p, Holm: adjusted for {count(len(rows), 'primary comparison')}."
    return Table(f"Primary comparisons, mean {study.endpoint_name} over all languages", head, rows, note)


def differences(study: Study) -> Section:
    """Every comparison of the study with the difference of each seed, a table for each metric and group."""
    kinds = dict.fromkeys((one["metric"], one["over"]) for one in study.comparisons)
    ordered = sorted(kinds, key=lambda kind: kind != (study.endpoint, "all"))
    blocks: list[Block] = [_by_seed(study, *kind) for kind in ordered]
    blocks += [_by_language(study, metric) for metric, over in ordered if over == "all" and study.resampled]
    return Section("differences", "Every difference", blocks or [Words("Nothing to compare: too few trials finished.")])


def _by_seed(study: Study, metric: str, over: str) -> Table:
    shown = [one for one in study.comparisons if (one["metric"], one["over"]) == (metric, over)]
    seeds = sorted({seed for one in shown for seed in one["differences"]}, key=_by_number)
    rows = [
        [
            Cell(_pair(one), best=study.status(one) == "primary"),
            *(Cell(signed(one["differences"].get(seed))) for seed in seeds),
            Cell(signed(one["mean"])),
            Cell(interval(one.get("low"), one.get("high"))),
            Cell(chance(one.get("p"))),
        ]
        for one in shown
    ]
    head = ("first − second", *(f"seed {seed}" for seed in seeds), "mean", INTERVAL, "p")
    primary = "Bold: primary. All others are exploratory" if any(row[0].best for row in rows) else "All exploratory"
    note = f"{primary}; p is adjusted for nothing here, and of many some are small by chance alone."
    note += " Interval and p: bootstrap of the test sentences, one seed." if study.resampled else ""
    caption = f"{METRICS.get(metric, metric)} over {OVER.get(over, over)}, first − second"
    return Table(caption, head, rows, note)


def _by_language(study: Study, metric: str) -> Table:
    """The differences of each language within one seed."""
    shown = {
        _pair(one): one["languages"] for one in study.comparisons if one["metric"] == metric and "languages" in one
    }

    def cell(pair: str, lang: str) -> Cell:
        row = shown[pair].get(lang)
        return Cell(NOTHING) if row is None else Cell(signed(row["difference"]), mark=_stars(row["p"]))

    return crossed(
        f"{METRICS.get(metric, metric)} of each language, first − second",
        ("first − second", list(shown)),
        ("language", study.languages),
        cell,
        "* p < 0.05, ** p < 0.01, adjusted for nothing: bootstrap of the test sentences, one seed. The intervals are in"
        " results.json.",
    )


def _stars(p: float) -> str:
    return "**" if p < 0.01 else "*" if p < 0.05 else ""


def _by_number(seed: str) -> tuple[int, str]:
    return (int(seed), "") if seed.isdecimal() else (0, seed)


def _pair(comparison: Mapping[str, Any]) -> str:
    return f"{comparison['first']} − {comparison['second']}"
