"""A document as one HTML page that needs nothing but itself, and runs nothing."""

from collections.abc import Iterator
from html import escape

from cclm.report.document import Block, Cell, Document, Figure, Section, Table, Words
from cclm.report.figure import STYLE
from cclm.report.page import asset, digest

TALL = 40
"""Rows from which a table scrolls under its head."""
LONG = 36
"""Letters up to which words in a table stay on one line."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def as_page(document: Document) -> str:
    """The page; it has no script, and nothing may load or act."""
    style = asset("page.css") + asset("document.css")
    allowed = f"'{digest(style)}' '{digest(STYLE)}'"
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src {allowed}"
    content = "\n".join([_header(document), *map(_section, document.sections)])
    title = _plain(f"{document.title} · cclm")
    return PAGE.format(policy=policy, title=title, style=style, content=content)


def _header(document: Document) -> str:
    lines = [f'<p class="kicker">{_plain(document.kicker)}</p>', f"<h1>{_plain(document.title)}</h1>"]
    return "\n".join(["<header>", *lines, f'<p class="lead">{_plain(document.lead)}</p>', "</header>"])


def _section(section: Section) -> str:
    title = f'<h2 id="{section.name}-title">{_plain(section.title)}</h2>'
    blocks = [line for block in section.blocks for line in _block(block)]
    opening = f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
    return "\n".join([opening, title, *blocks, "</section>"])


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Words):
        yield f'<p class="claim">{_plain(block.text)}</p>' if block.strong else f"<p>{_plain(block.text)}</p>"
    elif isinstance(block, Figure):
        drawings = "".join(f'<div class="wide">{drawing}</div>' for drawing in block.drawings)
        yield f'<figure><div class="drawings">{drawings}</div><figcaption>{_plain(block.caption)}</figcaption></figure>'
    else:
        yield from _table(block)


def _table(table: Table) -> Iterator[str]:
    caption = _plain(table.caption)
    yield f'<div class="tabled"><h3>{caption}</h3>'
    size = "wide tall" if len(table.rows) > TALL else "wide"
    yield f'<div class="{size}" tabindex="0" role="region" aria-label="{caption}"><table>'
    heads = "".join(f'<th scope="col"{_kind(table, i)}>{_plain(head)}</th>' for i, head in enumerate(table.head))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for name, *cells in table.rows:
        row = "".join(f"<td{_kind(table, i, cell)}>{_content(cell)}</td>" for i, cell in enumerate(cells, 1))
        yield f'<tr><th scope="row"{_kind(table, 0, name)}>{_content(name)}</th>{row}</tr>'
    yield "</tbody></table></div>"
    if table.note:
        yield f'<p class="quiet">{_plain(table.note)}</p>'
    yield "</div>"


def _kind(table: Table, column: int, cell: Cell | None = None) -> str:
    classes = ["words" if column in table.words else "number"]
    if cell and cell.best:
        classes.append("strong")
    if cell and column in table.words and len(cell.text) > LONG:
        classes.append("long")
    return f' class="{" ".join(classes)}"'


def _content(cell: Cell) -> str:
    return _plain(cell.text) + (f"<sup>{_plain(cell.mark)}</sup>" if cell.mark else "")


def _plain(text: str) -> str:
    """Text of the user's, escaped; half a surrogate pair has no bytes and becomes a question mark."""
    return escape(text.encode(errors="replace").decode())
