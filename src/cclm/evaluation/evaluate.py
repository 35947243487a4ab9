"""Translates and scores a trained run, and does so again when its checkpoint, data or beam search has changed.

Zero-shot pairs of a many-to-many model are scored too: pairs of languages that were both trained only with the pivot.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cclm.atomic import atomic_text
from cclm.data.prepared import Prepared
from cclm.data.scripts import is_without_spaces
from cclm.errors import DataError
from cclm.evaluation.external import earlier_scores, external_scores
from cclm.evaluation.scores import Sentences, off_target_rates, read_lines, row_of, score
from cclm.formats.run_folder import best_of, is_bitext, weights_of
from cclm.formats.scores import Scores, Translations
from cclm.messages import announce
from cclm.progress_bar import Progress, shown
from cclm.recipe.schema import Recipe
from cclm.training.lock import Lock
from cclm.training.run_inputs import data_of, recipe_of, tasks_of
from cclm.training.tasks import Task
from cclm.translation.model import Model, load, refuse_other_data

MAX_PAIRS = 56
"""All pairs of 8 languages in both directions. The number of pairs, and the time, grows quadratically."""


@dataclass(frozen=True)
class ZeroShotPair:
    """A pair of languages other than the pivot, with the test sentences that share a pivot sentence."""

    source: str
    target: str
    sources: list[str]
    references: list[str]

    @property
    def name(self) -> str:
        """The key in `zero_shot` of scores.json."""
        return f"{self.source}-{self.target}"


def zero_shot_pairs(
    tasks: Mapping[str, Task], texts_of: Callable[[Task], tuple[list[str], list[str]]]
) -> dict[str, ZeroShotPair]:
    """The pairs that have references: the test sets of both languages share sentences of the pivot.

    `texts_of(task)` returns the sources and references of a task. Only languages that are translated both into the
    pivot and from it have pairs.
    """
    from_pivot = {task.target for task in tasks.values() if not task.direction.to_pivot}
    both_ways = [task for task in tasks.values() if task.direction.to_pivot and task.source in from_pivot]
    count = len(both_ways) * (len(both_ways) - 1)
    if count > MAX_PAIRS:
        warnings.warn(f"{count:,} zero-shot pairs are not scored: more than {MAX_PAIRS}", stacklevel=2)
        return {}
    by_pivot = {task.source: _by_pivot(*texts_of(task)) for task in both_ways}
    pairs = {}
    for source, ours in by_pivot.items():
        for target, theirs in by_pivot.items():
            shared = [sentence for sentence in ours if sentence in theirs] if source != target else []
            if shared:
                sides = ([side[sentence] for sentence in shared] for side in (ours, theirs))
                pair = ZeroShotPair(source, target, *sides)
                pairs[pair.name] = pair
    return pairs


def _by_pivot(sentences: list[str], pivot: list[str]) -> dict[str, str]:
    """The sentences of a language by pivot sentence: the first of several, without empty ones."""
    by_pivot: dict[str, str] = {}
    for sentence, pivot_sentence in zip(sentences, pivot, strict=True):
        if sentence.strip() and pivot_sentence.strip():
            by_pivot.setdefault(pivot_sentence, sentence)
    return by_pivot


KINDS = ("", "reference", "source")
"""The files of a task: translations (no suffix), references and sources."""


class Evaluation:
    """The translations and scores of one split of a run, or of all bitext runs as one system."""

    def __init__(self, run: Path, split: str = "test", recipe: Recipe | None = None) -> None:
        self.run, self.split = run, split
        self.recipe = recipe or recipe_of(run)
        self.prepared = data_of(run, self.recipe)
        all_tasks = tasks_of(run, self.recipe, self.prepared)
        self.tasks = {name: task for name, task in all_tasks.items() if split in self.prepared.sizes[task.language]}
        self.left_out = [name for name in all_tasks if name not in self.tasks]
        if not self.tasks:
            raise DataError(f"no language has a {split} set: there is nothing to translate")
        for model in self._models():
            refuse_other_data(model, self.prepared)

    def made_from(self) -> Translations:
        """Everything that determines the translations; it is also part of the signature of the scores."""
        settings = self.recipe.translation
        checkpoints = {}
        for model in self._models():
            best = best_of(model)
            checkpoints[model.name] = f"{best.name} {weights_of(best)[:16]}"
        return Translations(
            split=self.split,
            checkpoint=checkpoints if is_bitext(self.run) else checkpoints[self.run.name],
            data=self.prepared.fingerprint[:16],
            beam=settings.beam,
            length_penalty=settings.length_penalty,
            **({} if self.recipe.data.direction == "many-to-one" else {"restrict": self.recipe.restricts}),
        )

    @cached_property
    def zero_shot(self) -> dict[str, ZeroShotPair]:
        """The zero-shot pairs with references; only many-to-many models have any."""
        if self.recipe.data.direction != "many-to-many" or is_bitext(self.run):
            return {}
        return zero_shot_pairs(self.tasks, lambda task: texts(self.recipe, self.prepared, task, self.split))

    def translated(self) -> list[Path] | None:
        """The files with the translations if they are complete and from the current checkpoint, data and settings."""
        is_current = Translations.find(self._marker) == self.made_from()
        return self._files() if is_current and self._read() is not None else None

    def scored(self) -> Scores | None:
        """The scores in scores.json if they belong to the current translations."""
        scores = Scores.find(self.run / "scores.json")
        is_current = scores is not None and scores.signature.describes(self.made_from())
        return scores if is_current and self.translated() else None

    def translate(self) -> list[Path]:
        """Translates every task with the best checkpoint; returns the files with the translations.

        Another process that translates or scores the run is waited for, and may have done it then.
        """
        was_done = self.translated() is not None
        with self._lock():
            if was_done or self.translated() is None:
                self._translate_all()
        return self._files()

    def _lock(self) -> Lock:
        return Lock(self._marker.parent, file=self._marker.with_name("lock"), wait=announce)

    def _translate_all(self) -> None:
        made_from = self.made_from()
        self._marker.parent.mkdir(exist_ok=True)
        # Until the marker file is written again, translations from two checkpoints may be mixed.
        self._marker.unlink(missing_ok=True)
        with shown({"translating": sum(self._sizes().values())}) as progress:
            for run, tasks in self._models().items():
                model = load(run)
                for task in tasks:
                    self._translate(task, *texts(self.recipe, self.prepared, task, self.split), model, progress)
                for pair in self.zero_shot.values():
                    self._translate(pair, pair.sources, pair.references, model, progress)
        made_from.write(self._marker)

    def lines(self) -> dict[str, Sentences]:
        """Translations, references and sources of every task; translates first if needed."""
        lines = self._read() if self.translated() else None  # without the lock: the run may be read-only
        if lines is None:
            with self._lock():
                lines = self._all_lines()
        return {name: lines[name] for name in self.tasks}

    def _all_lines(self) -> dict[str, Sentences]:
        """`lines` for every task and every zero-shot pair. Requires the lock."""
        lines = self._read() if self.translated() else None
        if lines is None:
            self._translate_all()
            lines = self._read()
        if lines is None:
            raise DataError(f"{self._marker.parent}: the translations cannot be read")
        return lines

    def groups(self) -> tuple[list[str], list[str]]:
        """The tasks of the HRLs, and those of the LRLs."""
        return self.recipe.data.by_resource({name: task.language for name, task in self.tasks.items()})

    def score(self, scorers: Mapping[str, str] | None = None, timeout: float | None = None) -> Scores:
        """Computes the scores and writes scores.json; `scorers` maps names of external scorers to their commands.

        Earlier scores of external scorers are kept if they belong to the same translations. A scorer that takes longer
        than `timeout` seconds is killed, and DataError is raised. Waits for another process that scores the run.
        """
        was_done = self.scored() is not None
        with self._lock():
            scores = None if was_done or scorers else self.scored()
            return scores or self._score(scorers or {}, timeout)

    def ensure_scores(self) -> Scores:
        """The scores, computed only if there are none for these translations."""
        return self.scored() or self.score()

    def _score(self, scorers: Mapping[str, str], timeout: float | None) -> Scores:
        before, lines = self.scored(), self._all_lines()
        task_lines = {name: lines[name] for name in self.tasks}
        hrls, lrls = self.groups()
        systems = {name: (texts.translations, texts.references) for name, texts in task_lines.items()}
        scores = score(systems, high_resource=hrls, low_resource=lrls)
        rows, signature = dict(scores.languages), self.made_from().plain()
        rows |= {name: row_of(lines[name].translations, lines[name].references) for name in self.zero_shot}
        targets = {name: pair.target for name, pair in self._pairs().items()}
        if rates := off_target_rates(self.recipe.data, targets, lines):
            signature["off_target"] = rates[0]
            rows = {name: {**row, **rates[1].get(name, {})} for name, row in rows.items()}
        external = earlier_scores(before, self.tasks) | external_scores(scorers, self.tasks, task_lines, timeout)
        if external:
            commands = {**(before.signature.scorers if before else {}), **scorers}
            signature["scorers"] = {scorer: commands[scorer] for scorer in external}
            for name in self.tasks:
                rows[name] = {**rows[name], **{scorer: by_task[name] for scorer, by_task in external.items()}}
        spaceless = [name for name in rows if is_without_spaces(Counter("".join(lines[name].references)))]
        scores = scores.model_copy(
            update={
                "languages": {name: rows[name] for name in self.tasks},
                "signature": scores.signature.model_copy(update=signature),
                **({"zero_shot": {name: rows[name] for name in self.zero_shot}} if self.zero_shot else {}),
                **({"left_out": self.left_out} if self.left_out else {}),
                **({"without_spaces": spaceless} if spaceless else {}),
            }
        )
        scores.write(self.run / "scores.json")
        return scores

    def _models(self) -> dict[Path, list[Task]]:
        """The runs whose models translate, each with its tasks; a bitext system has one run per task."""
        if is_bitext(self.run):
            return {self.run / name: [task] for name, task in self.tasks.items()}
        return {self.run: list(self.tasks.values())}

    def _translate(
        self, pair: Task | ZeroShotPair, sources: list[str], references: list[str], model: Model, progress: Progress
    ) -> None:
        translations = model.stream(
            sources, model.pair(pair.source, pair.target), cut=True, progress=lambda n: progress("translating", n)
        )
        _write(self._file(pair), translations)
        _write(self._file(pair, "reference"), references)
        _write(self._file(pair, "source"), sources)

    def _read(self) -> dict[str, Sentences] | None:
        """The lines of every pair; None if a file is missing, not UTF-8, or of another length than its test set."""
        lines, sizes = {}, self._sizes()
        for name, pair in self._pairs().items():
            try:
                lines[name] = Sentences(*(read_lines(self._file(pair, kind)) for kind in KINDS))
            except (OSError, ValueError):
                return None
            if {len(side) for side in lines[name]} != {sizes[name]}:
                return None
        return lines

    def _pairs(self) -> dict[str, Task | ZeroShotPair]:
        """The tasks and the zero-shot pairs."""
        return {**self.tasks, **self.zero_shot}

    def _sizes(self) -> dict[str, int]:
        """The number of sentences of every task and zero-shot pair."""
        sizes = {name: self.prepared.sizes[task.language][self.split] for name, task in self.tasks.items()}
        return sizes | {name: len(pair.sources) for name, pair in self.zero_shot.items()}

    @property
    def _marker(self) -> Path:
        """Records the origin of the translations; the file exists only if all of them are complete."""
        return self.run / "translations" / f"{self.split}.json"

    def _files(self) -> list[Path]:
        return [self._file(pair) for pair in self._pairs().values()]

    def _file(self, pair: Task | ZeroShotPair, kind: str = "") -> Path:
        stem = f"{self.split}.{pair.source}-{pair.target}"
        return self.run / "translations" / (f"{stem}.{kind}.txt" if kind else f"{stem}.txt")


def texts(recipe: Recipe, prepared: Prepared, task: Task, split: str) -> tuple[list[str], list[str]]:
    """Sources and references of a split, from the prepared data."""
    pairs = prepared.text(task.language, split, recipe.data)  # (pivot, other language)
    target = 0 if task.direction.to_pivot else 1
    return [pair[1 - target] for pair in pairs], [pair[target] for pair in pairs]


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_text(path, "".join(line + "\n" for line in lines))
