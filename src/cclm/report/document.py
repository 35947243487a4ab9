"""A document of paragraphs, tables and figures, as Markdown and as HTML; the run page as HTML.

Pages are Jinja2 templates with autoescape, one file each that needs nothing from outside."""

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from statistics import fmean, stdev
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cclm.report.svg import STYLE

WIDEST = 12
"""Columns that fit a page; a wider table is transposed."""
DASH = "–"
"""Stands for a missing value."""
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~#&$@]")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: `best` if it is the best of its column, `mark` the sign of a footnote."""

    text: str
    best: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Rows under a head; columns listed in `words` hold text, all others hold numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    words: Collection[int] = (0,)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a `strong` one states a result."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Figure:
    """SVG drawings side by side, with a caption."""

    title: str
    drawings: Sequence[str]
    caption: str
    file: str
    """The name of the picture that Markdown links to."""


Block = Table | Paragraph | Figure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; `name` is the id of the section in the page."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A complete report; `kind` is the command that made its data."""

    kind: str
    title: str
    lead: str
    sections: Sequence[Section]


def cross_table(
    caption: str,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    cell: Callable[[str, str], Cell],
    note: str = "",
) -> Table:
    """A table of rows by columns, transposed if there are more columns than fit a page."""
    (row_title, row_names), (column_title, column_names) = rows, columns
    if len(column_names) > max(WIDEST, len(row_names)):
        transposed = [[Cell(name), *(cell(row, name) for row in row_names)] for name in column_names]
        return Table(caption, (column_title, *row_names), transposed, note)
    cells = [[Cell(row), *(cell(row, name) for name in column_names)] for row in row_names]
    return Table(caption, (row_title, *column_names), cells, note)


def as_markdown(document: Document, pictures: str | None = None) -> str:
    """The document as GitHub Markdown; figures are linked if `pictures` names their folder, otherwise left out."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.lead)]
    for section in document.sections:
        blocks = [part for block in section.blocks for part in _markdown_block(block, pictures)]
        parts += [f"## {escape_markdown(section.title)}", *blocks] if blocks else []
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """The text on one line, with every character escaped that Markdown would interpret."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return _MARKDOWN.sub(lambda found: "&lt;" if found[0] == "<" else f"\\{found[0]}", line)


def _markdown_block(block: Block, pictures: str | None) -> Iterator[str]:
    if isinstance(block, Paragraph):
        yield f"**{escape_markdown(block.text)}**" if block.strong else escape_markdown(block.text)
    elif isinstance(block, Figure):
        if pictures is not None:
            yield f"![{escape_markdown(block.title)}]({pictures.rstrip('/')}/{block.file})"
            yield escape_markdown(block.caption)
    else:
        yield f"### {escape_markdown(block.caption)}"
        yield "\n".join(_markdown_rows(block))
        if block.note:
            yield escape_markdown(block.note)


def _markdown_rows(table: Table) -> Iterator[str]:
    yield _markdown_row(map(escape_markdown, table.head))
    yield _markdown_row("---" if i in table.words else "---:" for i in range(len(table.head)))
    for row in table.rows:
        yield _markdown_row(map(_markdown_cell, row))


def _markdown_row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    content = escape_markdown(cell.text)
    return (f"**{content}**" if cell.best else content) + escape_markdown(cell.mark)


def decimal(value: float | None, digits: int = 2) -> str:
    """The number with this many digits after the point."""
    return DASH if value is None else _format(value, f",.{digits}f")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference, always with its sign."""
    return DASH if value is None else _format(value, f"+,.{digits}f")


def _format(value: float, how: str) -> str:
    """The number as a page shows it; huge ones as a power of ten, or they would be hundreds of digits long."""
    how = how if abs(value) < 1e15 else f"{'+' if how[0] == '+' else ''}.3g"
    return f"{value:{how}}".replace("-", "−")


def mean(values: Sequence[float]) -> float:
    """The mean, finite even if the sum of the values is not."""
    try:
        return fmean(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation, even of values whose squares are too large."""
    largest = max(map(abs, values))
    return stdev(values) if largest < 1e100 else stdev([value / largest for value in values]) * largest


