"""The report of a sweep over thresholds: a page of its own, or Markdown for the documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from cclm.report.document import Cell, Document, Figure, Section, Table, Words
from cclm.report.document_page import as_page
from cclm.report.markdown import as_markdown
from cclm.report.sweep_figure import panels
from cclm.report.written import NOTHING, column, count, decimal, percent, whole

MOST_NAMED = 12
"""Admissions of a leaf that are written out."""

Sweep = Mapping[str, Any]


def sweep_page(sweep: Sweep) -> str:
    """One HTML page that needs nothing but itself."""
    return as_page(_document(sweep))


def sweep_markdown(sweep: Sweep, *, pictures: str | None = None) -> str:
    """The same as Markdown; with `pictures`, the folder that holds `figure-2.svg`, the figure is linked."""
    return as_markdown(_document(sweep), pictures)


def _document(sweep: Sweep) -> Document:
    caption = (
        "Figure 2 of the paper with these numbers. The threshold is chosen by the weighted dev loss alone; the test"
        " sets had no say."
    )
    figure = Section(
        "figure-2", "Loss and BLEU against the threshold", [Figure("Figure 2", panels(sweep), caption, "figure-2.svg")]
    )
    leaves = Section("leaves", "Every leaf", [_leaves(sweep)])
    cost = Section("cost", "What it cost", [Words(_saved(sweep["steps"]))])
    return Document("cclm sweep", str(sweep["recipe"]), _lead(sweep), [figure, leaves, cost])


def _lead(sweep: Sweep) -> str:
    thresholds, aggregates = sweep["thresholds"], sweep["aggregates"]
    chosen = sweep["chosen"]
    best = next((leaf for leaf in sweep["leaves"] if _point(leaf) == _point(chosen)), None)
    loss = f", with a weighted dev loss of {decimal(best['weighted'], 3)} bits a token" if best else ""
    tried = f"{count(len(thresholds), 'threshold')} by {', '.join(aggregates)}"
    return f"{tried}. Chosen on the dev sets: threshold {chosen['threshold']:g}, {chosen['aggregate']}{loss}."


def _point(leaf: Mapping[str, Any]) -> tuple[float, str]:
    return leaf["threshold"], leaf["aggregate"]


def _leaves(sweep: Sweep) -> Table:
    leaves = sorted(sweep["leaves"], key=_point)
    late = sorted({lang for leaf in leaves for lang, step in leaf["admissions"].items() if step})
    columns: dict[str, Sequence[Cell]] = {
        "weighted": column([leaf["weighted"] for leaf in leaves], 3, lowest=True),
        "macro": column([leaf["macro"] for leaf in leaves], 3, lowest=True),
        "BLEU": column([leaf.get("bleu") for leaf in leaves]),
        "chrF": column([leaf.get("chrf") for leaf in leaves]),
        "steps": [Cell(whole(leaf["steps"])) for leaf in leaves],
        "best": [Cell(whole(leaf.get("best"))) for leaf in leaves],
        "admissions": [Cell(_admissions(leaf["admissions"], late)) for leaf in leaves],
        "same as": [Cell(_named(leaf["same_as"]) if leaf.get("same_as") else "") for leaf in leaves],
    }
    rows = [
        [Cell(_named(leaf), best=_point(leaf) == _point(sweep["chosen"])), *row]
        for leaf, *row in zip(leaves, *columns.values(), strict=True)
    ]
    note = (
        "Bold: what was chosen, and the best of each column. Weighted and macro: dev loss of the selected checkpoint,"
        " in bits a token. Admissions: the step at which each language joined that had to wait. Same as: a leaf that"
        " made the same decisions, and so is the same model."
    )
    return Table("Leaves of the sweep", ("leaf", *columns), rows, note, words=(0, 7, 8))


def _admissions(admissions: Mapping[str, int], late: Sequence[str]) -> str:
    """Whoever had to wait, in the order of their coming."""
    came = sorted((lang for lang in late if lang in admissions), key=lambda lang: admissions[lang])
    never = [lang for lang in late if lang not in admissions]
    said = [f"{lang} {whole(admissions[lang])}" for lang in came] + [f"{lang} never" for lang in never]
    more = [f"and {len(said) - MOST_NAMED} more"] if len(said) > MOST_NAMED else []
    return ", ".join(said[:MOST_NAMED] + more) or NOTHING


def _named(leaf: Mapping[str, Any]) -> str:
    return f"{leaf['threshold']:g} {leaf['aggregate']}"


def _saved(steps: Mapping[str, int]) -> str:
    trained, independent, fewest = steps["trained"], steps["independent"], steps["fewest"]
    saved = f", {percent(1 - trained / independent)} fewer than" if trained < independent else ", against"
    alone = f"{whole(independent)} that independent runs would have taken"
    return (
        f"Leaves that decide alike share their steps until they part. The sweep trained {whole(trained)} steps{saved}"
        f" the {alone}; no sweep over these leaves could do with fewer than {whole(fewest)}."
    )
