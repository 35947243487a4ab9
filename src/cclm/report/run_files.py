"""A run directory as it lies on disk: its log, its languages, its scores and translations, read and checked."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cclm.curriculum import LanguageGraph
from cclm.curriculum.languages import is_number

VERSION = 1
SENTENCES = 3
"""Translations of each language that are shown."""
MOST_OTHERS = 4
"""Other systems beside this one in the table of scores."""
WITHOUT = "mend the file, or remove it: the report does without"
TABLES = ("dev_loss", "competence", "hrls_competence", "weights", "tokens", "vouched", "nll")
"""What an event says of each language, in numbers."""


@dataclass(frozen=True)
class Passage:
    """A few sentences of one direction: each a source, a translation and a reference, where there is one."""

    split: str
    source: str
    target: str
    sentences: list[dict[str, str | None]]


@dataclass(frozen=True)
class RunFiles:
    """Everything in a run directory that a report speaks of; what is not there is empty or None."""

    name: str
    config: str
    environment: dict[str, Any]
    events: list[dict[str, Any]]
    graph: LanguageGraph | None
    benchmark: dict[str, float]
    scores: dict[str, Any] | None
    others: dict[str, dict[str, Any]]
    """Scores of the other systems of the same work folder, the bitext models first; of equal signature alone."""
    passages: list[Passage]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind, in order."""
        return [event for event in self.events if event["event"] == kind]


def read_run(run: Path) -> RunFiles:
    """The files of the run in this folder."""
    log = run / "log.jsonl"
    if not log.is_file():
        raise ValueError(f"no run here: {run} has no log.jsonl; give the folder of a run, <work>/runs/<name>")
    config, scores = run / "config.yaml", run / "scores.json"
    return RunFiles(
        name=run.resolve().name,
        config=config.read_text(encoding="utf-8", errors="replace") if config.is_file() else "",
        environment=_object(run / "environment.json"),
        events=list(_events(log)),
        graph=_graph(_shared(run, "graph.json")),
        benchmark=_benchmark(_shared(run, "benchmark.json")),
        scores=_scores(scores) if scores.is_file() else None,
        others=_others(run.resolve(), scores),
        passages=list(_passages(run / "translations")),
    )


def _shared(run: Path, name: str) -> Path:
    """The run's own copy of a file, else the one that all runs of the recipe share."""
    own = run / name
    return own if own.is_file() else run.resolve().parent.parent / name


def _events(log: Path) -> Iterator[dict[str, Any]]:
    """Every event; a last line that was torn while being written is passed over."""
    lines = [(number, line) for number, line in enumerate(log.read_bytes().split(b"\n"), 1) if line.strip()]
    for number, line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == lines[-1][0]:
                return
            raise ValueError(f"{log} line {number}: not JSON: {error}; resume the run from its checkpoint") from None
        _check_event(event, f"{log} line {number}")
        yield event


def _check_event(event: Any, place: str) -> None:
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError(f"{place}: not an event; every line is an object with 'event' and 'step'")
    step = event.get("step")
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"{place}: step of this {event['event']} event is {step!r}; a whole number is needed")
    for name in TABLES:
        if isinstance(event.get(name), dict):
            _check_numbers(event[name], f"{place}: {name}")
    if event["event"] == "admitted" and not isinstance(event.get("language"), str):
        raise ValueError(f"{place}: this admission names no language")


def _check_numbers(table: Mapping[str, Any], place: str) -> None:
    for lang, value in table.items():
        if value is not None and not is_number(value):
            raise ValueError(f"{place} of {lang} is {value!r}; a number is needed")


def _object(path: Path) -> dict[str, Any]:
    """The JSON object in a file that may be absent."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}; {WITHOUT}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object, got {type(content).__name__}; {WITHOUT}")
    return content


def _graph(path: Path) -> LanguageGraph | None:
    content = _object(path)
    try:
        return LanguageGraph.from_dict(content) if content else None
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {error}; {WITHOUT}") from None


def _benchmark(path: Path) -> dict[str, float]:
    losses = _object(path).get("losses", {})
    if not isinstance(losses, dict):
        raise ValueError(f"{path}: losses: expected an object, got {type(losses).__name__}; {WITHOUT}")
    _check_numbers(losses, f"{path}: loss")
    return losses


def _scores(path: Path) -> dict[str, Any]:
    content = _object(path)
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: version {content.get('version')!r}; this program reads {VERSION}")
    for part in ("signature", "languages", "means"):
        if not isinstance(content.setdefault(part, {}), dict):
            raise ValueError(f"{path}: {part}: expected an object; {WITHOUT}")
    for lang, row in content["languages"].items():
        if not isinstance(row, dict):
            raise ValueError(f"{path}: scores of {lang}: expected an object; {WITHOUT}")
        _check_numbers(row, f"{path}: {lang}: score")
    _check_numbers(content["means"], f"{path}: mean")
    return content


def _others(run: Path, own: Path) -> dict[str, dict[str, Any]]:
    """What other runs beside this one scored, as far as the numbers can be compared."""
    if not own.is_file():
        return {}
    signature = _comparable(_scores(own))
    beside = sorted(run.parent.glob("*/scores.json"), key=lambda path: (path.parent.name != "bitext", path))
    found = {path.parent.name: _scores(path) for path in beside if path.parent != run}
    alike = {name: scores for name, scores in found.items() if _comparable(scores) == signature}
    return dict(list(alike.items())[:MOST_OTHERS])


def _comparable(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The signature but for the checkpoint and for scores that not every run has: metrics, test set, beam."""
    own = ("checkpoint", "off_target", "scorers")
    return {name: value for name, value in scores["signature"].items() if name not in own}


def _passages(folder: Path) -> Iterator[Passage]:
    """A passage a direction, of the test set where it was translated."""
    found: dict[tuple[str, str], Passage] = {}
    for path in sorted(folder.glob("*.*-*.txt")):
        if path.name.endswith((".source.txt", ".reference.txt")):
            continue
        split, _, direction = path.stem.partition(".")
        source, _, target = direction.partition("-")
        if (source, target) not in found or split == "test":
            found[source, target] = Passage(split, source, target, _sentences(path))
    yield from found.values()


def _sentences(path: Path) -> list[dict[str, str | None]]:
    """A few sentences spread evenly over the file: its beginning is no fair sample."""
    translations = _lines(path)
    columns = {"translation": translations}
    for kind in ("source", "reference"):
        sibling = path.with_name(f"{path.stem}.{kind}.txt")
        if not sibling.is_file():
            continue
        columns[kind] = _lines(sibling)
        if len(columns[kind]) != len(translations):
            counts = f"{path} has {len(translations)} lines but {sibling.name} has {len(columns[kind])}"
            raise ValueError(f"{counts}: the files are not parallel; translate again")
    places = sorted({len(translations) * (2 * i + 1) // (2 * SENTENCES) for i in range(SENTENCES)})
    return [
        {kind: columns[kind][place] if kind in columns else None for kind in ("source", "translation", "reference")}
        for place in places
        if place < len(translations)
    ]


def _lines(path: Path) -> list[str]:
    """Lines end at a newline and nowhere else: text may hold the other separators of Unicode."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    return text.removesuffix("\n").split("\n") if text else []
