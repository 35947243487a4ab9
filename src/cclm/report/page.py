"""The pages as HTML: Jinja2 templates with autoescape, one file each that needs nothing from outside.

A page that documents a run may be opened by anybody, and names of runs, languages and settings are chosen by users. So
every text is escaped by the template engine, and a Content-Security-Policy allows only the style and the script that
this package wrote, named by their hashes: nothing else could be loaded or executed even if an escape were missing.

The page of a run has a script of our own for its charts (45 KB, no dependency). A chart library would make every report
ten to a hundred times larger, or would have to be loaded from the network, which a page that is kept for years cannot
rely on. The script builds elements and text nodes only; it never parses markup.
"""

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from cclm.report.document import Document, Figure, Paragraph
from cclm.report.svg import STYLE

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
    return _render("run.html.j2", policy=policy, name=data["name"], graph=drawing, **trusted)


def document_page(document: Document) -> str:
    """A document as a page without a script."""
    style = asset("page.css") + asset("document.css")
    policy = f"{POLICY}style-src '{digest(style)}' '{digest(STYLE)}'"
    sizes = {"tall": TALL, "long": LONG}
    return _render("document.html.j2", policy=policy, style=Markup(style), document=document, **sizes)


def _render(template: str, **values: object) -> str:
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
