"""The pages of studies and sweeps, from the files that they leave: HTML, Markdown, and the figures by themselves."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.errors import ConfigError
from cclm.report.forest import forest
from cclm.report.page import run_page
from cclm.report.run_data import run_data
from cclm.report.run_files import read_run
from cclm.report.study import Study
from cclm.report.study_files import read_study, read_sweep
from cclm.report.study_page import study_markdown, study_page
from cclm.report.sweep_figure import figure_2
from cclm.report.sweep_page import sweep_markdown, sweep_page


def is_study(folder: Path) -> bool:
    """Whether a study has left its results here."""
    return (folder / "results.json").exists()


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has."""
    return (folder / "sweep.json").exists()


def write_study(folder: Path) -> Path:
    """The page of a study, with its Markdown and its forest plot beside it; gives the page."""
    results = _read(read_study, folder)
    seconds = _seconds(folder, results)
    write_if_changed(folder / "forest.svg", forest(Study(results)))
    write_if_changed(folder / "report.md", study_markdown(results, seconds=seconds, pictures="."))
    write_if_changed(folder / "report.html", study_page(results, seconds=seconds))
    return folder / "report.html"


def write_sweep(folder: Path) -> Path:
    """The page of a sweep, with its Markdown and its figure beside it; gives the page."""
    found = _read(read_sweep, folder)
    write_if_changed(folder / "figure-2.svg", figure_2(found))
    write_if_changed(folder / "report.md", sweep_markdown(found, pictures="."))
    write_if_changed(folder / "report.html", sweep_page(found))
    return folder / "report.html"


def _read(read: Any, folder: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = read(folder)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return content


def _seconds(folder: Path, results: Mapping[str, Any]) -> dict[str, float]:
    """How long each trial was trained for, all its sittings together; what has no clock any more is left out."""
    work = folder.parent.parent
    found: dict[str, float] = {}
    for run in (trial["run"] for trial in results["trials"]):
        clocks = sorted((work / run).glob("timing.jsonl")) or sorted((work / run).glob("*/timing.jsonl"))
        if clocks:
            found[run] = sum(map(_spent, clocks))
    return found


def _spent(timing: Path) -> float:
    """Every sitting counts from zero: the last reading of each is what it took."""
    total = last = 0.0
    for line in timing.read_text(encoding="utf-8").splitlines():
        seconds = float(json.loads(line)["seconds"])
        total += last if seconds < last else 0.0
        last = seconds
    return total + last


def run_report(run: Path) -> Path:
    """Writes the page of a run."""
    path = run / "report.html"
    write_if_changed(path, _page(run))
    return path


def reported(run: Path) -> Path | None:
    """The page of a run, if it is there and says what is so now."""
    path = run / "report.html"
    return path if path.is_file() and path.read_bytes() == _page(run).encode() else None


def _page(run: Path) -> str:
    try:
        return run_page(run_data(read_run(run)))
    except ValueError as error:
        raise ConfigError(str(error)) from None
