"""Run directories as the board meets them: running, interrupted, finished or failed, of few or of many languages."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from made_run import events, write_lines, write_run
from made_study import made_study, made_sweep

from cclm.formats.checkpoint import ALL_STEPS, Progress, folder_name
from cclm.formats.run import settings_text
from cclm.formats.study import StudyResults
from cclm.formats.sweep import Sweep
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.simulate import simulate
from cclm.simulate.scenario import Scenario, _thousand
from cclm.training.lock import Lock

HRLS, LRLS = ["tur", "rus", "por", "ces"], ["aze", "bel", "glg", "slk"]
EVERY = 100
"""Steps between two rounds of the simulation."""


def board_run(
    work: Path, name: str, *, scenario: str = "related", steps: int = 60_000, up_to: int | None = None
) -> Path:
    """A run of the simulation in WORK/runs/NAME, finished or, with `up_to`, interrupted after that step."""
    run = write_run(work / "runs" / name, scenario)
    describe(run, HRLS, LRLS, steps)
    if up_to is None:
        save(run, steps, "no better in 10 validations")
    else:
        interrupt(run, up_to)
    clock(run, up_to or steps)
    return run


def describe(run: Path, hrls: list[str], lrls: list[str], steps: int) -> None:
    """config.yaml as training writes it."""
    content = {
        "version": 1, "name": run.name, "work": str(run.parent.parent),
        "data": {"format": "tsv", "path": "text", "high_resource": hrls, "low_resource": lrls},
        "curriculum": {"gate": {"name": "competence", "aggregate": "avg", "threshold": 0.9}},
        "training": {"max_steps": steps},
    }  # fmt: skip
    recipe = check(Recipe, content, "made")
    (run / "config.yaml").write_text(settings_text(recipe.model_dump(mode="json")), encoding="utf-8")


def save(run: Path, step: int, finished: str | None = None) -> None:
    """The checkpoint of a step, as far as readers look at it."""
    folder = run / "checkpoints" / folder_name(step)
    folder.mkdir(parents=True, exist_ok=True)
    Progress(step=step, finished=finished, selected_step=step - step % 1000).write(folder / "progress.json")


def interrupt(run: Path, step: int) -> None:
    """Cuts the log back to a step, with a checkpoint at it."""
    lines = [line for line in log_lines(run) if json.loads(line)["step"] <= step]
    write_lines(run / "log.jsonl", lines)
    (run / "scores.json").unlink(missing_ok=True)
    save(run, step)


def log_lines(run: Path) -> list[str]:
    """The lines of the log."""
    return (run / "log.jsonl").read_text(encoding="utf-8").splitlines()


def append(run: Path, *lines: str | dict[str, Any]) -> None:
    """Writes to the end of the log, as training does."""
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        for line in lines:
            file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")


def clock(run: Path, steps: int) -> None:
    """timing.jsonl of one process that needs 0.1 s per step."""
    lines = [
        {"event": "train", "step": step, "seconds": step / 10, "tokens_per_second": 9000.0 + 40 * (step // 500 % 9)}
        for step in range(500, steps + 1, 500)
    ]
    write_lines(run / "timing.jsonl", [json.dumps(line) for line in lines])


@contextmanager
def running(run: Path) -> Iterator[None]:
    """While it lasts, this process trains the run: its lock says so."""
    with Lock(run):
        yield


def many_languages(run: Path, languages: int = 200, *, steps: int = 30_000) -> Path:
    """A run with very many languages in families, as the simulation sees it."""
    changes = {"max_steps": steps, "second_phase": steps - 2000}
    scenario = check(Scenario, {**_thousand(languages, languages // 20, languages // 10), **changes}, "made")
    outcome = simulate(scenario)
    run.mkdir(parents=True)
    write_lines(run / "log.jsonl", [json.dumps(event) for event in events(outcome)])
    (run / "graph.json").write_text(scenario.graph.to_json())
    describe(
        run,
        list(scenario.high_resource),
        [lang for lang in scenario.sizes if lang not in scenario.high_resource],
        steps,
    )
    save(run, steps, ALL_STEPS)
    clock(run, steps)
    return run


def board_study(work: Path, name: str = "phrasebook-study") -> Path:
    """The folder of a study, some of whose runs exist."""
    folder = work / "studies" / name
    folder.mkdir(parents=True)
    arms = ("proportional", "tau-5", "multidds-s", "ccl-m-max", "ccl-m-avg")
    results = made_study(name=name, arms=arms, failed=[("tau-5", 3)])
    StudyResults.check(results, "made").write(folder / "results.json")
    return folder


def board_sweep(work: Path, name: str = "phrasebook-sweep") -> Path:
    """The folder of a sweep."""
    folder = work / "sweeps" / name
    folder.mkdir(parents=True)
    Sweep.check(made_sweep(), "made").write(folder / "sweep.json")
    return folder
