"""What the page of a run is drawn from: one object of plain JSON, languages by number, tables by column.

Languages are numbers here because a name is the user's: as a key of a JavaScript object, `__proto__` is a trap.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from cclm.report.layout import drawn, in_order, nearness
from cclm.report.run_files import RunFiles
from cclm.report.settings import method, read_settings, setting

TABLES = ("dev_loss", "competence", "hrls_competence", "weights")
MOST_ROUNDS = 600
"""Rounds in a page: more than this no screen has columns for."""
MOST_NUMBERS = 120_000
"""Numbers in a table: with very many languages the rounds are fewer."""


def run_data(run: RunFiles) -> dict[str, Any]:
    """The object that `draw` of page.js takes."""
    settings = read_settings(run.config)
    names = _names(run)
    numbers = {name: number for number, name in enumerate(names)}
    rounds = _rounds(run, names)
    return {
        "version": 1,
        "name": run.name,
        "summary": _summary(run, settings),
        "languages": _languages(run, names, settings),
        "graph": _graph(run, numbers),
        "rounds": rounds,
        "threshold": _threshold(run, settings),
        "admissions": _admissions(run, numbers),
        "scores": _scores(run),
        "translations": [vars(passage) for passage in run.passages],
        "environment": list(_flat(run.environment)),
        "settings": run.config,
    }


def _names(run: RunFiles) -> list[str]:
    """Every language: HRLs, then LRLs beside their nearest HRL, then whoever else appears."""
    names = dict.fromkeys(run.graph.high_resource + in_order(run.graph, run.graph.low_resource) if run.graph else ())
    for event in run.of("admitted"):
        names.setdefault(event["language"])
    for event in run.of("probe") + run.of("validation"):
        for table in TABLES:
            names |= dict.fromkeys(event.get(table) or ())
    return list(names | dict.fromkeys(run.scores["languages"] if run.scores else ()))


def _languages(run: RunFiles, names: list[str], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    sides, families = _sides(run, names, settings), _families(run, names)
    validated = (run.of("validation") or [{}])[-1].get("dev_loss") or {}
    scores = run.scores["languages"] if run.scores else {}
    members: dict[int, int] = {}
    languages = []
    for name in names:
        family = families[name]
        variant = members[family] = members.get(family, -1) + 1  # an HRL comes before the LRLs near it
        languages.append(
            {
                "name": name,
                "side": sides.get(name),
                "family": family,
                "variant": variant,
                "dev_loss": _short(validated.get(name)),
                "benchmark": _short(run.benchmark.get(name)),
                "scores": {key: _short(value) for key, value in scores[name].items()} if name in scores else None,
                "by_scorers": [_short(scores.get(name, {}).get(scorer)) for scorer in _scorers(run)],
                "others": [_short(other["languages"].get(name, {}).get("bleu")) for other in run.others.values()],
            }
        )
    return languages


def _sides(run: RunFiles, names: list[str], settings: Mapping[str, Any]) -> dict[str, str]:
    """Which are HRLs and which LRLs: as the graph says, else the recipe; empty where neither does."""
    sides: dict[str, str] = {}
    for side, key in (("hrl", "high_resource"), ("lrl", "low_resource")):
        members = getattr(run.graph, key) if run.graph else setting(settings, "data", key)
        known = set(map(str, members)) if isinstance(members, list | tuple) else set()
        sides |= {name: side for name in names if name in known}
    return sides


def _families(run: RunFiles, names: list[str]) -> dict[str, int]:
    """The number of the HRL whose hue a language has; -1 for an LRL like nobody."""
    if run.graph is None:
        return {name: number for number, name in enumerate(names)}
    hues = {hrl: number for number, hrl in enumerate(run.graph.high_resource)}
    near = {lrl: hues[run.graph.nearest[lrl]] for lrl in run.graph.low_resource if nearness(run.graph, lrl)}
    return {name: (hues | near).get(name, -1) for name in names}


def _graph(run: RunFiles, numbers: Mapping[str, int]) -> dict[str, Any] | None:
    if run.graph is None:
        return None
    hrls, lrls = drawn(run.graph)
    absent = len(run.graph.languages) - len(hrls) - len(lrls)
    return {
        "hrls": [numbers[hrl] for hrl in hrls],
        "lrls": [numbers[lrl] for lrl in lrls],
        "nearest": [numbers[run.graph.nearest[lrl]] if nearness(run.graph, lrl) else None for lrl in lrls],
        "similarity": [[_short(run.graph.similarity[lrl][hrl]) for hrl in hrls] for lrl in lrls],
        "absent": absent,
    }


def _rounds(run: RunFiles, names: list[str]) -> dict[str, Any]:
    probes = run.of("probe")
    kept = _kept(probes, max(60, min(MOST_ROUNDS, MOST_NUMBERS // max(len(names), 1))))
    tables = {
        table: [[_short((probe.get(table) or {}).get(name)) for probe in kept] for name in names] for table in TABLES
    }
    return {"steps": [probe["step"] for probe in kept], "measured": len(probes), **tables}


def _kept(probes: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The rounds to draw: all, or evenly spread ones with the first, the last and every one that admitted."""
    every = math.ceil(len(probes) / most)
    counts = [len(probe.get("admitted") or ()) for probe in probes]
    return [
        probe for i, probe in enumerate(probes) if i % every == 0 or i == len(probes) - 1 or counts[i] != counts[i - 1]
    ]


