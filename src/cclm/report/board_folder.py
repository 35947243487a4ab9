"""What the board shows of a folder: its runs, studies and sweeps, found and followed by one thread that only reads."""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cclm.errors import ConfigError, DataError
from cclm.formats.run_folder import name_of
from cclm.formats.study import DeclaredFile, StudyResults
from cclm.formats.sweep import Sweep
from cclm.report.board_data import NO_LOCK, FollowedRun, stamp
from cclm.report.document import Document, Figure, Paragraph, Table
from cclm.report.run_data import Json
from cclm.report.study_page import study_document
from cclm.report.study_scores import Study
from cclm.report.sweep import sweep_document
from cclm.training.lock import owner_of
from cclm.training.run_state import RunState, continue_command, runs_below, state_of, tokens_per_pass

MOST_RUNS = 400
"""Runs that are followed; of more, those whose names come first."""
POLL, DISCOVER = 0.5, 3.0
"""Seconds between two looks at the files of known runs, and between two searches for new ones."""
FIRST_LOOK = 2.0
"""Seconds that the first page waits at most for the first search."""
WATCHED = 20.0
"""Seconds for which a run that someone looked at is read before the others."""
SECTIONS = ("claims", "scores", "figure-2", "leaves", "cost", "failures")
"""Sections of a report that the board shows too; the report has more."""


@dataclass
class BoardRun:
    """A run on the board. Its id does not reveal its path."""

    id: str
    name: str
    run: FollowedRun
    state: RunState = field(default_factory=lambda: RunState("interrupted"))
    command: str | None = None
    revision: int = 0
    is_read: bool = False
    """Whether everything that was in the log when the board started has been read."""
    looked_at: float = 0.0
    _signature: object = None

    def update(self, lock: AbstractContextManager[object] = NO_LOCK) -> bool:
        """Reads what is new; returns whether anything changed."""
        is_new = self.run.update(lock)
        if not is_new:
            self.is_read = True
        return self._update_state() or is_new

    def _update_state(self) -> bool:
        """Determines the state again if a file that decides it has changed."""
        folder, owner = self.run.folder, owner_of(self.run.folder)
        names = ("config.yaml", "checkpoints", "checkpoints/latest", "scores.json", "not-finite.json")
        signature = (owner.pid if owner else None, [stamp(folder / name) for name in names])
        if signature == self._signature:
            return False
        self._signature, before = signature, self.state
        self.state = state_of(folder)
        try:
            self.command = continue_command(folder) if self.state.state in ("interrupted", "failed") else None
        except (ConfigError, DataError, OSError):
            self.command = None
        return self.state != before

    def summary(self) -> Json:
        """The line of the overview."""
        story, state = self.run.story, self.state
        running = state.state == "running"
        step = max(story.step, state.step or 0) if running else state.step if state.step is not None else story.step
        validated = story.best.weighted if story.best else None
        return {
            "id": self.id,
            "name": self.name,
            "state": state.state,
            "reason": state.reason or self.run.problem or None,
            "command": self.command,
            "step": step,
            "max_steps": state.max_steps,
            "seconds_left": story.seconds_left(state.max_steps) if running else None,
            "tokens_per_second": story.curves["tokens_per_second"].last if running else None,
            "admitted": len(story.admissions()),
            "languages": len(story.rounds.names),
            "dev_loss": state.dev_loss if state.dev_loss is not None else validated,
            "best": state.best,
            "bleu": state.bleu.plain() if state.bleu else None,
            "spark": self.run.spark(),
            "revision": self.revision,
            "is_read": self.is_read,
            "report": is_file(self.report),
        }

    @property
    def report(self) -> Path:
        """The page that `cclm report` writes."""
        return self.run.folder / "report.html"