def whole(value: float | None) -> str:
    """The number without a fraction, with thousands separated."""
    return decimal(value, 0)


def large(value: float | None) -> str:
    """A large count in thousands or millions."""
    if value is None or value < 10_000:
        return whole(value)
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else f"{value / 1e3:,.0f} k"


def percent(share: float, digits: int = 0) -> str:
    """A share of 1 in percent, without a line break before the sign."""
    return f"{100 * share:.{digits}f}\u00a0%"


def interval(low: float | None, high: float | None) -> str:
    """A confidence interval of a difference; a dash if there is none."""
    return DASH if low is None or high is None else f"{signed(low)} to {signed(high)}"


def p_value(p: float | None) -> str:
    """A p-value to three digits."""
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def plural(number: int, noun: str) -> str:
    """The number and the noun, in the singular or the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def name_seeds(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 1 to 5`, `seeds 1, 4, 9`."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def with_deviation(average: float | None, values: Sequence[float], digits: int = 2) -> str:
    """A mean over seeds, with the standard deviation between seeds if there are several."""
    spread = f" ± {decimal(deviation(values), digits)}" if average is not None and len(values) > 1 else ""
    return decimal(average, digits) + spread


def best_of(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[bool]:
    """Which values are the best at the digits shown. A single value is not called the best."""
    rounded = [round(value, digits) for value in values if value is not None]
    best = (min if lowest else max)(rounded) if len(rounded) > 1 else None
    return [value is not None and round(value, digits) == best for value in values]


def number_column(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[Cell]:
    """A column of numbers with its best marked."""
    best = best_of(values, digits, lowest=lowest)
    return [Cell(decimal(value, digits), best=one) for value, one in zip(values, best, strict=True)]


def digits_of(values: Iterable[float]) -> int:
    """Digits after the point that show four digits of the largest number."""
    most = max(map(abs, values), default=0.0)
    return min(6, max(0, 3 - math.floor(math.log10(most)))) if most else 1


SCRIPTS = ("elements.js", "chart.js", "reading.js", "curves.js", "graph.js", "player.js", "text.js", "page.js")
TALL = 40
"""Rows above which a table scrolls under its head."""
LONG = 36
"""Characters above which a text in a table may wrap."""
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; "


def run_page(data: dict[str, Any], graph: str | None) -> str:  # JSON, on its way into the page's script
    """The page of a run, from what `run_data` and `graph_figure` return."""
    style, script = asset("page.css"), "".join(map(asset, SCRIPTS))
    policy = f"{POLICY}style-src '{digest(style)}'; script-src '{digest(script)}'"
    trusted = {"style": Markup(style), "script": Markup(script), "data": Markup(embed(data))}
    drawing = None if graph is None else Markup(graph)
    return render("run.html.j2", policy=policy, name=data["name"], graph=drawing, **trusted)


def document_page(document: Document) -> str:
    """A document as a page without a script."""
    style = asset("page.css") + asset("document.css")
    policy = f"{POLICY}style-src '{digest(style)}' '{digest(STYLE)}'"
    sizes = {"tall": TALL, "long": LONG}
    return render("document.html.j2", policy=policy, style=Markup(style), document=document, **sizes)


def render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("cclm.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=_encodable,
    )
    environment.tests["paragraph"] = lambda block: isinstance(block, Paragraph)
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    return environment


def _encodable(value: object) -> object:
    """Replaces lone surrogates, which have no bytes in UTF-8, with question marks."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return value.encode(errors="replace").decode()


def embed(data: object) -> str:
    """JSON that can stand in a script element: without `<`, nothing in it can end the element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def asset(name: str) -> str:
    """The text of a style sheet or script of this package."""
    return (files("cclm.report") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def digest(text: str) -> str:
    """The hash by which a Content-Security-Policy names an inline style or script."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
