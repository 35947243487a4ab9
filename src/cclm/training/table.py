"""The live table of a training: a line a language, as many as the terminal has room for."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

HEADS = ("", "", "competence", "HRLs-evaluated", "share", "passes", "dev loss")
OTHER_LINES = 4
"""Lines of the terminal that languages cannot have: the step, the heads, how many more there are, the cursor."""


def language_table(
    told: Mapping[str, Any], passes: Mapping[str, float], *, threshold: float | None, height: int
) -> Table:
    """What the curriculum explains, a row a language; `passes` is how often each one's data has been seen."""
    admitted = told["weights"]
    shown = fitting(list(passes), told, max(1, height - OTHER_LINES))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", caption_justify="left")
    for head in HEADS:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for lang in shown:
        ready = told["hrls_competence"].get(lang)
        table.add_row(
            lang,
            "admitted" if lang in admitted else "waiting",
            _short(told["competence"].get(lang)),
            "" if ready is None or threshold is None else f"{_short(ready)}/{_short(threshold)}",
            f"{admitted.get(lang, 0):.1%}",
            f"{passes[lang]:.1f}",
            _short(told["dev_loss"].get(lang)),
            style="" if lang in admitted else "dim",
        )
    absent = [lang for lang in passes if lang not in shown]
    if absent:
        joined = sum(lang in admitted for lang in absent)
        table.caption = f"and {len(absent)} more: {joined} admitted, {len(absent) - joined} waiting"
    return table


def fitting(languages: Sequence[str], told: Mapping[str, Any], rows: int) -> list[str]:
    """The languages that have a row: where there are too many, those nearest to admission and those drawn most."""
    weights, ready = told["weights"], told["hrls_competence"]
    admitted = sorted((lang for lang in languages if lang in weights), key=lambda lang: -weights[lang])
    waiting = sorted((lang for lang in languages if lang not in weights), key=lambda lang: -ready.get(lang, 0.0))
    near = waiting[: max(rows // 2, rows - len(admitted))]
    chosen = {*near, *admitted[: rows - len(near)]}
    return [lang for lang in languages if lang in chosen]


def _short(value: float | None) -> str:
    """Two digits behind the point, and none before it where that is 0."""
    return "-" if value is None else f"{value:.2f}".removeprefix("0") if 0 <= value < 1 else f"{value:.2f}"
