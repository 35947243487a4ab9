"""The benchmark losses L*: trains one bitext model per language, or one multilingual model, and caches the result by a
hash of its inputs."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.languages import listed
from cclm.data.prepared import Corpus, Prepared
from cclm.data.pretrained import is_run
from cclm.data.work_folder import WorkFolder, key_of
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.early_checks import read_losses, refuse_missing_losses, refuse_no_losses
from cclm.experiments.executor import (
    ALL_TASKS,
    Executor,
    Job,
    Watcher,
    ignore_events,
    processes_for,
    read_recipe,
    save_recipe,
)
from cclm.experiments.multilingual import at_level, multilingual_recipe, untrained_model
from cclm.formats.benchmark import Benchmark
from cclm.formats.log import Event, Log, Stopped
from cclm.formats.run import LOG, MADE_FROM, MadeFrom
from cclm.formats.run_folder import MULTILINGUAL, RECIPE, tokens_of
from cclm.messages import Say
from cclm.recipe.schema import BenchmarkSection, Recipe
from cclm.training.lock import Lock
from cclm.training.provenance import precision_of_run
from cclm.training.tasks import Task, tasks

WARNINGS = 3
"""Bitext models that have a warning of their own; one line names the others."""


def unigram_loss(prepared: Prepared, task: Task, *, symbols: int, smoothing: float) -> float:
    """The dev loss, in bits per target token, of a model that only knows how frequent each target symbol is.

    Frequencies are those of the training text, plus one each; label smoothing as in the dev loss of a training.
    """
    counts = 1 + _counts(prepared.corpus(task.language, "train"), task, symbols)
    bits = np.log2(counts.sum()) - np.log2(counts)
    dev = _counts(prepared.corpus(task.language, "dev"), task, symbols)
    return float((1 - smoothing) * (dev @ bits) / dev.sum() + smoothing * bits.mean())


def _counts(corpus: Corpus, task: Task, symbols: int) -> NDArray[np.float64]:
    """How often each symbol occurs on the target side, </s> included."""
    side = int(task.direction.to_pivot)
    target = np.repeat(np.arange(2 * len(corpus)) % 2 == side, np.diff(corpus.offsets))
    counts = np.bincount(np.asarray(corpus.tokens)[target], minlength=symbols).astype(np.float64)
    counts[task.direction.marks.end] += len(corpus)
    for tag in task.direction.predicted_tag:
        counts[tag] += len(corpus)
    return counts


def as_bitext(recipe: Recipe) -> Recipe:
    """The recipe with bitext models as the method: a study has them as a system, wherever L* comes from."""
    if recipe.benchmark.method in ("bitext", "file"):
        return recipe
    return recipe.model_copy(update={"benchmark": BenchmarkSection()})


def reference_recipe(recipe: Recipe) -> Recipe:
    """The recipe of the trainings that L* comes from."""
    return multilingual_recipe(recipe) if recipe.benchmark.source == "multilingual" else bitext_recipe(recipe)


def bitext_recipe(recipe: Recipe) -> Recipe:
    """The recipe of a bitext model: data, vocabulary, model and training as in the recipe, without a curriculum."""
    recipe = as_bitext(recipe)
    training = recipe.training.model_copy(
        update={
            "max_steps": recipe.benchmark.max_steps or recipe.training.max_steps,
            "stop_on": "macro",
            "select_on": "macro",
            "bleu": False,  # L* is a loss
        }
    )
    content = recipe.model_dump(mode="json", exclude={"graph"})
    content["model"] = untrained_model(recipe)
    content["name"] = "bitext"  # runs of any name share them
    content["curriculum"] = {
        "gate": {"name": "all"},
        "sampler": {"name": "temperature", "tau": 1.0},
        "every": training.validate_every,
        "dev_sample": recipe.curriculum.dev_sample,  # with null, a run that was begun keeps its own
    }
    content["training"] = training.model_dump(mode="json")
    return Recipe.model_validate(content)


NOT_DECISIVE = {"patience", "device", "save_every"}
"""Settings of training that may change without training L* again. `patience` is one of them although it may select an
earlier checkpoint: L* is a reference, and retraining all bitext models for it is not worth the hours."""
TRAINING_0_1_0 = (
    "batch_tokens", "accumulate", "learning_rate", "warmup", "label_smoothing", "clip", "max_steps", "validate_every",
    "patience", "stop_on", "select_on", "bleu", "precision", "device",
)  # fmt: skip
MODEL_0_1_0 = (
    "layers", "heads", "width", "feed_forward", "dropout", "attention_dropout", "activation_dropout",
)  # fmt: skip


def resolved(recipe: Recipe) -> Recipe:
    """The recipe with the precision that `auto` stands for on this machine."""
    if recipe.training.precision != "auto":
        return recipe
    from cclm.training.device import device_of  # imports torch: only if the precision is `auto`

    return recipe.with_training(precision=device_of(recipe.training.device, width=recipe.model.width).precision)


def fingerprint(recipe: Recipe, prepared: Prepared) -> str:
    """Identifies everything that makes L*: data, vocabularies, direction, model, training."""
    return _fingerprint(resolved(recipe), prepared)


def _fingerprint(recipe: Recipe, prepared: Prepared) -> str:
    one = recipe.benchmark.source == "multilingual"
    decisive = {"seed", "model", "training", *({"curriculum"} if one else ())}
    content = reference_recipe(recipe).model_dump(mode="json", include=decisive)
    training = {name: value for name, value in content["training"].items() if name not in NOT_DECISIVE}
    made = content | {"training": training} | ({"method": MULTILINGUAL} if one else {})
    return key_of([prepared.fingerprint, recipe.data.direction, made])


def fingerprint_0_1_0(recipe: Recipe, prepared: Prepared) -> str:
    """The fingerprint that version 0.1.0 gave the same L*."""
    bitext = bitext_recipe(recipe).model_dump(mode="json", include={"seed", "model", "training"})
    bitext["training"] = {name: bitext["training"][name] for name in TRAINING_0_1_0}
    bitext["model"] = {name: bitext["model"][name] for name in MODEL_0_1_0 if name in bitext["model"]}
    made = [prepared.fingerprint, recipe.data.direction, bitext]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def _accepted(recipe: Recipe, prepared: Prepared) -> set[str]:
    """The fingerprints that this L* may have: that of today, and those of earlier versions."""
    exact = resolved(recipe)
    if recipe.benchmark.source == "multilingual":
        return {_fingerprint(exact, prepared)}
    return {_fingerprint(exact, prepared), fingerprint_0_1_0(exact, prepared), fingerprint_0_1_0(recipe, prepared)}


def benchmark_key(recipe: Recipe, prepared: Prepared) -> str:
    """The key of L*, and of the models that it comes from, in the cache.

    Earlier versions put `auto` into the key instead of the precision. Such an entry is reused if its models were
    trained in the precision that is requested now.
    """
    work, exact = WorkFolder(Path(recipe.work)), resolved(recipe)
    key, old = (_fingerprint(each, prepared)[:16] for each in (exact, recipe.with_training(precision="auto")))
    if not work.entry("benchmark", key).exists():
        models = [path.parent for path in work.entry("benchmark", old).glob(f"*/{MADE_FROM}")]
        if models and precision_of_run(models[0]) == exact.training.precision:
            return old
    return key


def bitext_folder(recipe: Recipe, prepared: Prepared) -> Path:
    """The folder of the bitext models: one run directory per task, their recipe, and benchmark.json."""
    return reference_folder(as_bitext(recipe), prepared)


def reference_folder(recipe: Recipe, prepared: Prepared) -> Path:
    """The folder of L* and of the trainings that it comes from."""
    return WorkFolder(Path(recipe.work)).entry("benchmark", benchmark_key(recipe, prepared))


def inherited_losses(recipe: Recipe) -> dict[str, float]:
    """If the recipe continues a run, L* of that run's tasks, for which no bitext model is trained again."""
    if not is_run(recipe.model.pretrained):
        return {}
    found = MadeFrom.find(Path(str(recipe.model.pretrained)) / MADE_FROM)
    return dict(found.benchmark or {}) if found else {}


