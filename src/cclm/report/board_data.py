"""A run as the board follows it: log.jsonl and timing.jsonl, read as they grow, in bounded memory."""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from cclm.curriculum.languages import listed
from cclm.errors import ConfigError, DataError
from cclm.formats.base import parse_json
from cclm.formats.log import (
    ADVICE,
    Admitted,
    Decay,
    Event,
    FileTail,
    Log,
    Other,
    Phase,
    Probe,
    Saved,
    Stopped,
    Train,
    Validation,
    event_of,
)
from cclm.formats.run import CONFIG, ENVIRONMENT, LOG, TIMING, Timing
from cclm.report.run import Run, run_facts
from cclm.report.run_data import TABLES, Json, run_data, run_graph
from cclm.report.series import Merged, Rounds, finite, mean_of, significant

MOST_NEWS = 400
"""The most sentences about events that are kept, beside those about admissions."""
MOST_NAMED = 8
"""The most languages that are named if several are admitted together."""
CUMULATIVE = ("draws", "tokens")
"""Tables of counts since the start, which stay correct if rounds are thinned out."""
CURVES = ("train_loss", "learning_rate", "tokens_per_second", "weighted", "macro", "bleu")
"""Curves of a run as a whole."""
NO_LOCK = nullcontext()
FILES = (CONFIG, ENVIRONMENT, "graph.json", "benchmark.json", "scores.json")


@dataclass
class Story:
    """All that the board keeps of log.jsonl and timing.jsonl."""

    rounds: Rounds = field(default_factory=lambda: Rounds((*TABLES, *CUMULATIVE)))
    curves: dict[str, Merged] = field(default_factory=lambda: {name: Merged() for name in CURVES})
    step: int = 0
    admitted: dict[str, Admitted] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)
    """The step of the first probe that lists a language as admitted."""
    phases: list[Phase] = field(default_factory=list)
    validation: Validation | None = None
    best: Validation | None = None
    """The validation with the lowest weighted dev loss so far."""
    stopped: Stopped | None = None
    saved: int | None = None
    draws: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    news: deque[Json] = field(default_factory=lambda: deque(maxlen=MOST_NEWS))
    session: tuple[int, float] | None = None
    """Step and seconds at the first line of timing.jsonl by the process that wrote the last one."""
    clock: tuple[int, float] | None = None

    def add(self, event: Event) -> None:
        """Adds an event of log.jsonl."""
        self.step = max(self.step, event.step)
        if isinstance(event, Train):
            self._train(event)
        elif isinstance(event, Probe):
            self._probe(event)
        elif isinstance(event, Admitted):
            self.admitted.setdefault(event.language, event)
        elif isinstance(event, Phase):
            self.phases.append(event)
        elif isinstance(event, Validation):
            self._validation(event)
        elif isinstance(event, Saved):
            self.saved = event.step
        elif isinstance(event, Stopped):
            self.stopped = event
        words = None if isinstance(event, Admitted) else in_words(event, self.best)
        if words:
            loss = finite(event.weighted) if isinstance(event, Validation) else None
            self.news.append({"step": event.step, "kind": event.event, "text": words, "loss": loss})

    def time(self, line: Timing) -> None:
        """Adds a line of timing.jsonl."""
        if line.event == "end":
            return
        if self.clock is None or line.seconds < self.clock[1]:
            self.session = (line.step, line.seconds)
        self.clock = (line.step, line.seconds)
        if line.tokens_per_second is not None:
            self.curves["tokens_per_second"].add(line.step, line.tokens_per_second)

    def _train(self, event: Train) -> None:
        for counted, more in ((self.draws, event.draws), (self.tokens, event.tokens)):
            for name, number in more.items():
                counted[name] = counted.get(name, 0) + number
        self.curves["train_loss"].add(event.step, event.loss)  # smoothed labels, as in all dev losses
        self.curves["learning_rate"].add(event.step, event.learning_rate)

    def _probe(self, event: Probe) -> None:
        new = [name for name in event.admitted if name not in self.listed]
        self.listed |= dict.fromkeys(new, event.step if self.rounds.measured else 0)
        tables: dict[str, Mapping[str, float | None]] = {name: getattr(event, name) for name in TABLES}
        counts = {"draws": self.draws, "tokens": self.tokens}
        self.rounds.add(event.step, {**tables, **counts}, is_marked=bool(new))

    def _validation(self, event: Validation) -> None:
        self.validation = event
        for name, value in (("weighted", event.weighted), ("macro", event.macro), ("bleu", event.mean_bleu)):
            self.curves[name].add(event.step, value)
        if event.weighted is not None and not (self.best and (self.best.weighted or math.inf) <= event.weighted):
            self.best = event

    def admissions(self) -> list[Admitted]:
        """The admission of each language; without an event, at the first probe that lists the language."""
        found = {name: Admitted(language=name, step=step) for name, step in self.listed.items()} | self.admitted
        return sorted(found.values(), key=lambda event: event.step)

    def log(self) -> Log:
        """A log with everything that `run_data` reads beside the rounds."""
        names = dict.fromkeys([*self.rounds.names, *self.tokens])
        seen = Probe(step=self.step, dev_loss=dict.fromkeys(names))
        ends = [event for event in (self.validation, self.stopped) if event]
        return Log([*self.admissions(), *self.phases, seen, *ends, Other(event="now", step=self.step)])

    def seconds_left(self, max_steps: int | None) -> float | None:
        """How long the remaining steps take at the speed of this process."""
        if not (max_steps and self.session and self.clock) or self.clock[0] <= self.session[0]:
            return None
        pace = (self.clock[1] - self.session[1]) / (self.clock[0] - self.session[0])
        return max(max_steps - self.clock[0], 0) * pace


