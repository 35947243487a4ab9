"""The files that `cclm report DIR` writes: a page for a run; a page, Markdown and a figure for a study or sweep."""

from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.formats.run import trained_seconds
from cclm.formats.study import StudyResults
from cclm.formats.sweep import Sweep
from cclm.report.document import run_page
from cclm.report.run import read_run
from cclm.report.run_data import run_data, run_graph
from cclm.report.study_claims import forest_plot
from cclm.report.study_page import study_markdown, study_page
from cclm.report.study_scores import Study
from cclm.report.sweep import figure_2, sweep_markdown, sweep_page


def is_study(folder: Path) -> bool:
    """Whether the folder contains the results of a study."""
    return (folder / "results.json").exists()


def is_sweep(folder: Path) -> bool:
    """Whether the folder contains the results of a sweep."""
    return (folder / "sweep.json").exists()


def write_study(folder: Path) -> Path:
    """Writes report.html, report.md and forest.svg of a study, and returns the path of the page."""
    results = StudyResults.read(folder / "results.json")
    seconds = _training_seconds(folder, results)
    write_if_changed(folder / "forest.svg", forest_plot(Study(results)))
    write_if_changed(folder / "report.md", study_markdown(results, seconds=seconds, pictures="."))
    write_if_changed(folder / "report.html", study_page(results, seconds=seconds))
    return folder / "report.html"


def write_sweep(folder: Path) -> Path:
    """Writes report.html, report.md and figure-2.svg of a sweep, and returns the path of the page."""
    sweep = Sweep.read(folder / "sweep.json")
    write_if_changed(folder / "figure-2.svg", figure_2(sweep))
    write_if_changed(folder / "report.md", sweep_markdown(sweep, pictures="."))
    write_if_changed(folder / "report.html", sweep_page(sweep))
    return folder / "report.html"


def _training_seconds(folder: Path, results: StudyResults) -> dict[str, float]:
    """The training time of each run, summed over its sessions; runs without timing.jsonl are omitted."""
    work = folder.parent.parent
    seconds: dict[str, float] = {}
    for run in (trial.run for trial in results.trials):
        # The bitext system is a folder of runs, one per language.
        files = sorted((work / run).glob("timing.jsonl")) or sorted((work / run).glob("*/timing.jsonl"))
        if files:
            seconds[run] = sum(map(trained_seconds, files))
    return seconds


def run_report(run: Path) -> Path:
    """Writes report.html of a run, and returns its path."""
    path = run / "report.html"
    write_if_changed(path, _run_page(run))
    return path


def reported(run: Path) -> Path | None:
    """The page of a run, if it exists and is up to date."""
    path = run / "report.html"
    return path if path.is_file() and path.read_bytes() == _run_page(run).encode() else None


def _run_page(folder: Path) -> str:
    run = read_run(folder)
    data = run_data(run)
    return run_page(data, run_graph(run, data))
