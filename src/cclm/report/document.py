"""A report as words, tables and figures, before it becomes HTML or Markdown."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

WIDEST = 12
"""Columns up to which a table is read across; what has more goes down the page."""


@dataclass(frozen=True)
class Cell:
    """What stands in a table; `best` where it is the best of its column, `mark` the sign of a note."""

    text: str
    best: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a head; the columns in `words` are text, all others numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    words: Collection[int] = (0,)


@dataclass(frozen=True)
class Words:
    """A paragraph; a `strong` one carries the result."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Figure:
    """Drawings beside one another, and what can be seen in them."""

    title: str
    drawings: Sequence[str]
    caption: str
    file: str
    """What a document that cannot hold the drawings calls the picture."""


Block = Table | Words | Figure


@dataclass(frozen=True)
class Section:
    """A part of the document under a heading."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """The whole of it."""

    kicker: str
    title: str
    lead: str
    sections: Sequence[Section]


def crossed(
    caption: str,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    cell: Callable[[str, str], Cell],
    note: str = "",
) -> Table:
    """A table of rows by columns, turned round where there are more columns than a page is wide."""
    (what, down), (_, across) = rows, columns
    if len(across) > max(WIDEST, len(down)):
        turned = [[Cell(name), *(cell(row, name) for row in down)] for name in across]
        return Table(caption, (columns[0], *down), turned, note)
    return Table(caption, (what, *across), [[Cell(row), *(cell(row, name) for name in across)] for row in down], note)
