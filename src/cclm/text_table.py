"""Tables for the terminal, all in one style: no lines, bold heads, numbers to the right."""

from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text


def text_table(
    heads: Sequence[str], *, left: Collection[str] = ("",), title: str | None = None, wrap: bool = True
) -> Table:
    """An empty table with these heads; columns whose head is in `left` hold words and are aligned to the left."""
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="bold",
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
    )
    for head in heads:
        table.add_column(Text(head), justify="left" if head in left else "right", no_wrap=not wrap)
    return table
