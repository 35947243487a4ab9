"""The scores of a run as a table on the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def print_scores(scores: dict[str, Any]) -> None:
    """The scores as a table."""
    rows, scorers = scores["languages"], scores["signature"].get("scorers", {})
    off_target = any("off_target" in row for row in rows.values())
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("", "BLEU", "95 %", "chrF", *(["off-target"] if off_target else []), *scorers):
        table.add_column(head, justify="right" if head else "left")
    for name, row in rows.items():
        interval = f"{row['bleu_low']:.1f}-{row['bleu_high']:.1f}"
        cells = [_off_target(row)] if off_target else []
        cells += [f"{row[scorer]:.4g}" for scorer in scorers]
        table.add_row(name, f"{row['bleu']:.1f}", interval, f"{row['chrf']:.1f}", *cells)
    for name, value in scores["means"].items():
        table.add_row(name, "-" if value is None else f"{value:.1f}", style="dim")
    console = Console()
    console.print(table)
    if off_target:
        console.print("off-target: identified as another language; in brackets, that of the references", style="dim")


def _off_target(row: Mapping[str, float]) -> str:
    shares = [row.get(key) for key in ("off_target", "off_target_references")]
    translations, references = ("-" if share is None else f"{share:.1%}" for share in shares)
    return f"{translations} ({references})"
