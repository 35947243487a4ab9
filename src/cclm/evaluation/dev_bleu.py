"""BLEU on the dev sets during training: the current weights are exported and translate as a finished run would."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.evaluation.evaluate import texts
from cclm.evaluation.scores import bleu
from cclm.model.interface import TranslationModel
from cclm.recipe.schema import Recipe
from cclm.training.tasks import tasks
from cclm.translation.export import TrainedFor, export_unchecked
from cclm.translation.model import Model


class DevBleu:
    """Translates the dev set of every task as `cclm translate --split dev` does, and returns its BLEU."""

    def __init__(self, recipe: Recipe, prepared: Prepared, run: Path) -> None:
        self._trained_for = TrainedFor(recipe, prepared, tasks(recipe.data, prepared))
        self._recipe, self._folder = recipe, run / "ctranslate2-dev"
        self._texts = {name: texts(recipe, prepared, task, "dev") for name, task in self._trained_for.tasks.items()}

    def __call__(self, model: TranslationModel, poll: Callable[[], None]) -> dict[str, float]:
        """BLEU by task. `poll` is called after every batch and may raise, to stop the translation."""
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            export_unchecked(model.trained(), self._trained_for, self._folder)
            exported = Model(
                self._folder,
                beam=self._recipe.translation.beam,
                length_penalty=self._recipe.translation.length_penalty,
                restrict=self._recipe.restricts,
                threads=torch.get_num_threads(),
            )
            return {name: self._bleu(name, exported, poll) for name in self._texts}
        except OSError as error:
            raise TrainingError(f"{self._folder}: cannot be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _bleu(self, name: str, model: Model, poll: Callable[[], None]) -> float:
        task, (sources, references) = self._trained_for.tasks[name], self._texts[name]
        pair = model.pair(task.source, task.target)
        return bleu(list(model.stream(sources, pair, cut=True, progress=lambda _: poll())), references)