@dataclass
class Group:
    """A study or a sweep: its trials, and the document made from its results."""

    id: str
    kind: str
    name: str
    folder: Path
    trials: list[Json] = field(default_factory=list)
    """Each with the folder of its run under `folder`, which no page gets."""
    document: Document | None = None
    problem: str | None = None
    revision: int = 0
    _signature: object = None

    @property
    def report(self) -> Path:
        """The page that `cclm report` writes."""
        return self.folder / "report.html"

    def update(self) -> bool:
        """Reads the results again if they have changed."""
        names = ("results.json", "declared.json", "trials", "sweep.json", "report.html")
        signature = [stamp(self.folder / name) for name in names]
        if signature == self._signature:
            return False
        self._signature, self.problem = signature, None
        try:
            self._read_sweep() if self.kind == "sweep" else self._read_study()
        except (DataError, OSError, ValueError) as error:
            self.problem = str(error)
        return True

    def _read_sweep(self) -> None:
        work = self.folder.parent.parent
        found = Sweep.read(self.folder / "sweep.json")
        self.document = sweep_document(found)
        self.trials = [
            {"arm": leaf.aggregate, "seed": f"{leaf.threshold:g}", "folder": work / leaf.run, "bleu": leaf.bleu}
            | {"state": "finished", "why": None}
            for leaf in found.leaves
        ]

    def _read_study(self) -> None:
        work = self.folder.parent.parent
        trials = {path.stem: path for path in sorted((self.folder / "trials").glob("*.json"))}
        made: dict[str, Json] = {
            name: {"arm": name.rpartition(".")[0] or name, "seed": name.rpartition(".")[2]}
            | {"folder": work / "runs" / name, "state": None, "why": None, "bleu": None}
            for name in trials
        }
        if (self.folder / "results.json").exists():
            results = StudyResults.read(self.folder / "results.json")
            self.document = study_document(Study(results), {})
            for trial in results.trials:
                bleu = trial.scores.means.all if trial.scores else None
                facts = {"arm": trial.arm, "seed": str(trial.seed), "bleu": bleu, "state": trial.state}
                made[f"{trial.arm}.{trial.seed}"] = {**facts, "folder": work / trial.run, "why": trial.why}
        self.trials = list(made.values())

    def figures(self) -> list[str]:
        """The drawings of the results, each a complete SVG document."""
        blocks = [block for section in self._sections() for block in section.blocks]
        return [drawing for block in blocks if isinstance(block, Figure) for drawing in block.drawings]

    def sections(self) -> list[Json]:
        """The results as paragraphs, tables and the numbers of figures."""
        number = 0
        found = []
        for section in self._sections():
            blocks = []
            for block in section.blocks:
                drawings = len(block.drawings) if isinstance(block, Figure) else 0
                blocks.append(_block(block, range(number, number + drawings)))
                number += drawings
            found.append({"id": section.name, "title": section.title, "blocks": blocks})
        return found

    def _sections(self) -> list[Any]:  # of `Section`; empty without a document
        return [one for one in self.document.sections if one.name in SECTIONS] if self.document else []


def _block(block: Table | Paragraph | Figure, figures: Iterable[int]) -> Json:
    if isinstance(block, Paragraph):
        return {"kind": "paragraph", "text": block.text, "strong": block.strong}
    if isinstance(block, Figure):
        return {"kind": "figure", "title": block.title, "caption": block.caption, "figures": list(figures)}
    rows = [[{"text": cell.text, "best": cell.best, "mark": cell.mark} for cell in row] for row in block.rows]
    words = sorted(block.text_columns)
    return {"kind": "table", "caption": block.caption, "head": list(block.head), "rows": rows} | {
        "note": block.note, "words": words
    }  # fmt: skip


def is_file(path: Path) -> bool:
    """Whether this is a file, and not a link to something elsewhere."""
    return path.is_file() and not path.is_symlink()


