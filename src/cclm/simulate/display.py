"""Prints a simulation: competence, admissions and sampling weights of each language over the steps."""

import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from ruamel.yaml import YAML

from cclm.atomic import user_output
from cclm.simulate.run import THRESHOLDS, Outcome, Round, compare_thresholds, simulate
from cclm.simulate.scenario import Scenario, load_scenario
from cclm.text_table import text_table

FEW = 12
"""With at most this many languages, each language has a column."""
ROWS = 14
"""The number of rounds shown, in addition to those with an admission."""


class SimulationView:
    """The output of `cclm simulate`; `others` are the outcomes at other thresholds."""

    def __init__(self, scenario: Scenario, outcome: Outcome, others: dict[float, Outcome]) -> None:
        self._scenario, self._outcome, self._others = scenario, outcome, others

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        few = len(self._scenario.sizes) <= FEW
        yield Text(_title(self._scenario), style="bold")
        yield Text("Learning curves are assumed; no model is trained.\n", style="dim")
        yield self._rounds() if few else self._summary()
        yield self._admissions(few)
        if self._others:
            yield self._thresholds(few)

    def _rounds(self) -> RenderableType:
        table = text_table(["step"])
        for lang in self._scenario.sizes:
            table.add_column(lang, justify="right", style="cyan" if lang in self._scenario.high_resource else "")
        for record, admitted in _shown(self._outcome.rounds):
            cells = [_cell(lang, record, lang in admitted) for lang in self._scenario.sizes]
            table.add_row(f"{record['step']:,}", *cells)
        legend = "competence (1: bitext model), share of draws; (HRLs-evaluated) if not admitted\n"
        return Group(table, Text(legend, style="dim"))

    def _summary(self) -> RenderableType:
        table = text_table(("step", "admitted", "", "worst", "median", "best", "draws on LRLs"), left=(), wrap=False)
        total = len(self._scenario.sizes)
        for record in _evenly_spaced(self._outcome.rounds, ROWS):
            competence = sorted(record["competence"][lang] for lang in record["admitted"]) if record["round"] else [0.0]
            on_lrls = sum(record["weights"].get(lrl, 0.0) for lrl in self._scenario.low_resource)
            table.add_row(
                f"{record['step']:,}",
                f"{len(record['admitted']):,}",
                Text(_bar(len(record["admitted"]) / total), style="green"),
                *(f"{competence[int(q * (len(competence) - 1))]:.2f}" for q in (0.0, 0.5, 1.0)),
                f"{on_lrls:.0%}",
            )
        return Group(table, Text("worst, median, best: competence of the admitted languages\n", style="dim"))

    def _admissions(self, few: bool) -> RenderableType:
        admitted = [(lang, facts) for lang, facts in self._outcome.admissions.items() if facts["step"] > 0]
        shown = admitted if few else admitted[:3]
        lines = Table.grid(padding=(0, 1))
        for lang, facts in shown:
            name = Text(lang, style="bold green")
            lines.add_row(f"step {facts['step']:,}", name, Text(f"admitted: {facts['reason']}", style="dim"))
        notes = Text()
        if len(shown) < len(admitted):
            notes.append(f"... and {len(admitted) - len(shown):,} more (--json prints all)\n", style="dim")
        waiting = self._outcome.rounds[-1]["waiting"]
        if waiting:
            more = " ..." if len(waiting) > FEW else ""
            notes.append(f"never admitted: {', '.join(waiting[:FEW])}{more}\n", style="red")
        return Group(lines, notes)

    def _thresholds(self, few: bool) -> RenderableType:
        gate = self._scenario.curriculum.gate
        title = f"Step of admission at other thresholds ({getattr(gate, 'aggregate', '')})"
        lrls = list(self._scenario.low_resource)
        heads = lrls if few else ["first", "a quarter", "half", "all"]
        table = text_table(["threshold", *heads, "draws on LRLs"], title=title)
        for threshold, outcome in self._others.items():
            on_lrls = sum(outcome.steps_on[lrl] for lrl in lrls) / sum(outcome.steps_on.values())
            mark = "bold" if threshold == getattr(gate, "threshold", None) else ""
            cells = [_admission_step(outcome, lrl) for lrl in lrls] if few else _quantiles(outcome, lrls)
            table.add_row(f"{threshold}", *cells, f"{on_lrls:.1%}", style=mark)
        note = "* threshold not reached: admitted at the start of the second phase"
        starred = any(_admission_step(outcome, lrl).endswith("*") for outcome in self._others.values() for lrl in lrls)
        return Group(table, Text(note if starred else "", style="dim"))


