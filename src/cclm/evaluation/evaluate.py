"""`cclm translate`, `cclm score`, `cclm report`: from a trained run to its numbers and its page."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cclm.atomic import atomic_text
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.evaluation.more_scores import add_external, add_off_target, keep_external
from cclm.evaluation.score_table import print_scores
from cclm.evaluation.scores import read_lines, score
from cclm.progress_bar import Progress, shown
from cclm.recipe.schema import Recipe
from cclm.training.directory import best_of, is_bitext, recipe_of, tasks_of, weights_of
from cclm.training.tasks import Task
from cclm.translation.load import load
from cclm.translation.model import Model


class Evaluation:
    """Translations and scores of a run's split, or of the bitext runs as one system; and what they are made from."""

    def __init__(self, run: Path, split: str = "test", recipe: Recipe | None = None) -> None:
        self.run, self.split = run, split
        self.recipe = recipe or recipe_of(run)
        self.prepared = Prepared.open(self.recipe.prepared, verify=False)
        made = tasks_of(run, self.recipe, self.prepared)
        self.tasks = {name: task for name, task in made.items() if split in self.prepared.sizes[task.language]}
        if not self.tasks:
            raise DataError(f"no language has a {split} set: there is nothing to translate")

    def made_from(self) -> dict[str, Any]:
        """All that decides about the translations; it stands in the signature of the scores."""
        settings = self.recipe.translation
        named = {}
        for model in self._models():
            best = best_of(model)
            named[model.name] = f"{best.name} {weights_of(best)[:16]}"
        return {
            "split": self.split,
            "checkpoint": named if is_bitext(self.run) else named[self.run.name],
            "data": self.prepared.fingerprint[:16],
            "beam": settings.beam,
            "length_penalty": settings.length_penalty,
        }

    def translated(self) -> list[Path] | None:
        """The translations, if they are those of the best checkpoint with the settings of now."""
        there = all(self._file(task, kind).exists() for task in self.tasks.values() for kind in KINDS)
        return self._files() if there and _content(self._mark) == self.made_from() else None

    def scored(self) -> dict[str, Any] | None:
        """The scores, if they are of these translations."""
        scores, made_from = _content(self.run / "scores.json"), self.made_from()
        signature = scores.get("signature", {})
        same = {name: signature.get(name) for name in made_from} == made_from
        return scores if same and self.translated() else None

    def translate(self) -> list[Path]:
        """Translates every task with the best checkpoint; gives the files written."""
        made_from = self.made_from()
        self._mark.parent.mkdir(exist_ok=True)
        self._mark.unlink(missing_ok=True)  # until it is there again, the translations may be of two minds
        total = sum(self.prepared.sizes[task.language][self.split] for task in self.tasks.values())
        with shown({"translating": total}) as progress:
            for run, its_tasks in self._models().items():
                model = load(run)
                for task in its_tasks:
                    self._translate(task, model, progress)
        atomic_text(self._mark, json.dumps(made_from, indent=1) + "\n")
        return self._files()

    def lines(self) -> dict[str, tuple[list[str], list[str], list[str]]]:
        """Translations, references and sources of every task; what is not translated yet is translated first."""
        if self.translated() is None:
            self.translate()
        return {
            name: (self._read(task), self._read(task, "reference"), self._read(task, "source"))
            for name, task in self.tasks.items()
        }

    def groups(self) -> tuple[list[str], list[str]]:
        """The tasks of HRLs, and those of LRLs."""
        hrls = [name for name, task in self.tasks.items() if task.language in self.recipe.data.high_resource]
        return hrls, [name for name in self.tasks if name not in hrls]

    def score(self, scorers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Writes scores.json, with the scores of other programs (name: command) beside ours.

        What such programs have given to the same translations before is kept.
        """
        before, lines = self.scored() or {}, self.lines()
        hrls, lrls = self.groups()
        systems = {name: (translations, references) for name, (translations, references, _) in lines.items()}
        scores = score(systems, high_resource=hrls, low_resource=lrls)
        scores["signature"] |= self.made_from()
        add_off_target(scores, self.recipe.data, self.tasks, lines)
        keep_external(scores, before)
        add_external(scores, scorers or {}, self.tasks, lines)
        text = json.dumps(scores, indent=1, ensure_ascii=False, allow_nan=False)
        atomic_text(self.run / "scores.json", text + "\n")
        return scores

    def _models(self) -> dict[Path, list[Task]]:
        """Which run's model translates which tasks."""
        if is_bitext(self.run):
            return {self.run / name: [task] for name, task in self.tasks.items()}
        return {self.run: list(self.tasks.values())}

    def _translate(self, task: Task, model: Model, progress: Progress) -> None:
        sources, references = texts(self.recipe, self.prepared, task, self.split)
        found = model.stream(
            sources, model.pair(task.source, task.target), cut=True, progress=lambda n: progress("translating", n)
        )
        _write(self._file(task), found)
        _write(self._file(task, "reference"), references)
        _write(self._file(task, "source"), sources)

    @property
    def _mark(self) -> Path:
        """The file that says what the translations are made from; it is there only when they all are."""
        return self.run / "translations" / f"{self.split}.json"

    def _read(self, task: Task, kind: str = "") -> list[str]:
        return read_lines(self._file(task, kind))

    def _files(self) -> list[Path]:
        return [self._file(task) for task in self.tasks.values()]

    def _file(self, task: Task, kind: str = "") -> Path:
        stem = f"{self.split}.{task.source}-{task.target}"
        return self.run / "translations" / (f"{stem}.{kind}.txt" if kind else f"{stem}.txt")


KINDS = ("", "reference", "source")
"""The files of a task: its translations, and what stands beside them."""


def texts(recipe: Recipe, prepared: Prepared, task: Task, split: str) -> tuple[list[str], list[str]]:
    """Sources and references of a split, as they were when the data was prepared."""
    pairs = prepared.text(task.language, split, recipe.data)
    into = 0 if task.direction.to_pivot else 1
    return [pair[1 - into] for pair in pairs], [pair[into] for pair in pairs]


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_text(path, "".join(line + "\n" for line in lines))


def _content(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def run_translate(run: Path, split: str = "test") -> list[Path]:
    """Translates a split of every task with the best checkpoint; gives the files written."""
    return Evaluation(run, split).translate()


def run_score(
    run: Path, split: str = "test", *, scorers: Mapping[str, str] | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Scores the translations of a split, translated first if they are not there; writes scores.json."""
    scores = Evaluation(run, split).score(scorers)
    if not quiet:
        print_scores(scores)
    return scores
