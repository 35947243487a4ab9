"""A run directory as training leaves it, made from a simulation: real decisions of the curriculum, no model."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cclm import LanguageGraph
from cclm.simulate import Outcome, load_scenario, simulate

CONFIG = """version: 1
name: related
seed: 1
data: {direction: many-to-one, pivot: eng, high_resource: [tur, rus, por, ces], low_resource: [aze, bel, glg, slk]}
curriculum:
  gate: {name: competence, aggregate: avg, threshold: 0.9}
  sampler: {name: inverse-competence}
  every: 100
training: {max_steps: 60000, patience: 10}
"""
ENVIRONMENT = {
    "version": 1,
    "python": "3.11.9",
    "packages": {"torch": "2.13.0", "sacrebleu": "2.6.0"},
    "device": "cpu",
    "threads": 2,
    "data": "sha256:5f0c2e9a71d4",
}
SOURCES = {
    "aze": ["Bu gün hava çox yaxşıdır.", "Kitabı masanın üstünə qoydum.", "Sabah görüşərik."],
    "bel": ["Сёння вельмі добрае надвор'е.", "Я паклаў кнігу на стол.", "Убачымся заўтра."],
    "glg": ["Hoxe vai moi bo tempo.", "Puxen o libro na mesa.", "Vémonos mañá."],
    "slk": ["Dnes je veľmi pekné počasie.", "Knihu som položil na stôl.", "Uvidíme sa zajtra."],
    "tur": ["Bugün hava çok güzel.", "Kitabı masanın üstüne koydum.", "Yarın görüşürüz."],
    "rus": ["Сегодня очень хорошая погода.", "Я положил книгу на стол.", "Увидимся завтра."],
    "por": ["Hoje o tempo está muito bom.", "Pus o livro na mesa.", "Vemo-nos amanhã."],
    "ces": ["Dnes je velmi hezké počasí.", "Knihu jsem položil na stůl.", "Uvidíme se zítra."],
}
TRANSLATIONS = ["The weather is very good today.", "I put the book at the table.", "See you tomorrow."]
REFERENCES = ["The weather is very nice today.", "I put the book on the table.", "See you tomorrow."]

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"&amp;"
"""A text that would become markup wherever it is not escaped."""


@cache
def simulated(scenario: str = "related", *changes: str) -> Outcome:
    """The simulation, once a session."""
    return simulate(load_scenario(scenario, changes))


def write_run(run: Path, scenario: str = "related", *changes: str) -> Path:
    """A finished run with everything in it."""
    outcome, made = simulated(scenario, *changes), load_scenario(scenario, changes)
    (run / "translations").mkdir(parents=True)
    write_log(run, list(events(outcome)))
    (run / "config.yaml").write_text(CONFIG)
    (run / "environment.json").write_text(json.dumps(ENVIRONMENT))
    (run / "graph.json").write_text(made.graph.to_json())
    (run / "benchmark.json").write_text(json.dumps({"version": 1, "losses": made.benchmark, "fingerprint": "ab12"}))
    (run / "scores.json").write_text(json.dumps(scores(list(made.sizes), len(made.high_resource))))
    for lang, sources in SOURCES.items():
        write_lines(run / f"translations/test.{lang}-eng.txt", TRANSLATIONS)
        write_lines(run / f"translations/test.{lang}-eng.source.txt", sources)
        write_lines(run / f"translations/test.{lang}-eng.reference.txt", REFERENCES)
    return run


def write_both_ways(run: Path) -> Path:
    """A many-to-many run: two tasks per language, of which `eng-aze` is admitted last and `eng-glg` never."""
    graph = LanguageGraph(
        ["tur", "por"], ["aze", "glg"], {"aze": {"tur": 0.5, "por": 0.2}, "glg": {"por": 0.6, "tur": 0.1}}
    )
    tasks = [name for lang in graph.languages for name in (f"{lang}-eng", f"eng-{lang}")]
    low = [name for name in tasks if "aze" in name or "glg" in name]
    at = dict.fromkeys(tasks, 0) | {"aze-eng": 200, "glg-eng": 200, "eng-aze": 300}
    del at["eng-glg"]
    lines: list[dict[str, Any]] = []
    for step in (100, 200, 300):
        numbers = {name: 5.0 - step / 200 + i / 10 for i, name in enumerate(tasks)}
        ready = {name: step / 400 + i / 100 for i, name in enumerate(low)}
        tables = {"dev_loss": numbers, "competence": numbers, "hrls_competence": ready}
        admitted = [name for name, when in at.items() if when <= step]
        weights = dict.fromkeys(admitted, 1 / len(admitted))
        lines.append({"event": "probe", "step": step, **tables, "weights": weights, "admitted": admitted})
        lines += [{"event": "admitted", "step": step, "language": name} for name, when in at.items() if when == step]
        lines.append({"event": "validation", "step": step, "dev_loss": numbers})
    write_log(run, lines)
    (run / "graph.json").write_text(graph.to_json())
    (run / "config.yaml").write_text("data: {direction: many-to-many, pivot: eng}\n")
    rows = {name: {"bleu": 3.0, "chrf": 20.0} for name in tasks}
    (run / "scores.json").write_text(json.dumps({"version": 1, "languages": rows, "means": {"all": 3.0}}))
    return run


def write_evil(folder: Path) -> Path:
    """A run in which every text tries to become markup."""
    run = folder / EVIL.replace("/", "\\")  # no file is called so
    probe = {"dev_loss": {EVIL: 4.0, "__proto__": 5.0}, "competence": {EVIL: 0.5}, "weights": {EVIL: 1.0}}
    write_log(
        run,
        [
            {"event": "admitted", "step": 0, "language": EVIL, "reason": EVIL},
            {"event": "probe", "step": 100, **probe, "admitted": [EVIL]},
            {"event": "probe", "step": 200, **probe, "admitted": [EVIL]},
            {"event": "stopped", "step": 200, "reason": EVIL, "best": 100},
        ],
    )
    (run / "config.yaml").write_text(f"# {EVIL}\n")
    (run / "environment.json").write_text(json.dumps({EVIL: EVIL}))
    rows = {"version": 1, "signature": {EVIL: EVIL}, "languages": {EVIL: {"bleu": 1.0}}, "means": {"all": 1.0}}
    (run / "scores.json").write_text(json.dumps(rows))
    (run / "translations").mkdir()
    for kind in ("", ".source", ".reference"):
        write_lines(run / f"translations/test.aze-eng{kind}.txt", [EVIL])
    return run


def events(outcome: Outcome) -> Iterator[dict[str, Any]]:
    """What the trainer would have logged of this."""
    known: set[str] = set()
    for record in outcome.rounds:
        step, losses = record["step"], record["dev_loss"]
        if losses:
            mean = sum(losses.values()) / len(losses)
            train = {"loss": mean, "nll": mean - 0.4, "learning_rate": 2e-4}
            yield {"event": "train", "step": step, **train, "draws": {}, "tokens": dict.fromkeys(losses, 9000)}
            names = ("dev_loss", "competence", "hrls_competence", "weights", "admitted")
            yield {"event": "probe", "step": step, **{name: record[name] for name in names}}
        for lang in [lang for lang in record["admitted"] if lang not in known]:
            known.add(lang)
            yield {"event": "admitted", "step": step, "language": lang, **record["admissions"][lang]}
        if losses and step % 1000 == 0:
            worst = max(losses, key=losses.__getitem__)
            validation = {"dev_loss": losses, "nll": losses, "weighted": mean, "macro": mean}
            yield {
                "event": "validation",
                "step": step,
                **validation,
                "worst": {"language": worst, "loss": losses[worst]},
            }
    last = outcome.rounds[-1]["step"]
    yield {"event": "stopped", "step": last, "reason": "no better for 10 validations", "best": last - 10_000}


def scores(languages: list[str], hrls: int) -> dict[str, Any]:
    """Made-up scores: 30 BLEU falling by one from language to language within each dozen."""
    rows = {}
    for i, lang in enumerate(languages):
        bleu = 30.0 - i % 12
        rows[lang] = {"bleu": bleu, "chrf": bleu + 20.5, "bleu_low": bleu - 1.2, "bleu_high": bleu + 1.1}
    values = [row["bleu"] for row in rows.values()]
    high, low = values[:hrls], values[hrls:]
    means = {"all": sum(values) / len(values), "hrl": sum(high) / len(high), "lrl": sum(low) / len(low)}
    signature = {"bleu": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", "beam": 5, "step": 50_000}
    return {"version": 1, "signature": signature, "languages": rows, "means": means | {"worst": min(values)}}


def write_log(run: Path, lines: list[dict[str, Any]]) -> None:
    """log.jsonl with these events."""
    run.mkdir(parents=True, exist_ok=True)
    write_lines(run / "log.jsonl", [json.dumps(line) for line in lines])


def write_lines(path: Path, lines: list[str]) -> None:
    """A text file of these lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
