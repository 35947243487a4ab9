"""The JSON object that the script of a run's page draws. Languages are referred to by index, tables are columns.

Indices instead of names: names come from the user, and `__proto__` as a key of a JavaScript object is not an ordinary
key. In a many-to-many run each language has two tasks, `aze-eng` and `eng-aze`, which are measured and admitted
separately. Then `languages` lists the tasks, and a node of the graph stands for both tasks of its language.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cclm.curriculum import LanguageGraph
from cclm.formats.log import Admitted, Phase, Probe, Validation
from cclm.formats.scores import Row, Scores
from cclm.report.graph import graph_figure
from cclm.report.graph_layout import GraphNode, drawn_languages, draws_families, nearness, order_lrls
from cclm.report.run import Run, describe_method, read_settings, setting
from cclm.report.svg import LARGEST

Json = dict[str, Any]  # a JSON object on its way into the page
TABLES = ("dev_loss", "competence", "hrls_competence", "weights")
MOST_ROUNDS = 600
"""The most rounds that a page contains: screens have few more columns of pixels."""
MOST_NUMBERS = 120_000
"""The most numbers per table: with very many languages, a page contains fewer rounds."""
MOST_STEPS = 2**53
"""The largest integer that JavaScript represents exactly."""
HUES = 8
"""The number of hues in the palette of page.css."""


def run_data(run: Run) -> Json:
    """The argument of `draw` in page.js."""
    settings = read_settings(run.config)
    tasks = _tasks(run, settings)
    names = [task.name for task in tasks]
    indices = {name: index for index, name in enumerate(names)}
    languages = _languages(run, tasks, settings)
    return {
        "version": 1,
        "name": run.name,
        "summary": _summary(run, settings),
        "languages": languages,
        "pivot": _pivot(settings) if any(task.way for task in tasks) else None,
        "graph": _graph(run.graph, tasks) if run.graph else None,
        "rounds": _rounds(run, names),
        "threshold": _threshold(run, settings),
        "admissions": _admissions(run, indices),
        "scores": _scores(run, run.scores, languages) if run.scores else None,
        "translations": [vars(passage) for passage in run.passages],
        "environment": list(_flatten(run.environment)),
        "settings": run.config,
    }


def run_graph(run: Run, data: Json) -> str | None:
    """The SVG of the language graph; the script of the page marks the admitted languages in it."""
    if run.graph is None:
        return None
    indices: dict[str, list[int]] = {}
    for index, task in enumerate(_tasks(run, read_settings(run.config))):
        indices.setdefault(task.language, []).append(index)
    languages = data["languages"]
    nodes = {lang: GraphNode(languages[indices[lang][0]]["hue"], tuple(indices[lang])) for lang in run.graph.languages}
    return graph_figure(run.graph, nodes)


@dataclass(frozen=True)
class Task:
    """What the curriculum measures and admits: a language, or one direction between a language and the pivot."""

    name: str
    language: str
    way: str | None = None
    """`in` for the direction into the pivot, `out` for the other; None if there is only one direction."""


def _pivot(settings: Mapping[str, object]) -> str:
    return str(setting(settings, "data", "pivot") or "")


def _tasks(run: Run, settings: Mapping[str, object]) -> list[Task]:
    """Every task: the HRLs, the LRLs in the order of their nearest HRLs, then tasks that are not in the graph."""
    graph, pivot = run.graph, _pivot(settings)
    names = dict.fromkeys(_task_names(run))
    tasks = []
    for lang in graph.high_resource + order_lrls(graph, graph.low_resource) if graph else ():
        ways = (Task(f"{lang}-{pivot}", lang, "in"), Task(f"{pivot}-{lang}", lang, "out"))
        directions = [task for task in ways if task.name in names and pivot]
        tasks += directions if directions and lang not in names else [Task(lang, lang)]
    in_graph = {task.name for task in tasks}
    return tasks + [Task(name, name) for name in names if name not in in_graph]


def _task_names(run: Run) -> Iterator[str]:
    """The names of tasks in the log and in the scores, with repetitions."""
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
    dev_losses = next((event.dev_loss for event in reversed(run.log.of(Validation))), {})
    errors = next((event.competence_se for event in reversed(run.log.of(Probe))), {})
    languages = []
    for task in tasks:
        side, family, variant = sides.get(task.language), families[task.language], variants[task.language]
        languages.append(
            {
                **_score_row(run, task.name),
                "way": task.way,
                "side": side,
                "family": family,
                "variant": variant,
                "hue": _hue(side, family, variant),
                "dev_loss": _rounded(dev_losses.get(task.name)),
                "benchmark": _rounded(run.benchmark.get(task.name)),
                **({"competence_se": _rounded(errors[task.name])} if task.name in errors else {}),
            }
        )
    return languages


def _score_row(run: Run, name: str) -> Json:
    """One row of the score table: a task, or a zero-shot pair. `scores` is None if the row was not scored."""
    row = _scores_of(run.scores, name)
    before = _scores_of(run.before.scores if run.before else None, name).get("bleu")
    from_start = run.before.from_start if run.before else None
    full = _scores_of(from_start.scores if from_start else None, name).get("bleu")
    change = None if before is None or "bleu" not in row else row["bleu"] - before
    return {
        "name": name,
        **({"before": _rounded(before), "change": _rounded(change)} if change is not None else {}),
        **({"from_start": _rounded(full)} if full is not None else {}),
        "scores": {key: _rounded(value) for key, value in row.items()} or None,
        "by_scorers": [_rounded(row.get(scorer)) for scorer in _scorers(run.scores)],
        "others": [_rounded(_scores_of(other, name).get("bleu")) for other in run.others.values()],
    }


def _scores_of(scores: Scores | None, name: str) -> Row:
    return {} if scores is None else scores.languages.get(name) or scores.zero_shot.get(name, {})


def _sides(graph: LanguageGraph | None, names: list[str], settings: Mapping[str, object]) -> dict[str, str]:
    """`hrl` or `lrl` for each language, from the graph or else from the recipe; empty if neither has them."""
    sides: dict[str, str] = {}
    for side, key in (("hrl", "high_resource"), ("lrl", "low_resource")):
        members = getattr(graph, key) if graph else setting(settings, "data", key)
        known = set(map(str, members)) if isinstance(members, list | tuple) else set()
        sides |= {name: side for name in names if name in known}
    return sides


def _families(graph: LanguageGraph | None, names: list[str]) -> dict[str, int]:
    """The index of the HRL whose hue a language gets; -1 for an LRL that is similar to no HRL."""
    if graph is None:
        return {name: index for index, name in enumerate(names)}
    hrls = {hrl: index for index, hrl in enumerate(graph.high_resource)}
    lrls = {lrl: hrls[graph.nearest[lrl]] for lrl in graph.low_resource if nearness(graph, lrl)}
    return {name: (hrls | lrls).get(name, -1) for name in names}


def _variants(names: list[str], families: Mapping[str, int]) -> dict[str, int]:
    """The rank of each language within its family. An HRL precedes the LRLs of its family, so its rank is 0."""
    last_rank: dict[int, int] = {}
    variants = {}
    for name in names:
        family = families[name]
        variants[name] = last_rank[family] = last_rank.get(family, -1) + 1
    return variants


def _hue(side: str | None, family: int, variant: int) -> str:
    """CSS classes: the hue of the HRL, lighter for LRLs, and a shade that distinguishes LRLs of one family."""
    shade = f" v{max(variant - 1, 0) % 3}" if side == "lrl" or family < 0 else ""
    return f"neutral{shade}" if family < 0 else f"{'l' if side == 'lrl' else 'h'}{family % HUES}{shade}"


def _graph(graph: LanguageGraph, tasks: list[Task]) -> Json:
    """The graph by indices of languages; a language with two tasks has the index of the first."""
    hrls, lrls = drawn_languages(graph)
    indices = {task.language: index for index, task in reversed(list(enumerate(tasks)))}
    return {
        "hrls": [indices[hrl] for hrl in hrls],
        "lrls": [indices[lrl] for lrl in lrls],
        "nearest": [indices[graph.nearest[lrl]] if nearness(graph, lrl) else None for lrl in lrls],
        "similarity": [[_rounded(graph.similarity[lrl][hrl]) for hrl in hrls] for lrl in lrls],
        "absent": 0 if draws_families(graph) else len(graph.languages) - len(hrls) - len(lrls),
    }


def _rounds(run: Run, names: list[str]) -> Json:
    probes = run.log.of(Probe)
    drawn = _thin_out(probes, max(60, min(MOST_ROUNDS, MOST_NUMBERS // max(len(names), 1))))
    tables = {
        table: [[_rounded(getattr(probe, table).get(name)) for probe in drawn] for name in names] for table in TABLES
    }
    return {"steps": [min(probe.step, MOST_STEPS) for probe in drawn], "measured": len(probes), **tables}


def _thin_out(probes: list[Probe], limit: int) -> list[Probe]:
    """About `limit` evenly spaced rounds, with the first, the last, and every round that admitted a language."""
    every = math.ceil(len(probes) / limit)
    counts = [len(probe.admitted) for probe in probes]
    return [
        probe for i, probe in enumerate(probes) if i % every == 0 or i == len(probes) - 1 or counts[i] != counts[i - 1]
    ]


def _admissions(run: Run, indices: Mapping[str, int]) -> list[Json]:
    """When and why each language was admitted. Without an event, it is the first probe that lists the language."""
    events = {event.language: event for event in reversed(run.log.of(Admitted))}  # the first event counts
    for i, probe in enumerate(run.log.of(Probe)):
        for name in probe.admitted:
            events.setdefault(name, Admitted(language=name, step=probe.step if i else 0))
    known = [event for event in events.values() if event.language in indices]
    return [
        {
            "language": indices[event.language],
            "step": min(event.step, MOST_STEPS),
            "reason": event.reason,
            "hrls_competence": _rounded(event.hrls_competence),
            "threshold": _rounded(event.threshold),
            "vouched": [[hrl, _rounded(value)] for hrl, value in (event.vouched or {}).items()],
        }
        for event in sorted(known, key=lambda event: (event.step, indices[event.language]))
    ]


def _threshold(run: Run, settings: Mapping[str, object]) -> float | int | None:
    logged = [_rounded(event.threshold) for event in run.log.of(Admitted)]
    configured = setting(settings, "curriculum", "gate", "threshold")
    return next((value for value in logged if value is not None), _rounded(configured))


def _summary(run: Run, settings: Mapping[str, object]) -> Json:
    stopped = None
    if end := run.log.stopped:
        stopped = {"step": min(end.step, MOST_STEPS), "reason": end.reason, "best": _rounded(end.best)}
    return {
        "method": describe_method(settings),
        "steps": min(max((event.step for event in run.log.events), default=0), MOST_STEPS),
        "tokens": _rounded(run.log.tokens + run.more_tokens),
        "benchmark_method": run.benchmark_method,
        "benchmark_tokens": _rounded(run.benchmark_tokens),
        "phase": next((min(event.step, MOST_STEPS) for event in run.log.of(Phase)), None),
        "stopped": stopped,
    }


def _scores(run: Run, scores: Scores, languages: list[Json]) -> Json:
    """The score table without the rows of languages. Zero-shot pairs and unscored tasks are part of no mean."""
    unscored = {language["name"]: language for language in languages if language["scores"] is None}
    return {
        "means": _means(scores),
        "others": [{"name": name, "means": _means(other)} for name, other in run.others.items()],
        **({"from_start": _from_start(run)} if run.before and run.before.from_start else {}),
        "scorers": _scorers(scores),
        "zero_shot": [_score_row(run, name) for name in scores.zero_shot],
        "left_out": [unscored.get(name, _score_row(run, name)) for name in scores.left_out],
        "without_spaces": scores.without_spaces,
        "signature": list(_flatten(scores.signature.plain())),
    }


def _from_start(run: Run) -> str:
    """What the column says of the run that had all languages from the start: its name, and how much it cost."""
    assert run.before is not None
    assert run.before.from_start is not None
    full, tokens = run.before.from_start, run.log.tokens + run.more_tokens
    return (
        f"{full.run}, trained on all languages; this run took {tokens / max(1, full.tokens):.0%} of its target tokens"
    )


def _scorers(scores: Scores | None) -> list[str]:
    """The names of the external scorers."""
    return list(scores.signature.scorers) if scores else []


def _means(scores: Scores) -> dict[str, float | int | None]:
    return {name: _rounded(value) for name, value in scores.means.plain().items()}


def _flatten(content: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Pairs of name and value from nested settings; nested names are joined by a space."""
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _rounded(value: object) -> float | int | None:
    """The number with five significant digits; None for NaN and for numbers too large to draw."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return value if isinstance(value, int) and abs(value) <= MOST_STEPS else float(f"{float(value):.5g}")
