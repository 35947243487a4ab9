"""The report of a run: one HTML page that needs nothing but itself."""

import json
import os
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from cclm.report.run_data import run_data
from cclm.report.run_files import read_run

SCRIPTS = ("elements.js", "chart.js", "reading.js", "curves.js", "graph.js", "player.js", "text.js", "page.js")

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
<main id="page"><noscript>This report draws itself with JavaScript, which is switched off here.</noscript></main>
<script type="application/json" id="run-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def write_report(run: Path, out: Path | None = None) -> Path:
    """Writes the page of a run, by default as report.html in its folder, and gives its path."""
    page = run_page(run_data(read_run(run)))
    out = run / "report.html" if out is None else out
    if not out.parent.is_dir():
        raise ValueError(f"no folder {out.parent} to write {out.name} into: make it first")
    partial = out.with_name(f".{out.name}.partial")
    partial.write_text(page, encoding="utf-8", newline="\n")
    os.replace(partial, out)  # whoever has the page open never reads half of one
    return out


def run_page(data: dict[str, Any]) -> str:
    """The page around the object that `run_data` gives."""
    style, script = asset("page.css"), "".join(map(asset, SCRIPTS))
    # Nothing may load and only these two texts may act: what a run's files smuggled in could do nothing.
    policy = "default-src 'none'; base-uri 'none'; form-action 'none'; "
    policy += f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    title = f"{data['name']} · cclm".encode(errors="replace").decode()
    return PAGE.format(policy=policy, title=escape(title), style=style, data=embedded(data), script=script)


def embedded(data: Any) -> str:
    """JSON that can stand in a script element: no `<`, hence no end of the element before its end."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def asset(name: str) -> str:
    """The text of a file that comes with the package."""
    return (files("cclm.report") / "assets" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def digest(text: str) -> str:
    """What a policy calls a text that may act."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
