"""`cclm simulate`: loads the scenario, runs it with a progress bar, prints what came of it."""

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import Progress
from ruamel.yaml import YAML

from cclm.simulate.display import SimulationView
from cclm.simulate.run import THRESHOLDS, Outcome, compare_thresholds, simulate
from cclm.simulate.scenario import Scenario, load_scenario

Output = Literal["text", "json", "yaml"]


def run(name: str, changes: Sequence[str], *, output: Output, compare: bool, svg: Path | None = None) -> None:
    """Simulates and prints; with "yaml" it prints the scenario itself, to be edited. `svg` gets a picture of it."""
    scenario = load_scenario(name, changes)
    if output == "yaml":
        _print_yaml(scenario.model_dump(mode="json", exclude_none=True))
        return
    outcome, others = _simulated(scenario, compare)
    if output == "json":
        print(json.dumps(_as_json(scenario, outcome, others), allow_nan=False))
    else:
        view = SimulationView(scenario, outcome, others)
        Console().print(view)
        if svg is not None:
            svg.write_text(_picture(view, scenario.name), encoding="utf-8")


def _print_yaml(content: dict[str, object]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 100
    yaml.dump(content, sys.stdout)


def _picture(view: SimulationView, title: str) -> str:
    console = Console(record=True, width=82, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view)
    picture = console.export_svg(title=title, unique_id="cclm")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # nothing is to be fetched from elsewhere


def _simulated(scenario: Scenario, compare: bool) -> tuple[Outcome, dict[float, Outcome]]:
    runs = 1 + (len(THRESHOLDS) if compare and scenario.curriculum.gate.name == "competence" else 0)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("simulating", total=runs * scenario.max_steps)

        def advance(_: int) -> None:
            progress.advance(task, scenario.curriculum.every)

        outcome = simulate(scenario, advance)
        others = compare_thresholds(scenario, THRESHOLDS, advance) if compare else {}
    return outcome, others


def _as_json(scenario: Scenario, outcome: Outcome, others: dict[float, Outcome]) -> dict[str, object]:
    return {
        "version": 1,
        "scenario": scenario.model_dump(mode="json"),
        "rounds": outcome.rounds,
        "steps_on": outcome.steps_on,
        "thresholds": {
            f"{threshold:g}": {lang: facts["step"] for lang, facts in other.admissions.items()}
            for threshold, other in others.items()
        },
    }
