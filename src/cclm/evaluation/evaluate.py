"""Translations and scores of a trained run: made once, and made again when what they were made from has changed.

Zero-shot pairs of a many-to-many model are scored too: both languages were trained, but only with the pivot."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cclm.atomic import atomic_text
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.evaluation.external import earlier_scores, external_scores
from cclm.evaluation.scores import Lines, off_target_rates, read_lines, row_of, score
from cclm.formats.scores import Scores, Translations
from cclm.progress_bar import Progress, shown
from cclm.recipe.schema import Recipe
from cclm.training.directory import Task, best_of, data_of, is_bitext, recipe_of, tasks_of, weights_of
from cclm.translation.model import Model, load, refuse_other_data

MAX_PAIRS = 56
"""Every pair of 8 languages, both ways. Of more languages the pairs grow with the square, and so would the time."""


@dataclass(frozen=True)
class ZeroShotPair:
    """Two languages other than the pivot, and the sentences whose translation into the pivot is the same in both."""

    source: str
    target: str
    sources: list[str]
    references: list[str]

    @property
    def name(self) -> str:
        """The name of its row in scores.json."""
        return f"{self.source}-{self.target}"


def zero_shot_pairs(
    tasks: Mapping[str, Task], texts_of: Callable[[Task], tuple[list[str], list[str]]]
) -> dict[str, ZeroShotPair]:
    """The pairs that have something to compare with: test sets that share sentences of the pivot.

    `texts_of(task)` gives the sources and references of a task. There are none unless languages are translated both
    into the pivot and from it.
    """
    from_pivot = {task.target for task in tasks.values() if not task.direction.to_pivot}
    both_ways = [task for task in tasks.values() if task.direction.to_pivot and task.source in from_pivot]
    if len(both_ways) * (len(both_ways) - 1) > MAX_PAIRS:
        pairs = len(both_ways) * (len(both_ways) - 1)
        warnings.warn(f"{pairs:,} zero-shot pairs are not scored: more than {MAX_PAIRS}", stacklevel=2)
        return {}
    by_pivot = {task.source: _by_pivot(*texts_of(task)) for task in both_ways}
    found = {}
    for source, ours in by_pivot.items():
        for target, theirs in by_pivot.items():
            shared = [sentence for sentence in ours if sentence in theirs] if source != target else []
            if shared:
                sides = ([side[sentence] for sentence in shared] for side in (ours, theirs))
                pair = ZeroShotPair(source, target, *sides)
                found[pair.name] = pair
    return found


def _by_pivot(sentences: list[str], pivot: list[str]) -> dict[str, str]:
    """The sentences of a language by their translation into the pivot, the first of several; no empty ones."""
    found: dict[str, str] = {}
    for sentence, translation in zip(sentences, pivot, strict=True):
        if sentence.strip() and translation.strip():
            found.setdefault(translation, sentence)
    return found


KINDS = ("", "reference", "source")
"""The files of a task: its translations, and the references and sources beside them."""


class Evaluation:
    """Translations and scores of one split, of a run or of the bitext runs as one system."""

    def __init__(self, run: Path, split: str = "test", recipe: Recipe | None = None) -> None:
        self.run, self.split = run, split
        self.recipe = recipe or recipe_of(run)
        self.prepared = data_of(run, self.recipe)
        every = tasks_of(run, self.recipe, self.prepared)
        self.tasks = {name: task for name, task in every.items() if split in self.prepared.sizes[task.language]}
        self.left_out = [name for name in every if name not in self.tasks]
        if not self.tasks:
            raise DataError(f"no language has a {split} set: there is nothing to translate")
        for model in self._models():
            refuse_other_data(model, self.prepared)

    def made_from(self) -> Translations:
        """All that decides the translations; the signature of the scores repeats it."""
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
        )

    @cached_property
    def zero_shot(self) -> dict[str, ZeroShotPair]:
        """The zero-shot pairs of a many-to-many model that have references."""
        if self.recipe.data.direction != "many-to-many" or is_bitext(self.run):
            return {}
        return zero_shot_pairs(self.tasks, lambda task: texts(self.recipe, self.prepared, task, self.split))

    def translated(self) -> list[Path] | None:
        """The files with the translations if they are complete, of the best checkpoint and with today's settings."""
        is_current = Translations.find(self._marker) == self.made_from()
        return self._files() if is_current and self._read() is not None else None

    def scored(self) -> Scores | None:
        """The scores in scores.json if they are of these translations."""
        scores = Scores.find(self.run / "scores.json")
        is_current = scores is not None and scores.signature.describes(self.made_from())
        return scores if is_current and self.translated() else None

    def translate(self) -> list[Path]:
        """Translates every task with the best checkpoint; returns the files with the translations."""
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
        return self._files()

    def lines(self) -> dict[str, Lines]:
        """Translations, references and sources of every task; they are translated first if that is not done yet."""
        found = self._complete_lines()
        return {name: found[name] for name in self.tasks}

    def _complete_lines(self) -> dict[str, Lines]:
        """The same for every task and every zero-shot pair."""
        found = self._read() if self.translated() else None
        if found is None:
            self.translate()
            found = self._read()
        if found is None:
            raise DataError(f"{self._marker.parent}: the translations cannot be read; does another process write them?")
        return found

    def groups(self) -> tuple[list[str], list[str]]:
        """The tasks of HRLs, and those of LRLs."""
        hrls = [name for name, task in self.tasks.items() if task.language in self.recipe.data.high_resource]
        return hrls, [name for name in self.tasks if name not in hrls]

    def score(self, scorers: Mapping[str, str] | None = None, timeout: float | None = None) -> Scores:
        """Writes scores.json, with the scores of external scorers (commands by name) beside ours.

        Earlier scores of external scorers are kept if they are of the same translations. A scorer that takes longer
        than `timeout` seconds is refused.
        """
        before, every = self.scored(), self._complete_lines()
        texts = {name: every[name] for name in self.tasks}
        hrls, lrls = self.groups()
        systems = {name: (lines.translations, lines.references) for name, lines in texts.items()}
        scores = score(systems, high_resource=hrls, low_resource=lrls)
        rows, signature = dict(scores.languages), dict(self.made_from())
        rows |= {name: row_of(every[name].translations, every[name].references) for name in self.zero_shot}
        targets = {name: pair.target for name, pair in self._pairs().items()}
        if rates := off_target_rates(self.recipe.data, targets, every):
            signature["off_target"] = rates[0]
            rows = {name: {**row, **rates[1].get(name, {})} for name, row in rows.items()}
        external = earlier_scores(before, self.tasks) | external_scores(scorers or {}, self.tasks, texts, timeout)
        if external:
            commands = {**(before.signature.scorers if before else {}), **(scorers or {})}
            signature["scorers"] = {scorer: commands[scorer] for scorer in external}
            for name in self.tasks:
                rows[name] = {**rows[name], **{scorer: of_tasks[name] for scorer, of_tasks in external.items()}}
        found = scores.model_copy(
            update={
                "languages": {name: rows[name] for name in self.tasks},
                "signature": scores.signature.model_copy(update=signature),
                **({"zero_shot": {name: rows[name] for name in self.zero_shot}} if self.zero_shot else {}),
                **({"left_out": self.left_out} if self.left_out else {}),
            }
        )
        found.write(self.run / "scores.json")
        return found

    def _models(self) -> dict[Path, list[Task]]:
        """Which run's model translates which tasks."""
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

    def _read(self) -> dict[str, Lines] | None:
        """The sentences of every pair; None if a file is missing, not UTF-8, or of another length than its test set."""
        found, sizes = {}, self._sizes()
        for name, pair in self._pairs().items():
            try:
                found[name] = Lines(*(read_lines(self._file(pair, kind)) for kind in KINDS))
            except (OSError, ValueError):
                return None
            if {len(side) for side in found[name]} != {sizes[name]}:
                return None
        return found

    def _pairs(self) -> dict[str, Task | ZeroShotPair]:
        """All that is translated."""
        return {**self.tasks, **self.zero_shot}

    def _sizes(self) -> dict[str, int]:
        """The sentences of every task and of every zero-shot pair."""
        sizes = {name: self.prepared.sizes[task.language][self.split] for name, task in self.tasks.items()}
        return sizes | {name: len(pair.sources) for name, pair in self.zero_shot.items()}

    @property
    def _marker(self) -> Path:
        """The file that says what the translations were made from; it exists only when all of them are complete."""
        return self.run / "translations" / f"{self.split}.json"

    def _files(self) -> list[Path]:
        return [self._file(pair) for pair in self._pairs().values()]

    def _file(self, pair: Task | ZeroShotPair, kind: str = "") -> Path:
        stem = f"{self.split}.{pair.source}-{pair.target}"
        return self.run / "translations" / (f"{stem}.{kind}.txt" if kind else f"{stem}.txt")


def texts(recipe: Recipe, prepared: Prepared, task: Task, split: str) -> tuple[list[str], list[str]]:
    """Sources and references of a split, as they were when the data was prepared."""
    pairs = prepared.text(task.language, split, recipe.data)
    into = 0 if task.direction.to_pivot else 1
    return [pair[1 - into] for pair in pairs], [pair[into] for pair in pairs]


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_text(path, "".join(line + "\n" for line in lines))
