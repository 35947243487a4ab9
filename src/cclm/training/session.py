"""One training as a process runs it: set up or go on, obey signals, leave everything in the run directory."""

import json
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cclm import __version__
from cclm.curriculum import Curriculum, LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.model.transformer import Shape, Transformer
from cclm.recipe import Recipe
from cclm.training import checkpoint as checkpoints
from cclm.training.errors import Interrupted, TrainingError
from cclm.training.evaluate import Evaluator
from cclm.training.made_from import made_from, refuse_changes, write_config
from cclm.training.progress import Progress
from cclm.training.run_directory import Lock, Log
from cclm.training.tasks import Task, task_graph, tasks
from cclm.training.telling import Telling
from cclm.training.trainer import Parts, Trainer, load_optimizer
from cclm.whole import write_whole


def train(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    benchmark: Mapping[str, float] | None,
    folder: Path,
    *,
    only: list[str] | None = None,
) -> str:
    """Trains into the run directory, from where it was; gives the reason of the end.

    `only` leaves all but these tasks out: the bitext models are trained so, with the vocabularies of all.
    """
    check_supported(recipe)
    made = tasks(recipe.data, prepared)
    names = {name: made[name] for name in only or made}
    device = _device(recipe.training.device)
    with Lock(folder), _signals() as poll:
        _check_same(folder, recipe, prepared, benchmark)
        parts = _parts(recipe, prepared, graph, benchmark, names, device, poll)
        saved = checkpoints.load_newest(folder / "checkpoints", print)
        progress = _restore(parts, saved) if saved else Progress()
        log = Log(folder / "log.jsonl", progress.log_bytes)
        batches = {name: len(batch) for name, batch in parts.train.items()}
        with Telling(
            recipe.name,
            max_steps=recipe.training.max_steps,
            sizes=parts.curriculum.sizes,
            batches=batches,
            timing=folder / "timing.jsonl",
        ) as telling:
            if saved:
                telling.say(f"going on from step {progress.step:,}")
            trainer = Trainer(parts, folder, progress, log, telling)
            try:
                return trainer.run(poll)
            except Interrupted:
                trainer.save(logged=False)
                raise
            finally:
                log.close()


def check_supported(recipe: Recipe) -> None:
    """Refuses, before anything is trained, what a recipe may say and the trainer cannot do yet."""
    sampler, training = recipe.curriculum.sampler.name, recipe.training
    if sampler in ("multidds", "multidds-s", "multiuat"):
        raise TrainingError(f"curriculum.sampler.name: the trainer does not measure what {sampler} needs yet")
    if training.precision == "fp16":
        raise TrainingError("training.precision: fp16 is not there yet; use fp32 or bf16")
    for name in ("stop_on", "select_on"):
        if getattr(training, name) == "bleu":
            raise TrainingError(f"training.{name}: bleu is not there yet; use weighted, macro or worst")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise TrainingError(f"training.device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None


@contextmanager
def _signals() -> Iterator[Callable[[], None]]:
    """Signals only set a flag; the function given raises at the next safe place. A second one ends at once."""
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)

    def poll() -> None:
        if received:
            raise Interrupted(received[0])

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield poll
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parts(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    benchmark: Mapping[str, float] | None,
    names: dict[str, Task],
    device: torch.device,
    poll: Callable[[], None],
) -> Parts:
    def batches(task: Task, split: str) -> Batches:
        corpus = prepared.corpus(task.language, split)
        budget = recipe.training.batch_tokens
        return Batches(corpus, task.direction, language=task.name, seed=recipe.seed, budget=budget)

    train = {name: batches(task, "train") for name, task in names.items()}
    dev = {name: batches(task, "dev") for name, task in names.items()}
    model = Transformer(shape_of(recipe, prepared), recipe.seed).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-8, fused=True)
    return Parts(
        recipe=recipe,
        model=model,
        optimizer=optimizer,
        curriculum=_curriculum(recipe, prepared, graph, benchmark, names),
        train=train,
        evaluator=Evaluator(dev, seed=recipe.seed, smoothing=recipe.training.label_smoothing, device=device, poll=poll),
        dev_sizes={name: batch.sentences for name, batch in dev.items()},
        device=device,
    )


def shape_of(recipe: Recipe, prepared: Prepared) -> Shape:
    """The model's shape: the recipe's sizes, and the vocabularies of its direction."""
    model = recipe.model
    many, one = len(prepared.other), len(prepared.pivot)
    into_pivot = recipe.data.direction == "many-to-one"
    return Shape(
        source_symbols=many if into_pivot else one,
        target_symbols=one if into_pivot else many,
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        feed_forward=model.feed_forward,
        dropout=model.dropout,
        attention_dropout=model.dropout if model.attention_dropout is None else model.attention_dropout,
        activation_dropout=model.dropout if model.activation_dropout is None else model.activation_dropout,
        joint=prepared.joint,
    )


def _curriculum(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    benchmark: Mapping[str, float] | None,
    names: dict[str, Task],
) -> Curriculum:
    sizes = {name: prepared.sizes[task.language]["train"] for name, task in names.items()}
    of_tasks = task_graph(graph, tasks(recipe.data, prepared)) if graph else None
    return recipe.curriculum.build(of_tasks, sizes=sizes, benchmark=benchmark)


def _restore(parts: Parts, saved: checkpoints.Checkpoint) -> Progress:
    parts.model.load_state_dict(saved.model)
    load_optimizer(parts.model, parts.optimizer, saved.optimizer)
    parts.curriculum.load_state_dict(saved.curriculum)
    progress = Progress.from_dict(saved.progress)
    if not progress.is_over(parts.recipe.training.max_steps):
        progress.finished = None  # more steps may be wanted now
    return progress


def _check_same(folder: Path, recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None) -> None:
    """Writes what the run is made of, or compares: a change that would change the result is refused."""
    now = made_from(recipe, prepared, benchmark)
    refuse_changes(folder, now)
    write_config(folder, recipe)
    if not (folder / "made_from.json").exists():
        write_whole(folder / "environment.json", json.dumps(_environment(prepared), indent=1) + "\n")
        write_whole(folder / "made_from.json", json.dumps(now, indent=1, ensure_ascii=False) + "\n")


def _environment(prepared: Prepared) -> dict[str, Any]:
    return {
        "version": 1,
        "cclm": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "world_size": 1,
        "data": prepared.fingerprint,
    }
