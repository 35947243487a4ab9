"""One training as a process runs it: set up or go on, obey signals, leave everything in the run directory."""

import json
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cclm import __version__
from cclm.atomic import atomic_text
from cclm.curriculum import Curriculum, LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.errors import Interrupted, TrainingError
from cclm.memory import keep_freed_memory
from cclm.model.transformer import Shape, Transformer
from cclm.recipe.methods import ActorSection
from cclm.recipe.schema import Recipe
from cclm.training import checkpoint as checkpoints
from cclm.training.adam import Adam
from cclm.training.console import Telling
from cclm.training.dev_loss import Bleu, Evaluator
from cclm.training.device import Device, device_of
from cclm.training.faults import fault
from cclm.training.forking import Followers
from cclm.training.lock import Lock
from cclm.training.log import Log, differences
from cclm.training.manifest import name_of
from cclm.training.progress import Progress
from cclm.training.provenance import FREE, made_from, refuse_changes, write_config
from cclm.training.ranks import ALONE, Ranks
from cclm.training.rewards import Rewards
from cclm.training.tasks import Task, task_graph, tasks
from cclm.training.tensorboard import TensorBoard
from cclm.training.trainer import Parts, Trainer


def train(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    benchmark: Mapping[str, float] | None,
    folder: Path,
    *,
    only: list[str] | None = None,
    ranks: Ranks = ALONE,
    bleu: Bleu | None = None,
    tensorboard: bool = False,
    followers: Mapping[str, Recipe] | None = None,
) -> str:
    """Trains into the run directory, from where it was; gives the reason of the end.

    `only` leaves all but these tasks out: the bitext models are trained so, with the vocabularies of all.
    Of several `ranks` only the first owns the directory, writes and tells; the others compute.
    `bleu` translates the dev sets, for a recipe that asks for it; `tensorboard` draws the log into the run directory.
    `followers` are recipes with other gates: they share this training as long as their curricula decide alike.
    """
    if recipe.training.measures_bleu and bleu is None:
        raise TrainingError("training.bleu: nothing translates here; set it to false, and stop_on, select_on to macro")
    made = tasks(recipe.data, prepared)
    names = {name: made[name] for name in only or made}
    device = device_of(recipe.training.device, recipe.training.precision)
    resolved = recipe.training.model_copy(update={"precision": device.precision})
    recipe = recipe.model_copy(update={"training": resolved})  # on another machine, auto might be something else
    keep_freed_memory()
    with Lock(folder) if ranks.first else nullcontext():
        _check_same(folder, recipe, prepared, benchmark, ranks)
        saved = _newest(folder / "checkpoints", ranks)
        with _signals(ranks) as poll, device.products():
            measured = bleu if recipe.training.measures_bleu else None
            parts = _parts(recipe, prepared, graph, benchmark, names, device, poll, ranks, measured)
            curricula = {
                name: _curriculum(follower, prepared, graph, benchmark, names)
                for name, follower in (followers or {}).items()
            }
            following = Followers(folder, curricula, saved.followers if saved else None)
            return _train(parts, saved, folder, poll, following, tensorboard=tensorboard and ranks.first)


def _train(
    parts: Parts,
    saved: checkpoints.Checkpoint | None,
    folder: Path,
    poll: Callable[[], None],
    followers: Followers,
    *,
    tensorboard: bool,
) -> str:
    progress = _restore(parts, saved) if saved else Progress(scale=parts.device.first_scale)
    first = parts.ranks.first
    log = Log(folder / "log.jsonl" if first else None, progress.log_bytes)
    with Telling(
        parts.recipe.name,
        progress,
        parts.curriculum.explain(),
        max_steps=parts.recipe.training.max_steps,
        batches={name: len(batches) for name, batches in parts.train.items()},
        threshold=getattr(parts.recipe.curriculum.gate, "threshold", None),
        timing=folder / "timing.jsonl" if first else None,
        aloud=first,
    ) as telling:
        if saved:
            telling.say(f"going on from step {progress.step:,}")
        if parts.device.emulates:
            telling.say(f"{parts.device.precision} is emulated: this processor multiplies in fp32, and rounds")
        drawing = TensorBoard(folder, progress.step, telling.say) if tensorboard else None
        log.listeners += [followers.heard, *([drawing.follow] if drawing else [])]
        trainer = Trainer(parts, folder, progress, log, telling, followers)
        parts.ranks.wait()  # whoever was slow to set up: from here on every rank answers within a step
        try:
            reason = trainer.run(poll)
            followers.settle()
            return reason
        except Interrupted:
            trainer.save(logged=False)
            raise
        finally:
            log.close()
            followers.close()
            if drawing:
                drawing.close()