def benchmark(
    recipe: Recipe,
    prepared: Prepared,
    *,
    executor: Executor | None = None,
    watcher: Watcher = ignore_events,
    say: Say = print,
) -> dict[str, float]:
    """L* of every task: from the user's table, from an earlier benchmark, or trained now."""
    refuse_no_losses(recipe)
    losses = known_losses(recipe, prepared, say)
    if losses is not None:
        return losses
    with cache_lock(WorkFolder(Path(recipe.work)), "benchmark", benchmark_key(recipe, prepared), say):
        losses = known_losses(recipe, prepared, say)  # another process may have trained it meanwhile
        if losses is None:
            found = _trained(recipe, prepared, executor or processes_for(recipe.training.device), watcher, say)
            found.write(_file(recipe, prepared))
            losses = at_level(found.losses, recipe)  # the cached losses are not shifted
    return losses


def _trained(recipe: Recipe, prepared: Prepared, executor: Executor, watcher: Watcher, say: Say) -> Benchmark:
    """Trains the models that L* comes from; finished ones are not trained again."""
    names = list(tasks(recipe.data, prepared))
    jobs = reference_jobs(recipe, prepared)
    _train_all(jobs, executor, _Announcer(watcher, say, len(jobs), names), say)
    trained = {name: best_loss(job.folder, name) for job in jobs for name in _tasks_of(job, names)}
    known = trained if recipe.benchmark.source == "multilingual" else inherited_losses(recipe) | trained
    losses = {name: known[name] for name in names}
    _warn_of_useless(losses, recipe, prepared, say)
    return Benchmark(
        losses=losses,
        fingerprint=fingerprint(recipe, prepared),
        method=recipe.benchmark.source,
        target_tokens=sum(tokens_of(job.folder) for job in jobs),
    )