def in_words(event: Event, best: Validation | None) -> str | None:
    """An event in a sentence; None for events that are only drawn."""
    if isinstance(event, Admitted):
        return f"{event.language} admitted: {_why(event)}"
    if isinstance(event, Phase):
        return f"second phase: all {len(event.admitted)} remaining languages are admitted"
    if isinstance(event, Decay):
        return f"the learning rate decays to zero until step {event.until:,}: {event.reason}"
    if isinstance(event, Stopped):
        at = f"; best checkpoint: step {event.best:,}" if event.best is not None else ""
        return f"stopped: {event.reason or 'no reason given'}{at}{f'; {event.note}' if event.note else ''}"
    if isinstance(event, Validation) and math.isfinite(finite(event.weighted)):
        is_best = best is not None and best.step == event.step
        bleu = f", BLEU {event.mean_bleu:.1f}" if event.mean_bleu is not None else ""
        worst = f", highest in {event.worst.language}" if event.worst else ""
        return f"dev loss {event.weighted:.3f}{', the lowest so far' if is_best else ''}{worst}{bleu}"
    return None


def _admissions(events: list[Admitted]) -> Iterator[Json]:
    """The admissions as sentences; languages that were admitted together for the same reason share one."""
    groups: dict[object, list[Admitted]] = {}
    at_once = Counter(event.step for event in events if event.hrls_competence is not None)
    for event in events:
        reason = event.reason if event.hrls_competence is None else event.language
        if event.hrls_competence is not None and at_once[event.step] > MOST_NAMED:
            reason = ""
        groups.setdefault((event.step, event.hrls_competence is None, reason), []).append(event)
    for members in groups.values():
        shared, names = members[0], [event.language for event in members]
        if len(names) > 1 and shared.hrls_competence is not None:
            reasons = {"reason": f"{shared.language} first: {_why(shared)}", "hrls_competence": None}
            shared = shared.model_copy(update=reasons)
        said = f"{len(names)} languages" if len(names) > MOST_NAMED else listed(names)
        yield {"step": shared.step, "kind": shared.event, "text": f"{said} admitted: {_why(shared)}"}


def _why(event: Admitted) -> str:
    """Why a language was admitted: `0.86 >= 0.85, vouched for by ces 0.93`."""
    if event.hrls_competence is None:
        return event.reason or "from the start"
    limit = "" if event.threshold is None else f" >= {event.threshold:g}"
    known = [(hrl, value) for hrl, value in (event.vouched or {}).items() if value is not None]
    vouched = ", ".join(f"{hrl} {value:.2f}" for hrl, value in sorted(known, key=lambda one: -one[1])[:4])
    more = f" and {len(known) - 4} more" if len(known) > 4 else ""
    return f"{event.hrls_competence:.2f}{limit}" + (f", vouched for by {vouched}{more}" if vouched else "")


