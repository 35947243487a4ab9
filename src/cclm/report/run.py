"""Reads everything in a run directory that its report shows: log, graph, benchmark, scores, translations."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cclm.curriculum import LanguageGraph
from cclm.errors import ConfigError, DataError
from cclm.formats.base import parse_json, read_regular
from cclm.formats.benchmark import Benchmark
from cclm.formats.checkpoint import tokens_after_the_log
from cclm.formats.log import Log
from cclm.formats.run import LOG
from cclm.formats.run_folder import name_of, work_of
from cclm.formats.scores import BEFORE, Before, Scores, Signature

SENTENCES = 3
"""The number of translations shown per language."""
MOST_OTHERS = 4
"""The most other runs shown in the score table."""
OPTIONAL = "repair or remove the file: the report does not need it"
_MAY_DIFFER = frozenset(("checkpoint", "off_target", "scorers"))
"""Signature fields that may differ between comparable scores: the checkpoint, and scores that not all runs have."""


@dataclass(frozen=True)
class Passage:
    """Example sentences of one translation direction; a source or reference that does not exist is None."""

    split: str
    source: str
    target: str
    sentences: list[dict[str, str | None]]


@dataclass(frozen=True)
class Run:
    """The content of a run directory. Files that do not exist are empty or None."""

    name: str
    config: str
    environment: Mapping[str, object]
    log: Log
    more_tokens: int
    """Target tokens trained on after the last train event in the log."""
    graph: LanguageGraph | None
    benchmark: Mapping[str, float]
    scores: Scores | None
    others: Mapping[str, Scores]
    """Scores of other runs in the same work folder that are comparable; the bitext models come first."""
    passages: list[Passage]
    before: Before | None = None
    """The run that this one has more languages than, with its scores."""
    benchmark_method: str | None = None
    benchmark_tokens: int | None = None
    """Where L* comes from, and the target tokens that were trained on for it; None where that is unknown."""


def read_run(run: Path) -> Run:
    """Reads a run directory; raises ConfigError if it has no log, DataError if a file is damaged."""
    log = run / LOG
    if not log.is_file():
        raise ConfigError(f"no run here: {run} has no log.jsonl; give the folder of a run, <work>/runs/<name>")
    events = _read_log(log)
    return replace(run_facts(run, events), passages=list(_passages(run / "translations")))


def run_facts(run: Path, log: Log) -> Run:
    """Everything in the run directory but the translations, with a log that has been read already."""
    config, scores, environment = run / "config.yaml", run / "scores.json", run / "environment.json"
    run_scores = Scores.read(scores) if scores.is_file() else None
    benchmark = _read_benchmark(_shared(run, "benchmark.json"))
    return Run(
        name=name_of(run),
        config=config.read_text(encoding="utf-8", errors="replace") if config.is_file() else "",
        environment=_read_object(environment) if environment.is_file() else {},
        log=log,
        more_tokens=tokens_after_the_log(run, log.stopped.step) if log.stopped else 0,
        graph=_graph(run),
        benchmark=benchmark.losses,
        benchmark_method=benchmark.method,
        benchmark_tokens=benchmark.target_tokens,
        scores=run_scores,
        before=Before.read(run / BEFORE) if (run / BEFORE).is_file() else None,
        others=_comparable_scores(run.resolve(), run_scores) if run_scores else {},
        passages=[],
    )


def _read_log(path: Path) -> Log:
    try:
        return Log.read(path)
    except DataError as error:
        # Resuming does not repair it: that only truncates what was written after the newest checkpoint.
        raise DataError(f"{error}; delete that line to get a report") from None


def _shared(run: Path, name: str) -> Path:
    """The copy of a file in the run, or else the one in the work folder, which its runs share."""
    copy = run / name
    return copy if copy.is_file() else work_of(run) / name


def _read_object(path: Path) -> dict[str, object]:
    content = parse_json(path.read_bytes(), str(path), OPTIONAL)
    if not isinstance(content, dict):
        raise DataError(f"{path}: expected an object, got {type(content).__name__}; {OPTIONAL}")
    return content


def _graph(run: Path) -> LanguageGraph | None:
    """The graph of a run. In the work folder there may be a file of the user's under the same name."""
    path = _shared(run, "graph.json")
    try:
        return _read_graph(path)
    except DataError as error:
        if path.parent == run:
            raise
        warnings.warn(f"{error}; no language graph is drawn", stacklevel=2)
        return None