def _tasks_of(job: Job, names: Sequence[str]) -> list[str]:
    """The tasks whose L* a job gives."""
    return list(names) if job.only == ALL_TASKS else [job.name]


def cache_lock(work: WorkFolder, kind: str, key: str, say: Say) -> Lock:
    """The lock for writing an entry of the cache. Waits while another process holds it."""
    return Lock(work.entry(kind, key), file=work.lock_file(kind, key), wait=say)


def _warn_of_useless(losses: dict[str, float], recipe: Recipe, prepared: Prepared, say: Say) -> None:
    """Competence is relative to L*: a bitext model that has learned nothing makes every model look competent."""
    floors = {}
    for name, task in tasks(recipe.data, prepared).items():
        symbols = len(prepared.pivot if task.direction.to_pivot else prepared.other)
        floor = unigram_loss(prepared, task, symbols=symbols, smoothing=recipe.training.label_smoothing)
        if losses[name] > floor:
            floors[name] = floor
    which = "the multilingual model" if recipe.benchmark.source == "multilingual" else "its bitext model"
    for name in list(floors)[:WARNINGS]:
        say(
            f"warning: L* of {name} is {losses[name]:.2f} bits per token, worse than the {floors[name]:.2f} of a"
            f" unigram model: {which} has learned nothing; raise benchmark.max_steps or training.learning_rate"
        )
    if more := list(floors)[WARNINGS:]:
        of = "languages" if recipe.benchmark.source == "multilingual" else "bitext models"
        say(f"warning: the same holds for {len(more)} more of the {len(losses)} {of}: {listed(more)}")


def known_losses(recipe: Recipe, prepared: Prepared, say: Say = lambda line: None) -> dict[str, float] | None:
    """L* from the user's table or from the cache; None if it has to be trained."""
    if recipe.benchmark.file:
        return _given(Path(recipe.benchmark.file), recipe, prepared, say)
    found = cached(recipe, prepared) if recipe.benchmark.source != "none" else None
    return at_level(found.losses, recipe) if found else None


def cached(recipe: Recipe, prepared: Prepared) -> Benchmark | None:
    """An earlier benchmark with the same inputs."""
    # A missing or damaged benchmark.json is rebuilt from the bitext models; finished ones are not trained again.
    accepted, as_auto = _accepted(recipe, prepared), _fingerprint(recipe.with_training(precision="auto"), prepared)
    found = Benchmark.find(_file(recipe, prepared))
    if found and found.fingerprint in {*accepted, as_auto}:
        return found
    found = Benchmark.find(Path(recipe.work) / "benchmark.json")
    return found if found and found.fingerprint in accepted else None


def _file(recipe: Recipe, prepared: Prepared) -> Path:
    return reference_folder(recipe, prepared) / "benchmark.json"


