"""Documents of paragraphs, tables and figures, rendered as Markdown or HTML; the HTML page of a run.

Pages are Jinja2 templates with autoescape. Each page is a single file that loads nothing from elsewhere.
"""

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

MAX_COLUMNS = 12
"""The number of columns that fit on a page; wider tables are transposed."""
DASH = "–"
"""Shown in place of a missing value."""
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~#&$@]")


@dataclass(frozen=True)
class Cell:
    """A cell of a table; `best` marks the best value of its column, `mark` is a footnote sign."""

    text: str
    best: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the columns in `text_columns` are left-aligned, the others hold numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    text_columns: Collection[int] = (0,)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `strong` emphasises it as a result."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Figure:
    """SVG drawings side by side, with a caption."""

    title: str
    drawings: Sequence[str]
    caption: str
    file: str
    """The name of the SVG file that Markdown links to."""


Block = Table | Paragraph | Figure


@dataclass(frozen=True)
class Section:
    """Blocks under a heading; `name` is the id of the section in the page."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A complete report; `kind` is the command that produced its data."""

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
    """A table of rows by columns, transposed if it has more columns than fit on a page."""
    (row_title, row_names), (column_title, column_names) = rows, columns
    if len(column_names) > max(MAX_COLUMNS, len(row_names)):
        transposed = [[Cell(name), *(cell(row, name) for row in row_names)] for name in column_names]
        return Table(caption, (column_title, *row_names), transposed, note)
    cells = [[Cell(row), *(cell(row, name) for name in column_names)] for row in row_names]
    return Table(caption, (row_title, *column_names), cells, note)


def as_markdown(document: Document, pictures: str | None = None) -> str:
    """The document as GitHub Markdown; figures are linked if `pictures` names their folder, otherwise omitted."""
    parts = [f"# {escape_markdown(document.title)}", escape_markdown(document.lead)]
    for section in document.sections:
        blocks = [part for block in section.blocks for part in _markdown_block(block, pictures)]
        parts += [f"## {escape_markdown(section.title)}", *blocks] if blocks else []
    return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """The text on one line, with the special characters of Markdown escaped."""
    line = " ".join(text.encode(errors="replace").decode().split())
    return _MARKDOWN.sub(lambda match: "&lt;" if match[0] == "<" else f"\\{match[0]}", line)


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
    yield _markdown_row("---" if i in table.text_columns else "---:" for i in range(len(table.head)))
    for row in table.rows:
        yield _markdown_row(map(_markdown_cell, row))


def _markdown_row(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    content = escape_markdown(cell.text)
    return (f"**{content}**" if cell.best else content) + escape_markdown(cell.mark)


def decimal(value: float | None, digits: int = 2) -> str:
    """The number with `digits` decimals."""
    return DASH if value is None else _format(value, f",.{digits}f")


def signed(value: float | None, digits: int = 2) -> str:
    """A difference, with its sign even if it is positive."""
    return DASH if value is None else _format(value, f"+,.{digits}f")


def _format(value: float, spec: str) -> str:
    """The formatted number; huge ones in scientific notation, as they may have hundreds of digits."""
    spec = spec if abs(value) < 1e15 else f"{'+' if spec[0] == '+' else ''}.3g"
    return f"{value:{spec}}".replace("-", "−")


def mean(values: Sequence[float]) -> float:
    """The mean; it is finite even if the sum of the values overflows."""
    try:
        return fmean(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def standard_deviation(values: Sequence[float]) -> float:
    """The sample standard deviation; it is finite even if the squares of the values overflow."""
    largest = max(map(abs, values))
    return stdev(values) if largest < 1e100 else stdev([value / largest for value in values]) * largest


def integer(value: float | None) -> str:
    """The number without decimals, with thousands separators."""
    return decimal(value, 0)


def abbreviated(value: float | None) -> str:
    """A count; from 10,000 on in thousands (k) or millions (M)."""
    if value is None or value < 10_000:
        return integer(value)
    return f"{value / 1e6:,.1f} M" if value >= 1e6 else f"{value / 1e3:,.0f} k"


def percent(share: float, digits: int = 0) -> str:
    """A share between 0 and 1 in percent, with a no-break space before the sign."""
    return f"{100 * share:.{digits}f}\u00a0%"


def interval(low: float | None, high: float | None) -> str:
    """The confidence interval of a difference, or a dash if there is none."""
    return DASH if low is None or high is None else f"{signed(low)} to {signed(high)}"


def p_value(p: float | None) -> str:
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def plural(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def name_seeds(seeds: Sequence[int]) -> str:
    """`seed 3`, `seeds 1 to 5`, `seeds 1, 4, 9`."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def with_deviation(average: float | None, values: Sequence[float], digits: int = 2) -> str:
    """A mean over seeds, with the standard deviation between seeds if there are several."""
    spread = f" ± {decimal(standard_deviation(values), digits)}" if average is not None and len(values) > 1 else ""
    return decimal(average, digits) + spread


def mark_best(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[bool]:
    """Which values are the best after rounding to the decimals shown. A single value is never marked."""
    rounded = [round(value, digits) for value in values if value is not None]
    best = (min if lowest else max)(rounded) if len(rounded) > 1 else None
    return [value is not None and round(value, digits) == best for value in values]


def number_column(values: Sequence[float | None], digits: int = 2, *, lowest: bool = False) -> list[Cell]:
    """A column of numbers, with the best value marked."""
    marks = mark_best(values, digits, lowest=lowest)
    return [Cell(decimal(value, digits), best=best) for value, best in zip(values, marks, strict=True)]


def decimals_for(values: Iterable[float]) -> int:
    """The number of decimals that shows four significant digits of the largest value, at most 6."""
    largest = max(map(abs, values), default=0.0)
    return min(6, max(0, 3 - math.floor(math.log10(largest)))) if largest else 1


SCRIPTS = ("elements.js", "chart.js", "crosshair.js", "curves.js", "graph.js", "player.js", "sections.js", "page.js")
SCROLL_ROWS = 40
"""Tables with more rows than this scroll below a fixed header."""
WRAP_LENGTH = 36
"""Table cells with more characters than this may wrap."""
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; "


def run_page(data: dict[str, Any], graph: str | None) -> str:  # the JSON of run_data.py
    """The page of a run, from the results of `run_data` and `run_graph`."""
    style, script = asset("page.css"), "".join(map(asset, SCRIPTS))
    policy = f"{POLICY}style-src '{csp_hash(style)}'; script-src '{csp_hash(script)}'"
    trusted = {"style": Markup(style), "script": Markup(script), "data": Markup(embed_json(data))}
    graph = None if graph is None else Markup(graph)
    return render("run.html.j2", policy=policy, name=data["name"], graph=graph, **trusted)


def document_page(document: Document) -> str:
    """A document as a page without scripts."""
    style = asset("page.css") + asset("document.css")
    policy = f"{POLICY}style-src '{csp_hash(style)}' '{csp_hash(STYLE)}'"
    sizes = {"scroll_rows": SCROLL_ROWS, "wrap_length": WRAP_LENGTH}
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
    """Replaces lone surrogates, which UTF-8 cannot encode, with question marks."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return value.encode(errors="replace").decode()


def embed_json(data: object) -> str:
    """JSON for a script element. `<` is escaped, so that no string can end the element."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def asset(name: str) -> str:
    """The text of a style sheet or script in `assets/`."""
    return (files("cclm.report") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def csp_hash(text: str) -> str:
    """The hash that allows an inline style or script in a Content-Security-Policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
