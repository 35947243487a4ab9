"""BLEU on the dev sets while a model trains: its live weights, through the export and the beam that it ends with."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.evaluation.evaluate import texts
from cclm.evaluation.scores import bleu
from cclm.model.transformer import Transformer
from cclm.recipe.schema import Recipe
from cclm.training.tasks import tasks
from cclm.translation.checkpoint_export import export_weights
from cclm.translation.model import Model


class DevBleu:
    """Translates the dev set of every task, as `cclm translate --split dev` would, and gives each one's BLEU."""

    def __init__(self, recipe: Recipe, prepared: Prepared, run: Path) -> None:
        self._recipe, self._prepared, self._folder = recipe, prepared, run / "ctranslate2-dev"
        self._tasks = tasks(recipe.data, prepared)
        self._texts = {name: texts(recipe, prepared, task, "dev") for name, task in self._tasks.items()}

    def __call__(self, model: Transformer, poll: Callable[[], None]) -> dict[str, float]:
        """BLEU of each task; `poll` is asked after every batch and may raise."""
        settings = self._recipe.translation
        try:
            shutil.rmtree(self._folder, ignore_errors=True)
            export_weights(model.state_dict(), self._recipe, self._prepared, self._tasks, self._folder)
            exported = Model(
                self._folder,
                beam=settings.beam,
                length_penalty=settings.length_penalty,
                threads=torch.get_num_threads(),
            )
            return {name: self._of(name, exported, poll) for name in self._tasks}
        except OSError as error:
            raise TrainingError(f"{self._folder}: could not be written: {error.strerror or error}") from None
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _of(self, name: str, model: Model, poll: Callable[[], None]) -> float:
        task, (sources, references) = self._tasks[name], self._texts[name]
        pair = model.pair(task.source, task.target)
        return bleu(list(model.stream(sources, pair, cut=True, progress=lambda _: poll())), references)
