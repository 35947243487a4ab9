"""What `cclm compare` found, as tables on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cclm.report.document import name_seeds

TITLES = {"bleu": "BLEU", "chrf": "chrF"}
MEANS = {"all": "mean", "hrl": "HRLs", "lrl": "LRLs"}


def print_comparisons(found: Mapping[str, Any]) -> None:
    """A table and a sentence for each comparison, and under them how it was done."""
    console = Console()
    title = f"{TITLES[found['metric']]} on the {found['split']} sets"
    for comparison in found["comparisons"]:
        console.print(_table(comparison, title + _seeds(comparison), found["baseline"]["name"]))
        console.print(Text(comparison["sentence"]))
        if comparison.get("left_out"):
            console.print(Text(f"left out, no run of the other with that seed: {', '.join(comparison['left_out'])}"))
        console.print()
    console.print(Text(_legend(found["samples"], found["comparisons"]), style="dim"))


def _seeds(comparison: Mapping[str, Any]) -> str:
    """The seeds of methods; of two runs nothing."""
    seeds = comparison.get("seeds")
    return "" if not seeds else f", {name_seeds(seeds)}" + (" on average" if len(seeds) > 1 else "")


def _is_over_seeds(comparison: Mapping[str, Any]) -> bool:
    return len(comparison.get("seeds", ())) > 1


def _table(comparison: Mapping[str, Any], title: str, baseline: str) -> Table:
    style = {"title_justify": "left", "title_style": "bold"}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title=title, **style)  # type: ignore[arg-type]
    table.add_column("")
    for head in (baseline, comparison["name"], "difference", "95 %", "p"):
        table.add_column(Text(head), justify="right")
    table.add_column("")
    if not _is_over_seeds(comparison):
        table.add_column("SacreBLEU's p", justify="right")
    for lang, row in comparison["languages"].items():
        table.add_row(lang, *_cells(row))
    for key, row in comparison["means"].items():
        table.add_row(MEANS[key], *_cells(row), style="bold")
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    mark = "**" if row["p"] < 0.01 else "*" if row["p"] < 0.05 else ""
    interval = f"{row['low']:+.1f} to {row['high']:+.1f}"
    cells = [f"{row['baseline']:.1f}", f"{row['system']:.1f}", f"{row['difference']:+.1f}", interval, f"{row['p']:.3f}"]
    if "p_sacrebleu" not in row:
        return [*cells, mark]
    return [*cells, mark, "" if row["p_sacrebleu"] is None else f"{row['p_sacrebleu']:.3f}"]


def _legend(samples: int, comparisons: Sequence[Mapping[str, Any]]) -> str:
    """What was done: of sentences, of seeds, or of both."""
    over_seeds = [_is_over_seeds(comparison) for comparison in comparisons]
    how, theirs = [], ""
    if any(over_seeds):
        how.append("a paired t-test of the differences from seed to seed, not a bootstrap of sentences")
    if not all(over_seeds):
        only = "with a single seed, " if any(over_seeds) else ""
        how.append(f"{only}{samples:,} resamples of the sentences of each language, the same for both runs")
        theirs = " SacreBLEU's own p tests one side in effect."
    adjusted = f"; in a sentence, p is adjusted for {len(comparisons)} comparisons" if len(comparisons) > 1 else ""
    return (
        f"* p < 0.05, ** p < 0.01, two-sided: {'; '.join(how)}; not adjusted for the number of rows{adjusted}.{theirs}"
    )