def _read_graph(path: Path) -> LanguageGraph | None:
    if not path.is_file():
        return None
    content = _read_object(path)
    try:
        return LanguageGraph.from_dict(content)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: {error}; {OPTIONAL}") from None


def _read_benchmark(path: Path) -> Benchmark:
    if not path.is_file():
        return Benchmark(losses={})
    try:
        return Benchmark.read(path)
    except DataError as error:
        raise DataError(f"{error}; {OPTIONAL}") from None


def _comparable_scores(run: Path, run_scores: Scores) -> dict[str, Scores]:
    """Scores of other runs in the work folder with the same metrics, test sets and beam."""
    paths = sorted(run.parent.glob("*/scores.json"), key=lambda path: (path.parent.name != "bitext", path))
    others = {}
    for path in paths:
        if path.parent != run:
            try:
                others[path.parent.name] = Scores.read(path)
            except DataError as error:
                warnings.warn(f"{error}; not compared with", stacklevel=2)
    settings = _settings_of(run_scores.signature)
    comparable = {name: scores for name, scores in others.items() if _settings_of(scores.signature) == settings}
    return dict(list(comparable.items())[:MOST_OTHERS])


def _settings_of(signature: Signature) -> Mapping[str, object]:
    return {name: value for name, value in signature.plain().items() if name not in _MAY_DIFFER}


def _passages(folder: Path) -> Iterator[Passage]:
    """One passage per direction, from the test set if it was translated."""
    passages: dict[tuple[str, str], Passage] = {}
    for path in sorted(folder.glob("*.*-*.txt")):
        if path.name.endswith((".source.txt", ".reference.txt")):
            continue
        split, _, direction = path.stem.partition(".")
        source, _, target = direction.partition("-")
        if (source, target) not in passages or split == "test":
            passages[source, target] = Passage(split, source, target, _sentences(path))
    yield from passages.values()


def _sentences(path: Path) -> list[dict[str, str | None]]:
    """A few sentences, evenly spaced over the file: its beginning alone is not representative."""
    translations = _lines(path)
    columns = {"translation": translations}
    for kind in ("source", "reference"):
        sibling = path.with_name(f"{path.stem}.{kind}.txt")
        if not sibling.is_file():
            continue
        columns[kind] = _lines(sibling)
        if len(columns[kind]) != len(translations):
            counts = f"{path} has {len(translations)} lines but {sibling.name} has {len(columns[kind])}"
            raise DataError(f"{counts}: the files are not parallel; run `cclm translate` again")
    indices = sorted({len(translations) * (2 * i + 1) // (2 * SENTENCES) for i in range(SENTENCES)})
    return [
        {kind: columns[kind][index] if kind in columns else None for kind in ("source", "translation", "reference")}
        for index in indices
        if index < len(translations)
    ]


def _lines(path: Path) -> list[str]:
    """The lines of a file. Only \\n ends a line: sentences may contain the other line separators of Unicode."""
    text = read_regular(path).decode("utf-8", errors="replace")
    return text.removesuffix("\n").split("\n") if text else []


def read_settings(config: str) -> Mapping[str, object]:
    """The settings in config.yaml; empty if it cannot be parsed, as the page shows its text in any case."""
    try:
        content = YAML(typ="safe", pure=True).load(config)
    except (YAMLError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, Mapping) else {}


def setting(settings: object, *path: str) -> object:
    """The value of a nested setting, or None if it is missing."""
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings


def describe_method(settings: Mapping[str, object]) -> str:
    """A short description of the training method; empty if the settings do not name it."""
    gate, sampler = setting(settings, "curriculum", "gate"), setting(settings, "curriculum", "sampler", "name")
    name = setting(gate, "name")
    if name is None or sampler is None:
        return ""
    if name != "competence":
        known = {"all": "all languages from the start", "step": "languages admitted at fixed steps"}
        return f"{known.get(str(name), f'gate {name}')}, {sampler} sampling"
    aggregate, threshold = setting(gate, "aggregate"), setting(gate, "threshold")
    if sampler == "inverse-competence":
        return f"CCL-M {aggregate}, threshold {threshold}"
    return f"competence gate ({aggregate}, threshold {threshold}), {sampler} sampling"
