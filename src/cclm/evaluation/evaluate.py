"""Translations and scores of a trained run: made once, and made again when what they were made from has changed."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from cclm.atomic import atomic_text
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.evaluation.external import earlier_scores, external_scores
from cclm.evaluation.scores import Lines, off_target_rates, read_lines, score
from cclm.formats.scores import Scores
from cclm.formats.translations import Translations
from cclm.progress_bar import Progress, shown
from cclm.recipe.schema import Recipe
from cclm.training.directory import best_of, data_of, is_bitext, recipe_of, tasks_of, weights_of
from cclm.training.tasks import Task
from cclm.translation.load import load, refuse_other_data
from cclm.translation.model import Model

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
        total = sum(self.prepared.sizes[task.language][self.split] for task in self.tasks.values())
        with shown({"translating": total}) as progress:
            for run, tasks in self._models().items():
                model = load(run)
                for task in tasks:
                    self._translate(task, model, progress)
        made_from.write(self._marker)
        return self._files()

    def lines(self) -> dict[str, Lines]:
        """Translations, references and sources of every task; they are translated first if that is not done yet."""
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
        before, texts = self.scored(), self.lines()
        hrls, lrls = self.groups()
        systems = {name: (lines.translations, lines.references) for name, lines in texts.items()}
        scores = score(systems, high_resource=hrls, low_resource=lrls)
        rows, signature = dict(scores.languages), dict(self.made_from())
        targets = {name: task.target for name, task in self.tasks.items()}
        if rates := off_target_rates(self.recipe.data, targets, texts):
            signature["off_target"] = rates[0]
            rows = {name: {**row, **rates[1].get(name, {})} for name, row in rows.items()}
        external = earlier_scores(before, self.tasks) | external_scores(scorers or {}, self.tasks, texts, timeout)
        if external:
            commands = {**(before.signature.scorers if before else {}), **(scorers or {})}
            signature["scorers"] = {scorer: commands[scorer] for scorer in external}
            rows = {
                name: {**row, **{scorer: external[scorer][name] for scorer in external}} for name, row in rows.items()
            }
        left_out = {"left_out": self.left_out} if self.left_out else {}
        signed = scores.signature.model_copy(update=signature)
        found = scores.model_copy(update={"languages": rows, "signature": signed, **left_out})
        found.write(self.run / "scores.json")
        return found

    def _models(self) -> dict[Path, list[Task]]:
        """Which run's model translates which tasks."""
        if is_bitext(self.run):
            return {self.run / name: [task] for name, task in self.tasks.items()}
        return {self.run: list(self.tasks.values())}

    def _translate(self, task: Task, model: Model, progress: Progress) -> None:
        sources, references = texts(self.recipe, self.prepared, task, self.split)
        translations = model.stream(
            sources, model.pair(task.source, task.target), cut=True, progress=lambda n: progress("translating", n)
        )
        _write(self._file(task), translations)
        _write(self._file(task, "reference"), references)
        _write(self._file(task, "source"), sources)

    def _read(self) -> dict[str, Lines] | None:
        """The sentences of every task; None if a file is missing, not UTF-8 or not of as many lines as the test set."""
        found = {}
        for name, task in self.tasks.items():
            try:
                found[name] = Lines(*(read_lines(self._file(task, kind)) for kind in KINDS))
            except (OSError, ValueError):
                return None
            if {len(side) for side in found[name]} != {self.prepared.sizes[task.language][self.split]}:
                return None
        return found

    @property
    def _marker(self) -> Path:
        """The file that says what the translations were made from; it exists only when all of them are complete."""
        return self.run / "translations" / f"{self.split}.json"

    def _files(self) -> list[Path]:
        return [self._file(task) for task in self.tasks.values()]

    def _file(self, task: Task, kind: str = "") -> Path:
        stem = f"{self.split}.{task.source}-{task.target}"
        return self.run / "translations" / (f"{stem}.{kind}.txt" if kind else f"{stem}.txt")


def texts(recipe: Recipe, prepared: Prepared, task: Task, split: str) -> tuple[list[str], list[str]]:
    """Sources and references of a split, as they were when the data was prepared."""
    pairs = prepared.text(task.language, split, recipe.data)
    into = 0 if task.direction.to_pivot else 1
    return [pair[1 - into] for pair in pairs], [pair[into] for pair in pairs]


def _write(path: Path, lines: Iterable[str]) -> None:
    atomic_text(path, "".join(line + "\n" for line in lines))
