"""What a run was begun with, and whether it has come to its end; asked by whoever wants to go on with it. No torch."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.recipe.schema import Recipe
from cclm.training.log import differences
from cclm.training.manifest import damage, name_of
from cclm.training.progress import Progress

FREE = {"max_steps", "patience", "device"}
"""Settings of training that may change when a run goes on: they decide how long and where, not what."""


def made_from(
    recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None, world: int = 1
) -> dict[str, Any]:
    """All that decides the result of a training, on so many ranks."""
    losses = dict(benchmark) if benchmark else None
    return {"recipe": _decisive(recipe, world), "data": prepared.fingerprint, "benchmark": losses}


def _decisive(recipe: Recipe, world: int) -> dict[str, Any]:
    ignored = {"work", "benchmark"} if recipe.training.measures_bleu else {"work", "benchmark", "translation"}
    content = recipe.model_dump(mode="json", exclude=ignored)
    training = {name: value for name, value in content["training"].items() if name not in FREE}
    # The same micro-batches make the same update, whoever computes them.
    training["accumulate x ranks"] = training.pop("accumulate") * world
    return content | {"training": training}


def write_config(folder: Path, recipe: Recipe) -> None:
    """The resolved recipe, as it is now: what may change while a run goes on stands there, too."""
    if recipe.training.precision == "auto" and (folder / "made_from.json").exists():
        begun = json.loads((folder / "made_from.json").read_text(encoding="utf-8"))["recipe"]["training"]
        training = recipe.training.model_copy(update={"precision": begun["precision"]})
        recipe = recipe.model_copy(update={"training": training})
    write_if_changed(folder / "config.yaml", recipe.model_dump_json(indent=2) + "\n")


def changes(folder: Path, now: Mapping[str, Any]) -> list[str]:
    """What is no longer as the run was begun with, each as `key: before -> now`; nothing where there is no run yet."""
    path = folder / "made_from.json"
    if not path.exists():
        return []
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        if now["recipe"]["training"]["precision"] == "auto":  # what that was then stands in the run
            before["recipe"]["training"]["precision"] = "auto"
        return differences({name: before[name] for name in now}, dict(now))
    except (ValueError, KeyError, TypeError):
        raise TrainingError(f"{path}: damaged; give the run another name, or delete {folder} to begin anew") from None


def refuse_changes(folder: Path, now: Mapping[str, Any]) -> None:
    """A change that would change the result is refused."""
    changed = changes(folder, now)
    if changed:
        raise TrainingError(
            f"{folder} was begun with other settings; go on with the same, or give the run another name\n  "
            + "\n  ".join(changed)
        )


def refuse_other_settings(folder: Path, recipe: Recipe, world: int = 1, prepared: Prepared | None = None) -> None:
    """The same for the recipe and the data alone: asked before anything is made that the run could not use."""
    data = {"data": prepared.fingerprint} if prepared else {}
    refuse_changes(folder, {"recipe": _decisive(recipe, world), **data})


def begun_with(folder: Path, recipe: Recipe) -> dict[str, float] | None:
    """L* of a run that is there: it keeps what it was begun with, though more steps would make another L*.

    None where there is no run yet, or where the recipe now has another table or bitext models of another length.
    """
    try:
        config = json.loads((folder / "config.yaml").read_text(encoding="utf-8"))
        losses = json.loads((folder / "made_from.json").read_text(encoding="utf-8"))["benchmark"]
        same = config["benchmark"] == recipe.benchmark.model_dump(mode="json") and recipe.benchmark.file is None
        return dict(losses) if losses and same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_finished(
    folder: Path, recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None, world: int = 1
) -> bool:
    """Whether the run is there, whole, made from just this, and has no step left to take."""
    if not (folder / "made_from.json").exists() or changes(folder, made_from(recipe, prepared, benchmark, world)):
        return False
    newest = newest_checkpoint(folder)
    if newest is None or damage(newest) is not None:
        return False
    progress = progress_of(newest)
    if progress.selected_step is not None and _named(newest.parent / "best") != name_of(progress.selected_step):
        return False  # killed before the best was named
    return _named(newest.parent / "latest") == newest.name and progress.is_over(recipe.training.max_steps)


def _named(pointer: Path) -> str | None:
    """The checkpoint that `latest` or `best` names."""
    return pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else None


def newest_checkpoint(folder: Path) -> Path | None:
    """The folder of the newest checkpoint."""
    return max((folder / "checkpoints").glob("step-*"), default=None)


def progress_of(checkpoint: Path) -> Progress:
    """How far the training had come."""
    return Progress.from_dict(json.loads((checkpoint / "progress.json").read_text(encoding="utf-8")))