@contextmanager
def _signals(ranks: Ranks) -> Iterator[Callable[[], None]]:
    """Signals only set a flag; the function given raises at the next safe place. A second one ends at once.

    A signal to one rank is a signal to all: they ask one another at every safe place, and raise at the same one.
    """
    received: list[int] = []

    def note(number: int, _: object) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)

    def poll() -> None:
        number = ranks.largest(received[0] if received else 0)
        if number:
            raise Interrupted(number)

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
    device: Device,
    poll: Callable[[], None],
    ranks: Ranks,
    bleu: Bleu | None,
) -> Parts:
    def batches(task: Task, split: str) -> Batches:
        corpus = prepared.corpus(task.language, split)
        budget = recipe.training.batch_tokens
        return Batches(corpus, task.direction, language=task.name, seed=recipe.seed, budget=budget)

    train = {name: batches(task, "train") for name, task in names.items()}
    dev = {name: batches(task, "dev") for name, task in names.items()}
    model = Transformer(shape_of(recipe, prepared), recipe.seed).to(device.torch)
    evaluator = Evaluator(
        dev,
        seed=recipe.seed,
        smoothing=recipe.training.label_smoothing,
        device=device,
        poll=poll,
        bleu=bleu,
        ranks=ranks,
    )
    return Parts(
        recipe=recipe,
        model=model,
        optimizer=Adam(model),
        curriculum=_curriculum(recipe, prepared, graph, benchmark, names),
        train=train,
        evaluator=evaluator,
        rewards=_rewards(recipe, train, dev, device, poll, ranks),
        dev_sizes={name: batch.sentences for name, batch in dev.items()},
        device=device,
        ranks=ranks,
    )


def _rewards(
    recipe: Recipe,
    train: dict[str, Batches],
    dev: dict[str, Batches],
    device: Device,
    poll: Callable[[], None],
    ranks: Ranks,
) -> Rewards | None:
    """What measures gradients, for a sampler that goes by them."""
    actor = recipe.curriculum.sampler
    if not isinstance(actor, ActorSection):
        return None
    return Rewards(
        train,
        dev,
        seed=recipe.seed,
        smoothing=recipe.training.label_smoothing,
        sentences=actor.sentences,
        once=actor.gradients == "once",
        device=device,
        poll=poll,
        ranks=ranks,
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


def _newest(folder: Path, ranks: Ranks) -> checkpoints.Checkpoint | None:
    """The checkpoint to go on from: the newest whole one that the first rank finds, for every rank."""
    saved = checkpoints.load_newest(folder, print) if ranks.first else None
    name = ranks.told(name_of(saved.progress["step"]) if saved else "")
    return saved if ranks.first or not name else checkpoints.load(folder / name)


def _restore(parts: Parts, saved: checkpoints.Checkpoint) -> Progress:
    parts.model.load_state_dict(saved.model)
    parts.optimizer.load_state(saved.optimizer)
    parts.curriculum.load_state_dict(saved.curriculum)
    progress = Progress.from_dict(saved.progress)
    if not progress.is_over(parts.recipe.training.max_steps):
        progress.finished = None  # more steps may be wanted now
    return progress


def _check_same(
    folder: Path, recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None, ranks: Ranks
) -> None:
    """Writes what the run is made of, or compares: a change that would change the result is refused."""
    now = made_from(recipe, prepared, benchmark, ranks.world)
    mine = now | {"training": {name: getattr(recipe.training, name) for name in sorted(FREE)}}
    apart = differences(json.loads(ranks.told(json.dumps(mine))), mine)
    if apart:
        raise TrainingError(
            f"rank {ranks.rank} was started with other settings than rank 0; give every rank the same command\n  "
            + "\n  ".join(apart)
        )
    if not ranks.first:
        return
    refuse_changes(folder, now)
    write_config(folder, recipe)
    fault("begin:described")
    atomic_text(folder / "environment.json", json.dumps(_environment(prepared, ranks), indent=1) + "\n")
    if not (folder / "made_from.json").exists():  # last: where it is, the others are
        atomic_text(folder / "made_from.json", json.dumps(now, indent=1, ensure_ascii=False) + "\n")


def _environment(prepared: Prepared, ranks: Ranks) -> dict[str, Any]:
    return {
        "version": 1,
        "cclm": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "world_size": ranks.world,
        "data": prepared.fingerprint,
    }
