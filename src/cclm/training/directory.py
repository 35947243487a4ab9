"""A run directory as a command is given it: its recipe, its tasks, its best checkpoint."""

import json
import os
from pathlib import Path
from typing import Any

from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.recipe.loading import check
from cclm.recipe.schema import Recipe
from cclm.training.tasks import Task, tasks

RECIPE = "recipe.json"
"""In the folder of the bitext models, which is not a run itself and has no config.yaml."""


def is_bitext(run: Path) -> bool:
    """Whether this is the folder of the bitext runs, which together are one system: each translates its own task."""
    return (run / RECIPE).exists()


def recipe_of(run: Path) -> Recipe:
    """The recipe that a run, or a folder of bitext runs, was made with; its work folder is where the run is now."""
    path = run / RECIPE if is_bitext(run) else run / "config.yaml"
    if not path.exists():
        raise ConfigError(f"{run}: no run here (it has no config.yaml)")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: damaged: {error}") from None
    recipe = check(Recipe, content, str(path))
    return recipe.model_copy(update={"work": str(work_of(run))})


def work_of(run: Path) -> Path:
    """The work folder of a run, by its path as it was given, or else with symbolic links followed.

    `work/runs` may be a link to another disk: the work folder is then beside the link. A link to a single run leads to
    a folder in another one's work folder.
    """
    up = 2 if is_bitext(run.resolve().parent) else 1
    given = Path(os.path.abspath(run)).parents[up]
    return given if (given / "prepared").is_dir() else run.resolve().parents[up]


def tasks_of(run: Path, recipe: Recipe, prepared: Prepared) -> dict[str, Task]:
    """All tasks, or the one that a bitext model was trained for: its folder has the task's name."""
    made = tasks(recipe.data, prepared)
    return {run.name: made[run.name]} if is_bitext(run.resolve().parent) and run.name in made else made


def best_of(run: Path) -> Path:
    """The best checkpoint."""
    path = run / "checkpoints" / "best"
    if not path.exists():
        raise ConfigError(f"{run}: no checkpoint yet; train it first")
    return path.with_name(path.read_text(encoding="utf-8").strip())


def weights_of(checkpoint: Path) -> str:
    """What identifies the weights of a checkpoint: their checksum, as its manifest has it."""
    try:
        manifest: dict[str, Any] = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
        return str(manifest["files"]["model.safetensors"]["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        raise TrainingError(f"{checkpoint}: manifest.json is missing or damaged") from None
