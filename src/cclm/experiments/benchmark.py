"""The reference losses L*: the dev loss of one bilingual (bitext) model per task, trained here or read from a table."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.experiments.executor import Job, Watcher, nobody, run_jobs
from cclm.formats.benchmark import Benchmark
from cclm.formats.log import Event, Log, Stopped
from cclm.recipe.schema import Recipe
from cclm.training.directory import RECIPE
from cclm.training.lock import Lock, owner_of
from cclm.training.provenance import changes, made_from
from cclm.training.tasks import tasks
from cclm.training.unigram import unigram_loss

Say = Callable[[str], object]


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
    bitext = bitext_recipe(recipe).model_dump(
        mode="json", include={"seed", "model", "training"}, exclude={"training": {"save_every"}}
    )
    made = [prepared.fingerprint, recipe.data.direction, bitext]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def bitext_folder(recipe: Recipe) -> Path:
    """The folder of the bitext models: one run directory per task, and their recipe."""
    return Path(recipe.work) / "runs" / "bitext"


def folder_of(recipe: Recipe, task: str) -> Path:
    """The run directory of a task's bitext model."""
    return bitext_folder(recipe) / task


def benchmark(
    recipe: Recipe, prepared: Prepared, *, at_once: int | None = None, watcher: Watcher = nobody, say: Say = print
) -> dict[str, float]:
    """L* of every task: from the user's table, from an earlier benchmark, or trained now."""
    losses = kept(recipe, prepared, say)
    write_recipe(recipe)
    if losses is None:
        jobs = bitext_jobs(recipe, prepared, bitext_folder(recipe), say)
        _train_all(jobs, at_once or available_cores(), _Announcer(watcher, say))
        losses = {job.name: best_loss(job.folder, job.name) for job in jobs}
        found = Benchmark(losses=losses, fingerprint=fingerprint(recipe, prepared))
        found.write(_file(recipe))
        _warn_of_useless(losses, recipe, prepared, say)
    return losses


def _warn_of_useless(losses: dict[str, float], recipe: Recipe, prepared: Prepared, say: Say) -> None:
    """Competence is relative to L*: a bitext model that has learned nothing makes every model look competent."""
    for name, task in tasks(recipe.data, prepared).items():
        symbols = len(prepared.pivot if task.direction.to_pivot else prepared.other)
        floor = unigram_loss(prepared, task, symbols=symbols, smoothing=recipe.training.label_smoothing)
        if losses[name] > floor:
            say(
                f"warning: L* of {name} is {losses[name]:.2f} bits per token, worse than the {floor:.2f} of a unigram"
                " model: its bitext model has learned nothing; raise benchmark.max_steps or training.learning_rate"
            )


def kept(recipe: Recipe, prepared: Prepared, say: Say = lambda line: None) -> dict[str, float] | None:
    """L* as the user's table or an earlier benchmark has it; None where it has to be trained."""
    if recipe.benchmark.file:
        return _given(Path(recipe.benchmark.file), recipe, prepared, say)
    # None, or damaged: made anew from the bitext models, which are still there.
    found = Benchmark.find(_file(recipe))
    return dict(found.losses) if found and found.fingerprint == fingerprint(recipe, prepared) else None


def _file(recipe: Recipe) -> Path:
    return Path(recipe.work) / "benchmark.json"


def write_recipe(recipe: Recipe, folder: Path | None = None) -> None:
    """Writes the recipe of the bitext models, for their processes and for whoever translates with them later."""
    if folder or not recipe.benchmark.file:
        place = folder or bitext_folder(recipe)
        place.mkdir(parents=True, exist_ok=True)
        write_if_changed(place / RECIPE, bitext_recipe(recipe).model_dump_json(indent=1) + "\n")


def best_loss(folder: Path, task: str) -> float:
    """The dev loss of a finished run at its selected checkpoint."""
    best = Log.read(folder / "log.jsonl").best
    loss = best.dev_loss.get(task) if best else None
    if loss is None:
        raise TrainingError(f"{folder}: its log has no dev loss of the selected checkpoint; delete the folder")
    return loss


def bitext_jobs(recipe: Recipe, prepared: Prepared, folder: Path, say: Say) -> list[Job]:
    """The trainings of all bitext models into this folder, which is the recipe's or another seed's."""
    write_recipe(recipe, folder)
    names = list(tasks(recipe.data, prepared))
    for name in names:
        _remove_outdated(recipe, prepared, folder / name, say)
    return [Job(name, folder / RECIPE, folder / name, only=name) for name in names]


@dataclass(frozen=True)
class _Announcer:
    """A watcher that also says each L* as soon as it is known."""

    watcher: Watcher
    say: Say

    def __call__(self, job: Job, event: Event) -> None:
        self.watcher(job, event)
        if isinstance(event, Stopped):
            self.say(f"bitext {job.name}: L* {best_loss(job.folder, job.name):.3f} bits")


def _train_all(jobs: list[Job], at_once: int, watcher: Watcher) -> None:
    """Trains the bitext models; one that fails does not stop the others, but then there is no L*."""
    failed = run_jobs(jobs, at_once, watcher)
    if failed:
        raise TrainingError("; ".join(f"bitext model of {name} failed: {why}" for name, why in failed.items()))


def _remove_outdated(recipe: Recipe, prepared: Prepared, folder: Path, say: Say) -> None:
    """A bitext model of other data or settings serves nobody any more: its place is needed."""
    changed = changes(folder, made_from(bitext_recipe(recipe), prepared, None))
    if changed and owner_of(folder) is None:
        say(f"bitext {folder.name}: trained anew, as it was made with other settings ({changed[0]})")
        with Lock(folder):
            shutil.rmtree(folder)


def _given(path: Path, recipe: Recipe, prepared: Prepared, say: Say) -> dict[str, float]:
    """A table of the user's. Without a fingerprint it is taken with a warning; with another one it is refused."""
    try:
        found = Benchmark.read(path)
    except DataError as error:
        raise ConfigError(f"benchmark.file {error}") from None
    names = tasks(recipe.data, prepared)
    missing = sorted(names.keys() - found.losses.keys())
    if missing:
        raise ConfigError(f"benchmark.file {path}: no loss for {', '.join(missing)}")
    if found.fingerprint is None:
        say(f"{path} has no fingerprint: taken as it is, though it may belong to other data")
    elif found.fingerprint != fingerprint(recipe, prepared):
        raise ConfigError(f"benchmark.file {path} was made with other data or settings; run `cclm benchmark` again")
    return {name: found.losses[name] for name in names}
