"""What the script of a run's page draws: one JSON object in which languages are numbers and tables are columns.

Languages are numbers because their names are the user's: as the key of a JavaScript object, `__proto__` would not be a
key like any other. In a many-to-many run each language has two tasks, `aze-eng` and `eng-aze`, that are measured and
admitted by themselves; then `languages` lists the tasks, and a node of the graph stands for the tasks of its language.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cclm.curriculum import LanguageGraph
from cclm.formats.log import Admitted, Phase, Probe, Validation
from cclm.formats.scores import Scores
from cclm.report.graph import graph_figure
from cclm.report.graph_layout import GraphNode, drawn_languages, draws_families, nearness, order_lrls
from cclm.report.run import Run, describe_method, read_settings, setting
from cclm.report.svg import LARGEST

Json = dict[str, Any]  # a JSON object on its way into the page
TABLES = ("dev_loss", "competence", "hrls_competence", "weights")
MOST_ROUNDS = 600
"""Rounds in a page; no screen has columns for more."""
MOST_NUMBERS = 120_000
"""Numbers per table; with very many languages fewer rounds are kept."""
MOST_STEPS = 2**53
"""JavaScript counts exactly up to here."""
HUES = 8
"""Hues of the page's palette (page.css)."""


def run_data(run: Run) -> Json:
    """The object that `draw` of page.js takes."""
    settings = read_settings(run.config)
    tasks = _tasks(run, settings)
    names = [task.name for task in tasks]
    numbers = {name: number for number, name in enumerate(names)}
    return {
        "version": 1,
        "name": run.name,
        "summary": _summary(run, settings),
        "languages": _languages(run, tasks, settings),
        "pivot": _pivot(settings) if any(task.way for task in tasks) else None,
        "graph": _graph(run.graph, tasks) if run.graph else None,
        "rounds": _rounds(run, names),
        "threshold": _threshold(run, settings),
        "admissions": _admissions(run, numbers),
        "scores": _scores(run, run.scores) if run.scores else None,
        "translations": [vars(passage) for passage in run.passages],
        "environment": list(_flatten(run.environment)),
        "settings": run.config,
    }


def run_graph(run: Run, data: Json) -> str | None:
    """The drawing of the language graph, whose state the script of the page sets."""
    if run.graph is None:
        return None
    numbers: dict[str, list[int]] = {}
    for number, task in enumerate(_tasks(run, read_settings(run.config))):
        numbers.setdefault(task.language, []).append(number)
    languages = data["languages"]
    nodes = {lang: GraphNode(languages[numbers[lang][0]]["hue"], tuple(numbers[lang])) for lang in run.graph.languages}
    return graph_figure(run.graph, nodes)


@dataclass(frozen=True)
class Task:
    """What is measured and admitted: a language, or one of the two directions between it and the pivot."""

    name: str
    language: str
    way: str | None = None
    """`in` for the direction into the pivot, `out` for the other; None if there is only one direction."""


def _pivot(settings: Mapping[str, object]) -> str:
    return str(setting(settings, "data", "pivot") or "")


def _tasks(run: Run, settings: Mapping[str, object]) -> list[Task]:
    """Every task: those of HRLs, of LRLs in the order of their nearest HRLs, then any other that appears."""
    graph, pivot = run.graph, _pivot(settings)
    seen = dict.fromkeys(_seen(run))
    tasks = []
    for lang in graph.high_resource + order_lrls(graph, graph.low_resource) if graph else ():
        ways = (Task(f"{lang}-{pivot}", lang, "in"), Task(f"{pivot}-{lang}", lang, "out"))
        directions = [task for task in ways if task.name in seen and pivot]
        tasks += directions if directions and lang not in seen else [Task(lang, lang)]
    known = {task.name for task in tasks}
    return tasks + [Task(name, name) for name in seen if name not in known]


def _seen(run: Run) -> Iterator[str]:
    """Every name that appears in the log or in the scores."""
    for event in run.log.of(Admitted):
        yield event.language
    for probe in run.log.of(Probe):
        for table in TABLES:
            yield from getattr(probe, table)
    for validation in run.log.of(Validation):
        yield from validation.dev_loss
    yield from run.scores.languages if run.scores else ()


def _languages(run: Run, tasks: list[Task], settings: Mapping[str, object]) -> list[Json]:
    names = list(dict.fromkeys(task.language for task in tasks))
    sides, families = _sides(run.graph, names, settings), _families(run.graph, names)
    variants = _variants(names, families)
    validated = next((event.dev_loss for event in reversed(run.log.of(Validation))), {})
    scores = run.scores.languages if run.scores else {}
    languages = []
    for task in tasks:
        name, lang = task.name, task.language
        side, family, variant = sides.get(lang), families[lang], variants[lang]
        languages.append(
            {
                "name": name,
                "way": task.way,
                "side": side,
                "family": family,
                "variant": variant,
                "hue": _hue(side, family, variant),
                "dev_loss": _short(validated.get(name)),
                "benchmark": _short(run.benchmark.get(name)),
                "scores": {key: _short(value) for key, value in scores[name].items()} if name in scores else None,
                "by_scorers": [_short(scores.get(name, {}).get(scorer)) for scorer in _scorers(run.scores)],
                "others": [_short(other.languages.get(name, {}).get("bleu")) for other in run.others.values()],
            }
        )
    return languages


def _sides(graph: LanguageGraph | None, names: list[str], settings: Mapping[str, object]) -> dict[str, str]:
    """Which languages are HRLs and which LRLs, by the graph or else by the recipe; empty if neither says."""
    sides: dict[str, str] = {}
    for side, key in (("hrl", "high_resource"), ("lrl", "low_resource")):
        members = getattr(graph, key) if graph else setting(settings, "data", key)
        known = set(map(str, members)) if isinstance(members, list | tuple) else set()
        sides |= {name: side for name in names if name in known}
    return sides


