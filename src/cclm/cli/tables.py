"""Tables for the terminal: the scores of a run, and comparisons of runs."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cclm.evaluation.compare import Compared, Comparisons
from cclm.evaluation.statistics import Difference, OverSeeds
from cclm.experiments.extend import Change
from cclm.formats.scores import METRICS, Scores
from cclm.formats.study import StudyResults
from cclm.formats.sweep import Sweep
from cclm.report.document import name_seeds
from cclm.text_table import text_table

MEANS = {"all": "mean", "hrl": "HRLs", "lrl": "LRLs"}


def print_scores(scores: Scores) -> None:
    """The scores of a run: one row per language, then the means of BLEU."""
    rows = {**scores.languages, **scores.zero_shot}
    scorers = scores.signature.scorers
    off_target = any("off_target" in row for row in rows.values())
    table = text_table(("", "BLEU", "95 %", "chrF", *(["off-target"] if off_target else []), *scorers))
    for name, row in rows.items():
        interval = f"{row['bleu_low']:.1f}-{row['bleu_high']:.1f}"
        cells = [_off_target(row)] if off_target else []
        cells += [f"{row[scorer]:.4g}" if scorer in row else "-" for scorer in scorers]
        title = f"{name} zero-shot" if name in scores.zero_shot else name
        table.add_row(title, f"{row['bleu']:.1f}", interval, f"{row['chrf']:.1f}", *cells)
    for name, value in scores.means:
        table.add_row(name, "-" if value is None else f"{value:.1f}", style="dim")
    console = Console()
    console.print(table)
    if off_target:
        console.print("off-target: identified as another language; in brackets, that of the references", style="dim")
    if scores.zero_shot:
        console.print("zero-shot: pairs that the model was not trained on; they are in no mean", style="dim")
    if scores.without_spaces:
        names = ", ".join(scores.without_spaces)
        console.print(Text(f"written without spaces between words, use chrF instead of BLEU: {names}"))
    if scores.left_out:
        console.print(Text(f"without a {scores.signature.split} set, in no mean: {', '.join(scores.left_out)}"))


def print_changes(found: Mapping[str, Change]) -> None:
    """BLEU before and after languages were added, and where it is known from the start."""
    compared = any(change.from_start is not None for change in found.values())
    table = text_table(("", "BLEU before", "now", "change", *(("from the start",) if compared else ())))
    for name, change in found.items():
        before, now = change.before, change.now
        cells = (
            ("-", f"{now:.1f}", "new") if before is None else (f"{before:.1f}", f"{now:.1f}", f"{now - before:+.1f}")
        )
        full = "-" if change.from_start is None else f"{change.from_start:.1f}"
        table.add_row(name, *cells, *((full,) if compared else ()))
    Console().print(table)


def _off_target(row: Mapping[str, float]) -> str:
    shares = [row.get(key) for key in ("off_target", "off_target_references")]
    translations, references = ("-" if share is None else f"{share:.1%}" for share in shares)
    return f"{translations} ({references})"


def print_comparisons(found: Comparisons) -> None:
    """A table and a sentence per comparison; below them, how the numbers were computed."""
    console = Console()
    title = f"{METRICS[found.metric]} on the {found.split} sets"
    for comparison in found.comparisons:
        console.print(_comparison_table(comparison, title + _seeds(comparison), found.baseline.name))
        console.print(Text(comparison.sentence))
        if comparison.left_out:
            console.print(Text(f"left out, no run of the other with that seed: {', '.join(comparison.left_out)}"))
        console.print()
    console.print(Text(_legend(found.samples, found.comparisons), style="dim"))


def _seeds(comparison: Compared) -> str:
    """The seeds of methods; nothing for two runs."""
    seeds = comparison.seeds
    return "" if not seeds else f", {name_seeds(seeds)}" + (" on average" if len(seeds) > 1 else "")


def _is_over_seeds(comparison: Compared) -> bool:
    return len(comparison.seeds) > 1


def _comparison_table(comparison: Compared, title: str, baseline: str) -> Table:
    heads = ["", baseline, comparison.system.name, "difference", "95 %", "p", ""]
    table = text_table(heads if _is_over_seeds(comparison) else [*heads, "SacreBLEU's p"], title=title)
    for lang, row in comparison.languages.items():
        table.add_row(lang, *_cells(row))
    for key, row in comparison.means.items():
        table.add_row(MEANS[key], *_cells(row), style="bold")
    return table


def _cells(row: Difference | OverSeeds) -> list[str]:
    assert row.low is not None  # of a single seed, the rows are Differences
    assert row.high is not None
    assert row.p is not None
    mark = "**" if row.p < 0.01 else "*" if row.p < 0.05 else ""
    interval = f"{row.low:+.1f} to {row.high:+.1f}"
    cells = [f"{row.baseline:.1f}", f"{row.system:.1f}", f"{row.difference:+.1f}", interval, f"{row.p:.3f}", mark]
    if isinstance(row, Difference):
        cells.append("" if row.p_sacrebleu is None else f"{row.p_sacrebleu:.3f}")
    return cells


def _legend(samples: int, comparisons: Sequence[Compared]) -> str:
    """How the numbers were computed: over sentences, over seeds, or both."""
    over_seeds = [_is_over_seeds(comparison) for comparison in comparisons]
    how, sacrebleu = [], ""
    if any(over_seeds):
        how.append("a paired t-test of the differences from seed to seed, not a bootstrap of sentences")
    if not all(over_seeds):
        only = "with a single seed, " if any(over_seeds) else ""
        how.append(f"{only}{samples:,} resamples of the sentences of each language, the same for both runs")
        sacrebleu = " SacreBLEU's own p tests one side in effect."
    adjusted = f"; in a sentence, p is adjusted for {len(comparisons)} comparisons" if len(comparisons) > 1 else ""
    return (
        f"* p < 0.05, ** p < 0.01, two-sided: {'; '.join(how)}; not adjusted for the number of rows"
        f"{adjusted}.{sacrebleu}"
    )


def print_study(results: StudyResults) -> None:
    """The arms of a study with their scores, mean over seeds, and what the primary comparisons license."""
    table = text_table(("", "seeds", "BLEU", "chrF", "HRLs", "LRLs"))
    for name, arm in results.arms.items():
        chrf = arm.chrf
        values = (arm.bleu and arm.bleu.all, chrf and chrf.all, chrf and chrf.hrl, chrf and chrf.lrl)
        table.add_row(Text(name), str(arm.seeds), *("-" if value is None else f"{value:.1f}" for value in values))
    console = Console()
    console.print(table)
    console.print(Text("means over languages and seeds; HRLs and LRLs in chrF", style="dim"))
    for comparison in results.comparisons:
        if comparison.primary:
            console.print(Text(comparison.sentence), soft_wrap=True)


def print_sweep(found: Sweep) -> None:
    """The leaves of a sweep, the choice among them, and the steps that sharing saved."""
    table = text_table(("", "threshold", "dev loss", "BLEU", "chrF", "admitted"))
    for leaf in found.leaves:
        scores = ("-" if value is None else f"{value:.1f}" for value in (leaf.bleu, leaf.chrf))
        is_chosen = (leaf.threshold, leaf.aggregate) == (found.chosen.threshold, found.chosen.aggregate)
        style = "bold" if is_chosen else ""
        loss = f"{leaf.weighted:.3f}{'*' if is_chosen else ' '}"
        table.add_row(leaf.aggregate, f"{leaf.threshold:g}", loss, *scores, f"{len(leaf.admissions)}", style=style)
    console = Console()
    console.print(table)
    steps = found.steps
    console.print(
        Text(
            f"* chosen: the lowest dev loss over all dev sentences; test scores play no part\n"
            f"{steps.trained:,} steps trained; {steps.independent:,} without sharing",
            style="dim",
        )
    )
