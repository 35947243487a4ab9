"""A document as Markdown of the kind that GitHub shows."""

import re
from collections.abc import Iterator

from cclm.report.document import Block, Cell, Document, Figure, Table, Words

_SPECIAL = re.compile(r"[\\`*_\[\]<>|~#&$@]")


def as_markdown(document: Document, pictures: str | None = None) -> str:
    """The text; drawings are linked where `pictures` names their folder, else left out."""
    parts = [f"# {plain(document.title)}", plain(document.lead)]
    for section in document.sections:
        blocks = [part for block in section.blocks for part in _block(block, pictures)]
        parts += [f"## {plain(section.title)}", *blocks] if blocks else []
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text of the user's: one line, nothing in it read as markup."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return _SPECIAL.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", line)


def _block(block: Block, pictures: str | None) -> Iterator[str]:
    if isinstance(block, Words):
        yield f"**{plain(block.text)}**" if block.strong else plain(block.text)
    elif isinstance(block, Figure):
        if pictures is not None:
            yield f"![{plain(block.title)}]({pictures.rstrip('/')}/{block.file})"
            yield plain(block.caption)
    else:
        yield f"### {plain(block.caption)}"
        yield "\n".join(_rows(block))
        if block.note:
            yield plain(block.note)


def _rows(table: Table) -> Iterator[str]:
    yield _row(map(plain, table.head))
    yield _row("---" if i in table.words else "---:" for i in range(len(table.head)))
    for row in table.rows:
        yield _row(map(_cell, row))


def _row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    content = plain(cell.text)
    return (f"**{content}**" if cell.best else content) + plain(cell.mark)