def _title(scenario: Scenario) -> str:
    gate, sampler = scenario.curriculum.gate, scenario.curriculum.sampler
    of_gate = _listed(gate.model_dump(exclude={"name"}))
    of_sampler = _listed(sampler.model_dump(exclude={"name"}, exclude_defaults=True))
    return f"{scenario.name}\ngate: {gate.name}{of_gate}  sampler: {sampler.name}{of_sampler}"


def _listed(settings: Mapping[str, object]) -> str:
    return "".join(f" {name}={value}" for name, value in settings.items())


def _cell(lang: str, record: Round, new: bool) -> Text:
    if lang in record["weights"]:
        competence = _short(record["competence"].get(lang))
        return Text(f"{competence} {record['weights'][lang]:>3.0%}", style="bold green" if new else "")
    return Text(f"({_short(record['hrls_competence'].get(lang))})", style="dim")


def _short(competence: float | None) -> str:
    """At most three characters, so that eight languages fit into 80 columns: .84, 1.3, 13."""
    if competence is None:
        return "-"
    if competence < 0.995:
        return f"{competence:.2f}"[1:]
    return f"{competence:.1f}" if competence < 9.95 else f"{competence:.0f}"


def _shown(rounds: list[Round]) -> Iterator[tuple[Round, set[str]]]:
    """Evenly spaced rounds and those with an admission, each with the languages it admitted."""
    chosen = {record["step"] for record in _evenly_spaced(rounds, ROWS)}
    before = set(rounds[0]["admitted"])
    for record in rounds:
        admitted = set(record["admitted"]) - before
        before |= admitted
        if admitted or record["step"] in chosen:
            yield record, admitted


def _evenly_spaced(rounds: list[Round], count: int) -> list[Round]:
    last = len(rounds) - 1
    indices = {round(i * last / (count - 1)) for i in range(count)}
    return [rounds[index] for index in sorted(indices)]


def _bar(share: float, width: int = 16) -> str:
    return "█" * round(share * width) + "░" * (width - round(share * width))


def _admission_step(outcome: Outcome, lrl: str) -> str:
    facts = outcome.admissions.get(lrl)
    if facts is None:
        return "never"
    return f"{facts['step']:,}" + ("" if "hrls_competence" in facts else "*")


def _quantiles(outcome: Outcome, lrls: Sequence[str]) -> list[str]:
    """The steps at which the first LRL, a quarter, half and all of them were admitted."""
    admitted = sorted(
        (outcome.admissions[lrl]["step"], "hrls_competence" not in outcome.admissions[lrl])
        for lrl in lrls
        if lrl in outcome.admissions
    )
    cells = []
    for share in (0.0, 0.25, 0.5, 1.0):
        index = int(share * (len(lrls) - 1))
        step, second_phase = admitted[index] if index < len(admitted) else (None, False)
        cells.append("never" if step is None else f"{step:,}" + ("*" if second_phase else ""))
    return cells


Output = Literal["text", "json", "yaml"]


def run(name: str, changes: Sequence[str], *, output: Output, compare: bool, svg: Path | None = None) -> None:
    """Runs a simulation and prints it; with output "yaml", prints the scenario for editing instead.

    The file `svg`, if given, gets the same output as a picture.
    """
    scenario = load_scenario(name, changes)
    if output == "yaml":
        _print_yaml(scenario.model_dump(mode="json", exclude_none=True))
        return
    outcome, others = _simulate_with_progress(scenario, compare)
    if output == "json":
        print(json.dumps(_as_json(scenario, outcome, others), allow_nan=False))
    else:
        view = SimulationView(scenario, outcome, others)
        Console().print(view)
        if svg is not None:
            with user_output(svg) as file:
                file.write(_picture(view, scenario.name).encode())


def _print_yaml(content: dict[str, object]) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 100
    yaml.dump(content, sys.stdout)


def _picture(view: SimulationView, title: str) -> str:
    console = Console(record=True, width=82, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view)
    picture = console.export_svg(title=title, unique_id="cclm")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)  # fonts would be loaded from the web


def _simulate_with_progress(scenario: Scenario, compare: bool) -> tuple[Outcome, dict[float, Outcome]]:
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