class Board:
    """Everything below a folder. One thread calls `refresh`; answers are given under the same lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[str, BoardRun] = {}
        self.groups: dict[str, Group] = {}
        self.revision = 0
        self.more_runs = 0
        self.lock = threading.RLock()
        self._discovered = -DISCOVER
        self._by_folder: dict[Path, str] = {}
        self._has_discovered = threading.Event()

    def watch(self, is_over: threading.Event, report: Callable[[str], object]) -> None:
        """Refreshes until it is over. An error is reported once and does not end it."""
        reported: set[str] = set()
        while not is_over.is_set():
            try:
                has_more = self.refresh()
            except Exception as error:  # a folder that vanishes, a disk that is away: the next look may work
                has_more, text = False, f"{type(error).__name__}: {error}"
                if text not in reported:
                    reported.add(text)
                    report(text)
            is_over.wait(0.005 if has_more else POLL)

    def refresh(self) -> bool:
        """Looks at every file once; returns whether there is more to read already."""
        if time.monotonic() - self._discovered >= DISCOVER:
            self._discover()
            self._discovered = time.monotonic()
            self._has_discovered.set()
        now, has_more = time.time(), False
        # What someone waits to see comes first.
        is_hurried = any(not run.is_read and now - run.looked_at < WATCHED for run in self.runs.values())
        for run in sorted(self.runs.values(), key=lambda run: run.is_read):
            if is_hurried and now - run.looked_at >= WATCHED:
                continue
            was_read = run.is_read
            if run.update(self.lock) or not was_read:
                self.revision += 1
                run.revision = self.revision
            has_more |= not run.is_read
        for group in list(self.groups.values()):
            with self.lock:
                if group.update():
                    self.revision += 1
                    group.revision = self.revision
        return has_more

    def _discover(self) -> None:
        groups = list(self._find_groups())
        folders = list(dict.fromkeys([*runs_below(self.folder), *self._runs_of(groups)]))
        self.more_runs = max(len(folders) - MOST_RUNS, 0)
        with self.lock:
            known = {self._id(folder): folder for folder in folders[:MOST_RUNS]}
            if known.keys() != self.runs.keys() or {one.id for one in groups} != self.groups.keys():
                self.revision += 1
            for id_, folder in known.items():
                if id_ not in self.runs:
                    self.runs[id_] = BoardRun(id_, self._name(folder), FollowedRun(folder, tokens_per_pass))
            self.runs = {id_: self.runs[id_] for id_ in known}
            self.groups = {one.id: self.groups.get(one.id, one) for one in groups}
            self._by_folder = {run.run.folder.resolve(): id_ for id_, run in self.runs.items()}

    def _runs_of(self, groups: Iterable[Group]) -> Iterable[Path]:
        """If the folder is itself that of a study or a sweep: its runs are elsewhere."""
        for group in groups if _kind_of(self.folder) else ():
            group.update()
            yield from (trial["folder"] for trial in group.trials if trial["folder"].is_dir())

    def _find_groups(self) -> Iterable[Group]:
        works = {self.folder.resolve(): None}
        works |= {run.run.folder.resolve().parent.parent: None for run in self.runs.values()}
        places = [self.folder] if _kind_of(self.folder) else []
        for work in works:
            places += sorted([*work.glob("studies/*/"), *work.glob("sweeps/*/")])
        for place in dict.fromkeys(place.resolve() for place in places):
            if kind := _kind_of(place):
                yield Group(self._id(place), kind, place.name, place)

    def _id(self, folder: Path) -> str:
        return hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:12]

    def _name(self, folder: Path) -> str:
        if folder == self.folder or not folder.is_relative_to(self.folder):
            return name_of(folder)
        name = str(folder.relative_to(self.folder))
        return name.removeprefix("runs/")

    def run_id(self, folder: Path) -> str | None:
        """The id of the run in this folder, if it is on the board."""
        return self._by_folder.get(folder.resolve())

    def only_run(self) -> str | None:
        """The id of the run, if the folder is a run itself. Waits for the first look at it: a browser may be faster."""
        self._has_discovered.wait(FIRST_LOOK)
        return self.run_id(self.folder)


def _kind_of(folder: Path) -> str | None:
    if (folder / "sweep.json").is_file():
        return "sweep"
    return "study" if (folder / "results.json").is_file() or DeclaredFile.find(folder / "declared.json") else None


def trial_states(board: Board, group: Group) -> list[Json]:
    """The trials of a group with the present state of their runs."""
    found = []
    for trial in group.trials:
        id_ = board.run_id(trial["folder"])
        run = board.runs[id_] if id_ else None
        state = trial["state"] if trial["state"] == "failed" or not run else run.state.state
        facts: Mapping[str, object] = run.summary() if run else {}
        shown = {name: facts.get(name) for name in ("step", "max_steps", "seconds_left", "revision")}
        found.append(
            {"arm": trial["arm"], "seed": trial["seed"], "run": id_, "state": state or "waiting", "why": trial["why"]}
            | {"bleu": trial["bleu"], **shown}
        )
    return found