def _admissions(run: RunFiles, numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """When and why each language came; one of whom no event tells is there since a probe first names it."""
    told = {event["language"]: event for event in reversed(run.of("admitted"))}  # the first one counts
    for round_, probe in enumerate(run.of("probe")):
        for name in probe.get("admitted") or ():
            told.setdefault(str(name), {"step": probe["step"] if round_ else 0, "reason": ""})
    known = {name: event for name, event in told.items() if name in numbers}
    return [
        {
            "language": numbers[name],
            "step": event["step"],
            "reason": str(event.get("reason", "")),
            "hrls_competence": _short(event.get("hrls_competence")),
            "threshold": _short(event.get("threshold")),
            "vouched": [[hrl, _short(value)] for hrl, value in (event.get("vouched") or {}).items()],
        }
        for name, event in sorted(known.items(), key=lambda item: (item[1]["step"], numbers[item[0]]))
    ]


def _threshold(run: RunFiles, settings: Mapping[str, Any]) -> float | None:
    thresholds = [_short(event.get("threshold")) for event in run.of("admitted")]
    given = setting(settings, "curriculum", "gate", "threshold")
    return next((value for value in thresholds if value is not None), _short(given))


def _summary(run: RunFiles, settings: Mapping[str, Any]) -> dict[str, Any]:
    stopped = next(reversed(run.of("stopped")), None)
    tokens = sum(value or 0 for event in run.of("train") for value in (event.get("tokens") or {}).values())
    return {
        "method": method(settings),
        "steps": max((event["step"] for event in run.events), default=0),
        "tokens": _short(tokens),
        "phase": next((event["step"] for event in run.of("phase")), None),
        "stopped": stopped
        and {"step": stopped["step"], "reason": str(stopped.get("reason", "")), "best": _short(stopped.get("best"))},
    }


def _scores(run: RunFiles) -> dict[str, Any] | None:
    if run.scores is None:
        return None
    others = [{"name": name, "means": _means(scores)} for name, scores in run.others.items()]
    signature = list(_flat(run.scores["signature"]))
    return {"means": _means(run.scores), "others": others, "scorers": _scorers(run), "signature": signature}


def _scorers(run: RunFiles) -> list[str]:
    """The names of the user's own scorers."""
    return list(run.scores["signature"].get("scorers", {})) if run.scores else []


def _means(scores: Mapping[str, Any]) -> dict[str, float | int | None]:
    return {name: _short(value) for name, value in scores["means"].items() if name in ("all", "hrl", "lrl", "worst")}


def _flat(content: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    """Nested settings as lines of name and value."""
    for name, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name} ")
        else:
            yield f"{before}{name}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(value: Any) -> float | int | None:
    """A number with the digits that a drawing can show; None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")