def write_bitext_recipe(recipe: Recipe, prepared: Prepared) -> None:
    """Writes the recipe of the bitext models, for their processes and for whoever translates with them later.

    Once L* exists, only the `translation` section of this file is updated.
    """
    folder, bitext = bitext_folder(recipe, prepared), bitext_recipe(resolved(recipe))
    if (folder / "benchmark.json").exists() and (folder / RECIPE).exists():
        bitext = read_recipe(folder / RECIPE).model_copy(update={"translation": recipe.translation})
    save_recipe(folder / RECIPE, bitext)


def best_loss(folder: Path, task: str) -> float:
    """The dev loss of a finished run at its selected checkpoint."""
    best = Log.read(folder / LOG).best
    loss = best.dev_loss.get(task) if best else None
    if loss is None:
        raise TrainingError(
            f"{folder}: the dev loss of {task} was never finite: lower training.learning_rate; if the log is damaged,"
            " delete the folder"
        )
    return loss


def bitext_jobs(recipe: Recipe, prepared: Prepared) -> list[Job]:
    """The trainings of all bitext models of a recipe."""
    write_bitext_recipe(recipe, prepared)
    folder = bitext_folder(recipe, prepared)
    names = [name for name in tasks(recipe.data, prepared) if name not in inherited_losses(recipe)]
    return [Job(name, folder / RECIPE, folder / name, prepared.folder, only=name) for name in names]


def reference_jobs(recipe: Recipe, prepared: Prepared) -> list[Job]:
    """The trainings that L* of a recipe comes from."""
    if recipe.benchmark.source != "multilingual":
        return bitext_jobs(recipe, prepared)
    folder = reference_folder(recipe, prepared)
    path = folder / f"{MULTILINGUAL}.json"
    save_recipe(path, multilingual_recipe(resolved(recipe)))
    return [Job(MULTILINGUAL, path, folder / MULTILINGUAL, prepared.folder, only=ALL_TASKS)]


@dataclass
class _Announcer:
    """A watcher that also prints each L* as soon as it is known, and how long the others will take."""

    watcher: Watcher
    say: Say
    jobs: int
    tasks: Sequence[str]
    done: set[str] = field(default_factory=set)
    start: float = field(default_factory=time.monotonic)

    def __call__(self, job: Job, event: Event) -> None:
        self.watcher(job, event)
        if isinstance(event, Stopped):
            self.done.add(job.name)  # a training that was extended stops twice
            if job.only == ALL_TASKS:
                losses = [best_loss(job.folder, name) for name in self.tasks]
                self.say(f"{job.name}: L* of {len(losses)} languages, {min(losses):.3f} to {max(losses):.3f} bits")
                return
            left = (time.monotonic() - self.start) / len(self.done) * (self.jobs - len(self.done))
            rest = "" if not left else f", {left / 60:.0f} min left" if left >= 60 else f", {left:.0f} s left"
            loss = best_loss(job.folder, job.name)
            self.say(f"bitext {job.name}: L* {loss:.3f} bits ({len(self.done)} of {self.jobs}{rest})")


def _train_all(jobs: list[Job], executor: Executor, watcher: Watcher, say: Say) -> None:
    """Trains the models that L* comes from. One that fails does not stop the others, but then there is no L*."""
    failed = executor.run(jobs, watcher, say=say)
    if failed:
        kinds = {
            job.name: "multilingual training" if job.only == ALL_TASKS else f"bitext model of {job.name}"
            for job in jobs
        }
        raise TrainingError("; ".join(f"{kinds[name]} failed: {why}" for name, why in failed.items()))


def _as_multilingual(recipe: Recipe) -> Recipe:
    return recipe.model_copy(
        update={"benchmark": BenchmarkSection(method="multilingual", max_steps=recipe.benchmark.max_steps)}
    )


def _given(path: Path, recipe: Recipe, prepared: Prepared, say: Say) -> dict[str, float]:
    """L* from the user's table. Without a fingerprint it is used with a warning; with another one it is refused."""
    found = read_losses(path)
    refuse_missing_losses(path, found, recipe.data)
    if found.fingerprint is None:
        say(f"warning: {path} has no fingerprint; it is used without checking that it belongs to this data")
    elif found.fingerprint not in _accepted(recipe, prepared) | _accepted(_as_multilingual(recipe), prepared):
        raise ConfigError(f"benchmark.file {path} was made with other data or settings; run `cclm benchmark` again")
    return {name: found.losses[name] for name in tasks(recipe.data, prepared)}
