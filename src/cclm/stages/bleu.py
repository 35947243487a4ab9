"""BLEU on the dev sets while a model trains: its live weights, through the export and the beam that it ends with."""

import shutil
from collections.abc import Callable
from pathlib import Path

import torch

from cclm.data.prepared import Prepared
from cclm.evaluation.scores import bleu
from cclm.model.transformer import Transformer
from cclm.recipe import Recipe
from cclm.stages.evaluate import hypotheses, texts, vocabularies
from cclm.training.errors import TrainingError
from cclm.training.tasks import tasks
from cclm.translation.export import export
from cclm.translation.translate import Translator


class DevBleu:
    """Translates the dev set of every task, as `cclm translate --split dev` would, and gives each one's BLEU."""

    def __init__(self, recipe: Recipe, prepared: Prepared, run: Path) -> None:
        self._recipe, self._prepared, self._folder = recipe, prepared, run / "ctranslate2-dev"
        self._tasks = tasks(recipe.data, prepared)
        self._references = {
            name: [target for _, target in texts(recipe, task, "dev")] for name, task in self._tasks.items()
        }

    def __call__(self, model: Transformer, poll: Callable[[], None]) -> dict[str, float]:
        """BLEU of each task; `poll` is asked after every batch and may raise."""
        self._export(model)
        try:
            translator = Translator(self._folder, threads=torch.get_num_threads())
            return {name: self._of(name, translator, poll) for name in self._tasks}
        finally:
            shutil.rmtree(self._folder)

    def _export(self, model: Transformer) -> None:
        source, target = vocabularies(self._recipe, self._prepared)
        try:
            export(
                {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()},
                heads=self._recipe.model.heads,
                source_symbols=source.symbols,
                target_symbols=target.symbols,
                folder=self._folder,
            )
        except OSError as error:
            raise TrainingError(f"{self._folder}: could not be written: {error.strerror or error}") from None

    def _of(self, name: str, translator: Translator, poll: Callable[[], None]) -> float:
        task = self._tasks[name]
        found = hypotheses(self._recipe, self._prepared, task, "dev", translator, lambda stage, amount: poll())
        return bleu(found, self._references[name])