def _families(graph: LanguageGraph | None, names: list[str]) -> dict[str, int]:
    """The number of the HRL whose hue a language has; -1 for an LRL that is similar to no HRL."""
    if graph is None:
        return {name: number for number, name in enumerate(names)}
    hues = {hrl: number for number, hrl in enumerate(graph.high_resource)}
    near = {lrl: hues[graph.nearest[lrl]] for lrl in graph.low_resource if nearness(graph, lrl)}
    return {name: (hues | near).get(name, -1) for name in names}


def _variants(names: list[str], families: Mapping[str, int]) -> dict[str, int]:
    """The rank of each language within its family. An HRL comes before the LRLs near it and has rank 0."""
    members: dict[int, int] = {}
    variants = {}
    for name in names:
        family = families[name]
        variants[name] = members[family] = members.get(family, -1) + 1
    return variants


def _hue(side: str | None, family: int, variant: int) -> str:
    """The CSS classes of a language's colour: its HRL's hue, lighter for LRLs, and a shade to tell LRLs apart."""
    shade = f" v{max(variant - 1, 0) % 3}" if side == "lrl" or family < 0 else ""
    return f"neutral{shade}" if family < 0 else f"{'l' if side == 'lrl' else 'h'}{family % HUES}{shade}"


def _graph(graph: LanguageGraph, tasks: list[Task]) -> Json:
    """The graph by numbers; a language with two tasks has the number of the first."""
    hrls, lrls = drawn_languages(graph)
    numbers = {task.language: number for number, task in reversed(list(enumerate(tasks)))}
    return {
        "hrls": [numbers[hrl] for hrl in hrls],
        "lrls": [numbers[lrl] for lrl in lrls],
        "nearest": [numbers[graph.nearest[lrl]] if nearness(graph, lrl) else None for lrl in lrls],
        "similarity": [[_short(graph.similarity[lrl][hrl]) for hrl in hrls] for lrl in lrls],
        "absent": 0 if draws_families(graph) else len(graph.languages) - len(hrls) - len(lrls),
    }


def _rounds(run: Run, names: list[str]) -> Json:
    probes = run.log.of(Probe)
    kept = _kept(probes, max(60, min(MOST_ROUNDS, MOST_NUMBERS // max(len(names), 1))))
    tables = {
        table: [[_short(getattr(probe, table).get(name)) for probe in kept] for name in names] for table in TABLES
    }
    return {"steps": [min(probe.step, MOST_STEPS) for probe in kept], "measured": len(probes), **tables}


def _kept(probes: list[Probe], most: int) -> list[Probe]:
    """The rounds to draw: all, or evenly spread ones with the first, the last and each that admitted a language."""
    every = math.ceil(len(probes) / most)
    counts = [len(probe.admitted) for probe in probes]
    return [
        probe for i, probe in enumerate(probes) if i % every == 0 or i == len(probes) - 1 or counts[i] != counts[i - 1]
    ]


def _admissions(run: Run, numbers: Mapping[str, int]) -> list[Json]:
    """When and why each language was admitted; without an event, at the first probe that lists the language."""
    events = {event.language: event for event in reversed(run.log.of(Admitted))}  # the first event counts
    for i, probe in enumerate(run.log.of(Probe)):
        for name in probe.admitted:
            events.setdefault(name, Admitted(language=name, step=probe.step if i else 0))
    known = [event for event in events.values() if event.language in numbers]
    return [
        {
            "language": numbers[event.language],
            "step": min(event.step, MOST_STEPS),
            "reason": event.reason,
            "hrls_competence": _short(event.hrls_competence),
            "threshold": _short(event.threshold),
            "vouched": [[hrl, _short(value)] for hrl, value in (event.vouched or {}).items()],
        }
        for event in sorted(known, key=lambda event: (event.step, numbers[event.language]))
    ]


def _threshold(run: Run, settings: Mapping[str, object]) -> float | int | None:
    thresholds = [_short(event.threshold) for event in run.log.of(Admitted)]
    given = setting(settings, "curriculum", "gate", "threshold")
    return next((value for value in thresholds if value is not None), _short(given))


def _summary(run: Run, settings: Mapping[str, object]) -> Json:
    stopped = None
    if end := run.log.stopped:
        stopped = {"step": min(end.step, MOST_STEPS), "reason": end.reason, "best": _short(end.best)}
    return {
        "method": describe_method(settings),
        "steps": min(max((event.step for event in run.log.events), default=0), MOST_STEPS),
        "tokens": _short(run.log.tokens + run.more_tokens),
        "phase": next((min(event.step, MOST_STEPS) for event in run.log.of(Phase)), None),
        "stopped": stopped,
    }


def _scores(run: Run, scores: Scores) -> Json:
    others = [{"name": name, "means": _means(other)} for name, other in run.others.items()]
    signature = list(_flatten(scores.signature.plain()))
    return {"means": _means(scores), "others": others, "scorers": _scorers(scores), "signature": signature}


def _scorers(scores: Scores | None) -> list[str]:
    """The names of the user's own scorers."""
    return list(scores.signature.scorers) if scores else []


def _means(scores: Scores) -> dict[str, float | int | None]:
    return {name: _short(value) for name, value in scores.means.plain().items()}


def _flatten(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as pairs of name and value."""
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(value: object) -> float | int | None:
    """A number with the digits that a drawing can show; None for NaN, and for what is too large for any drawing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return value if isinstance(value, int) and abs(value) <= MOST_STEPS else float(f"{float(value):.5g}")
