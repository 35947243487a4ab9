"""L*: one bitext model a task, with the vocabularies and tags of all, trained until it gets no better.

Several at once, each in a process of its own with one thread. What is done stays done: a benchmark that was killed goes
on where it was, and benchmark.json is made again only when something that made it has changed.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cclm.atomic import atomic_text, write_if_changed
from cclm.data.prepared import Prepared
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.processes import Training, side_by_side
from cclm.recipe.schema import Recipe
from cclm.training.directory import RECIPE
from cclm.training.lock import Lock, owner_of
from cclm.training.provenance import changes, made_from
from cclm.training.tasks import tasks

VERSION = 1


def bitext_recipe(recipe: Recipe) -> Recipe:
    """The recipe of a bitext model: the same in everything but the curriculum, of which it needs none."""
    training = recipe.training.model_copy(
        update={
            "max_steps": recipe.benchmark.max_steps or recipe.training.max_steps,
            "stop_on": "macro",
            "select_on": "macro",
            "bleu": False,  # L* is a loss
        }
    )
    content = recipe.model_dump(mode="json", exclude={"graph"})
    content["name"] = "bitext"  # runs of any name share them
    content["curriculum"] = {
        "gate": {"name": "all"},
        "sampler": {"name": "temperature", "tau": 1.0},
        "every": training.validate_every,
        "dev_sample": recipe.curriculum.dev_sample,
    }
    content["training"] = training.model_dump(mode="json")
    return Recipe.model_validate(content)


def fingerprint(recipe: Recipe, prepared: Prepared) -> str:
    """Identifies everything that makes L*: data, vocabularies, direction, model, training."""
    bitext = bitext_recipe(recipe).model_dump(mode="json", include={"seed", "model", "training"})
    made_from = [prepared.fingerprint, recipe.data.direction, bitext]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def bitext_folder(recipe: Recipe) -> Path:
    """Where the bitext models are: a run directory each, and their recipe."""
    return Path(recipe.work) / "runs" / "bitext"


def folder_of(recipe: Recipe, task: str) -> Path:
    """The run directory of a task's bitext model."""
    return bitext_folder(recipe) / task


def benchmark(
    recipe: Recipe,
    prepared: Prepared,
    *,
    at_once: int | None = None,
    say: Callable[[str], object] = print,
    saw: Callable[[Training, dict[str, Any]], object] = lambda training, event: None,
) -> dict[str, float]:
    """L* of every task: from the user's table, from an earlier benchmark, or trained now.

    `saw` is told every event of the trainings.
    """
    losses = kept(recipe, prepared, say)
    write_recipe(recipe)
    if losses is None:
        trainings = bitext_trainings(recipe, prepared, bitext_folder(recipe), say)
        _train_all(trainings, at_once or available_cores(), say, saw)
        losses = {training.name: best_loss(training.folder, training.name) for training in trainings}
        content = {"version": VERSION, "losses": losses, "fingerprint": fingerprint(recipe, prepared)}
        atomic_text(_file(recipe), json.dumps(content, indent=1) + "\n")
    return losses


def kept(
    recipe: Recipe, prepared: Prepared, say: Callable[[str], object] = lambda line: None
) -> dict[str, float] | None:
    """L* as the user's table or an earlier benchmark has it; None where it has to be trained."""
    if recipe.benchmark.file:
        return _given(Path(recipe.benchmark.file), recipe, prepared, say)
    try:
        content = json.loads(_file(recipe).read_text(encoding="utf-8"))
        if content["version"] == VERSION and content["fingerprint"] == fingerprint(recipe, prepared):
            return dict(content["losses"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none, or damaged: made anew from the bitext models, which are still there
    return None


def _file(recipe: Recipe) -> Path:
    return Path(recipe.work) / "benchmark.json"


def write_recipe(recipe: Recipe, folder: Path | None = None) -> None:
    """The recipe of the bitext models, as a file for their processes and for who translates with them later."""
    if folder or not recipe.benchmark.file:
        place = folder or bitext_folder(recipe)
        place.mkdir(parents=True, exist_ok=True)
        write_if_changed(place / RECIPE, bitext_recipe(recipe).model_dump_json(indent=1) + "\n")


def best_loss(folder: Path, task: str) -> float:
    """The dev loss of a finished run at its selected checkpoint."""
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    best = next(event["best"] for event in reversed(events) if event["event"] == "stopped")
    chosen = next(event for event in events if event["event"] == "validation" and event["step"] == best)
    loss: float = chosen["dev_loss"][task]
    return loss


def bitext_trainings(recipe: Recipe, prepared: Prepared, folder: Path, say: Callable[[str], object]) -> list[Training]:
    """The trainings of all bitext models into this folder, which is the recipe's or another seed's."""
    write_recipe(recipe, folder)
    names = list(tasks(recipe.data, prepared))
    for name in names:
        _remove_outdated(recipe, prepared, folder / name, say)
    return [Training(name, folder / RECIPE, folder / name, only=name) for name in names]


def _train_all(
    trainings: list[Training],
    at_once: int,
    say: Callable[[str], object],
    saw: Callable[[Training, dict[str, Any]], object],
) -> None:
    """Runs the bitext trainings side by side; one that fails does not stop the others, but then there is no L*."""

    def told(training: Training, event: dict[str, Any]) -> None:
        saw(training, event)
        if event["event"] == "stopped":
            say(f"bitext {training.name}: L* {best_loss(training.folder, training.name):.3f} bits")

    failed = side_by_side(trainings, at_once, told)
    if failed:
        raise TrainingError("; ".join(f"bitext model of {name} failed: {why}" for name, why in failed.items()))


def _remove_outdated(recipe: Recipe, prepared: Prepared, folder: Path, say: Callable[[str], object]) -> None:
    """A bitext model of other data or settings serves nobody any more: its place is needed."""
    changed = changes(folder, made_from(bitext_recipe(recipe), prepared, None))
    if changed and owner_of(folder) is None:
        say(f"bitext {folder.name}: trained anew, as it was made with other settings ({changed[0]})")
        with Lock(folder):
            shutil.rmtree(folder)


def _given(path: Path, recipe: Recipe, prepared: Prepared, say: Callable[[str], object]) -> dict[str, float]:
    """A table of the user's. Without a fingerprint it is taken at its word; with another one it is refused."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        losses = {str(name): float(loss) for name, loss in content["losses"].items()}
        version = content["version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f'benchmark.file {path}: {error}; expected {{"version": 1, "losses": {{...}}}}') from None
    if version != VERSION:
        raise ConfigError(f"benchmark.file {path}: version {version!r}; this program reads {VERSION}")
    names = set(tasks(recipe.data, prepared))
    missing, bad = sorted(names - losses.keys()), sorted(n for n, v in losses.items() if not 0 < v < math.inf)
    if missing or bad:
        raise ConfigError(f"benchmark.file {path}: no usable loss for {', '.join(missing or bad)}")
    if "fingerprint" not in content:
        say(f"{path} has no fingerprint: taken as it is, though it may belong to other data")
    elif content["fingerprint"] != fingerprint(recipe, prepared):
        raise ConfigError(f"benchmark.file {path} was made with other data or settings; run `cclm benchmark` again")
    return {name: losses[name] for name in tasks(recipe.data, prepared)}