class FollowedRun:
    """One run directory. `update` reads what is new; the other methods answer from memory."""

    def __init__(self, folder: Path, tokens_per_pass: Callable[[Path], Mapping[str, int]]) -> None:
        self.folder, self.story, self.problem = folder, Story(), ""
        self.restarts = 0
        self._log, self._clock = FileTail(folder / LOG), FileTail(folder / TIMING)
        self._tokens_per_pass = tokens_per_pass
        self._signature: object = None
        self._of_a_pass: Mapping[str, int] = {}
        self._facts: Run | None = None
        self._files = 0

    def update(self, lock: AbstractContextManager[object] = NO_LOCK, most: int = 1 << 20) -> bool:
        """Reads what was written since, `most` bytes of each file at most; returns whether there was anything.

        The lock is held only while memory changes: other threads need not wait while files are read and parsed.
        """
        is_void, lines = self._log.new(most)
        events = list(self._events(lines))
        clock = FileTail(self.folder / TIMING) if is_void else self._clock
        times = list(_timings(clock.new(most)[1]))
        with lock:
            if is_void:
                self.story, self._clock, self.problem = Story(), clock, ""
                self.restarts += 1
            for event in events:
                self.story.add(event)
            for line in times:
                self.story.time(line)
        return self._reread_files(lock) or bool(lines) or is_void or bool(times)

    def _events(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            try:
                if line.strip():
                    yield event_of(parse_json(line, LOG, ADVICE), LOG)
            except DataError as error:
                self.problem = str(error)

    def _reread_files(self, lock: AbstractContextManager[object]) -> bool:
        """Notices other files of the run that were written or replaced."""
        places = [self.folder / name for name in FILES] + [self.folder.parent.parent / name for name in FILES[2:4]]
        signature = [stamp(path) for path in places]
        if signature == self._signature:
            return False
        try:
            tokens = self._tokens_per_pass(self.folder)
        except (ConfigError, DataError, OSError, ValueError):
            tokens = {}
        with lock:
            self._signature, self._facts, self._of_a_pass = signature, None, tokens
            self._files += 1
        return True

    @property
    def generation(self) -> str:
        """Changes when a page that has older data must read everything again."""
        rounds = self.story.rounds
        return f"{self.restarts}.{rounds.generation}.{len(rounds.names)}.{self._files}"

    def facts(self) -> Run:
        """The run as the report sees it, its log reduced to what does not grow."""
        if self._facts is None:
            try:
                self._facts = run_facts(self.folder, Log([]))
            except (DataError, OSError) as error:
                self.problem = str(error)
                self._facts = Run(self.folder.name, "", {}, Log([]), 0, None, {}, None, {}, [])
        return replace(self._facts, log=self.story.log(), more_tokens=sum(self.story.tokens.values()))

    def data(self) -> Json:
        """What the page needs beside the rounds, as `run_data` gives it."""
        data = run_data(self.facts())
        del data["rounds"], data["translations"], data["environment"], data["settings"]
        for language in data["languages"]:
            language["tokens_per_pass"] = self._of_a_pass.get(language["name"])
        news = sorted([*_admissions(self.story.admissions()), *self.story.news], key=lambda one: one["step"])
        return data | {"news": news}

    def graph(self) -> str | None:
        """The drawing of the language graph."""
        run = self.facts()
        return run_graph(run, run_data(run)) if run.graph else None

    def rounds(self, names: list[str], start: int = 0) -> Json:
        """The rounds from row `start` on, as columns, with the curves at the same steps."""
        rounds = self.story.rounds
        steps = rounds.steps(start)
        tables = {table: rounds.columns(table, names, start) for table in rounds.tables}
        every = rounds.steps()
        curves = {name: curve.at(every)[start:] for name, curve in self.story.curves.items()}
        counts = {"measured": rounds.measured, "kept": rounds.kept, "from": start}
        return {"steps": steps, **tables, **curves, **counts}

    def series(self, what: str, language: str | None = None) -> tuple[list[int], list[float | None]] | None:
        """One curve for comparisons: a curve of the run, or a table for one language or on average."""
        story = self.story
        if what in story.curves:
            return story.curves[what].points()
        if what not in (*TABLES, "passes", "admitted"):
            return None
        names = list(story.rounds.names) if language is None else [language]
        numbers = story.rounds.matrix(_TABLE_OF.get(what, what), names)
        if what == "passes":
            numbers = numbers / [self._of_a_pass.get(name) or math.nan for name in names]
        rows: list[list[float]] = numbers.tolist()
        if what == "admitted":
            return story.rounds.steps(), [float(sum(not math.isnan(value) for value in row)) for row in rows]
        means = [mean_of(row) for row in rows]
        return story.rounds.steps(), [None if mean is None else significant(mean) for mean in means]

    def spark(self, points: int = 40) -> list[float | None]:
        """A small curve of the mean dev loss for the overview."""
        found = self.series("dev_loss")
        values = found[1] if found else []
        every = math.ceil(len(values) / points) or 1
        return values[::-1][::every][::-1]


_TABLE_OF = {"passes": "tokens", "admitted": "weights"}


def stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _timings(lines: list[bytes]) -> Iterator[Timing]:
    for line in lines:
        try:
            yield Timing.model_validate(parse_json(line, TIMING, ""))
        except (DataError, ValidationError):
            continue  # a damaged line of times is not worth a message
