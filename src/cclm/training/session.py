"""One training as a process: set up or resume, handle signals, leave everything in the run directory."""

import json
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from cclm import __version__
from cclm.atomic import atomic_text
from cclm.curriculum import Curriculum, LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.errors import Interrupted, TrainingError
from cclm.formats.checkpoint import Progress, folder_name
from cclm.formats.run import ENVIRONMENT, LOG, MADE_FROM, TIMING, Environment
from cclm.memory import keep_freed_memory
from cclm.model.transformer import Shape, Transformer
from cclm.recipe.methods import ActorSection
from cclm.recipe.schema import Recipe
from cclm.training import checkpoint as checkpoints
from cclm.training.adam import Adam
from cclm.training.console import Shown, TrainingConsole
from cclm.training.dev_loss import Bleu, Evaluator, Measuring
from cclm.training.device import Device, device_of
from cclm.training.faults import fault
from cclm.training.forking import Forks
from cclm.training.lock import Lock
from cclm.training.log import LogWriter
from cclm.training.provenance import FREE, differences, made_from, refuse_changes, write_config
from cclm.training.ranks import ALONE, Ranks
from cclm.training.rewards import Rewards
from cclm.training.tasks import Task, task_graph, tasks
from cclm.training.tensorboard import TensorBoard
from cclm.training.trainer import Outputs, Parts, Trainer, probe_event

Poll = Callable[[], None]
"""Raises Interrupted once a signal has arrived."""


@dataclass(frozen=True)
class Options:
    """How a recipe is trained."""

    only: tuple[str, ...] = ()
    """Tasks to train; none means all. Bitext models are trained so, with the vocabularies of all languages."""
    ranks: Ranks = ALONE
    """Of several ranks only the first owns the run directory, writes and prints; the others compute."""
    bleu: Bleu | None = None
    """Translates the dev sets, for a recipe that asks for BLEU."""
    tensorboard: bool = False
    """Write the curves of the log into RUN/tensorboard."""
    forks: Mapping[str, Recipe] = field(default_factory=dict)
    """Recipes with other gates by name: they share this training as long as their curricula decide the same."""


def train(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    benchmark: Mapping[str, float] | None,
    folder: Path,
    options: Options | None = None,
) -> str:
    """Trains into the run directory, from its newest checkpoint where there is one; returns the reason of the end."""
    options = options or Options()
    if recipe.training.measures_bleu and options.bleu is None:
        raise TrainingError("training.bleu: nothing translates here; set it to false, and stop_on, select_on to macro")
    device = device_of(recipe.training.device, recipe.training.precision)
    resolved = recipe.training.model_copy(update={"precision": device.precision})
    recipe = recipe.model_copy(update={"training": resolved})  # on another machine `auto` might be something else
    keep_freed_memory()
    session = _Session(recipe, prepared, graph, benchmark, folder, options, device)
    with Lock(folder) if options.ranks.first else nullcontext():
        session.check_same()
        saved = session.newest()
        with _signals(options.ranks) as poll, device.products():
            return session.run(saved, poll)


@dataclass(frozen=True)
class _Session:
    """A training that has been asked for, and all it is made from."""

    recipe: Recipe
    prepared: Prepared
    graph: LanguageGraph | None
    benchmark: Mapping[str, float] | None
    folder: Path
    options: Options
    device: Device

    @property
    def ranks(self) -> Ranks:
        return self.options.ranks

    @property
    def tasks(self) -> dict[str, Task]:
        every = tasks(self.recipe.data, self.prepared)
        return {name: every[name] for name in self.options.only or every}

    def check_same(self) -> None:
        """Writes what the run is made from, or compares with it: a change that would change the result is refused."""
        now = made_from(self.recipe, self.prepared, self.benchmark, self.ranks.world)
        mine = now.plain() | {"training": {name: getattr(self.recipe.training, name) for name in sorted(FREE)}}
        apart = differences(json.loads(self.ranks.broadcast(json.dumps(mine))), mine)
        if apart:
            raise TrainingError(
                f"rank {self.ranks.rank} was started with other settings than rank 0; give every rank the same"
                " command\n  " + "\n  ".join(apart)
            )
        if not self.ranks.first:
            return
        refuse_changes(self.folder, now)
        write_config(self.folder, self.recipe)
        fault("begin:described")
        atomic_text(self.folder / ENVIRONMENT, _environment(self.prepared, self.ranks).text())
        if not (self.folder / MADE_FROM).exists():  # last: where it exists, the other files do
            now.write(self.folder / MADE_FROM)

    def newest(self) -> checkpoints.Checkpoint | None:
        """The checkpoint to resume from: the newest undamaged one that the first rank finds, for every rank."""
        folder = self.folder / "checkpoints"
        saved = checkpoints.load_newest(folder, print) if self.ranks.first else None
        name = self.ranks.broadcast(folder_name(saved.progress.step) if saved else "")
        return saved if self.ranks.first or not name else checkpoints.load(folder / name)

    def run(self, saved: checkpoints.Checkpoint | None, poll: Poll) -> str:
        parts = self._parts(poll)
        curricula = {name: self._curriculum(recipe) for name, recipe in self.options.forks.items()}
        forks = Forks(self.folder, curricula, saved.forks if saved else None)
        progress = _restore(parts, saved) if saved else Progress(scale=self.device.first_scale)
        first = self.ranks.first
        log = LogWriter(self.folder / LOG if first else None, progress.log_bytes)
        shown = Shown(
            self.recipe.name,
            self.recipe.training.max_steps,
            {name: len(batches) for name, batches in parts.train.items()},
            getattr(self.recipe.curriculum.gate, "threshold", None),
        )
        latest, timing = probe_event(progress.step, parts.curriculum), self.folder / TIMING if first else None
        with TrainingConsole(shown, progress, latest, timing=timing, is_silent=not first) as console:
            if saved:
                console.print(f"resuming from step {progress.step:,}")
            if self.device.emulates:
                console.print(f"{self.device.precision} is emulated: this processor multiplies in fp32 and rounds")
            wanted = self.options.tensorboard and first
            curves = TensorBoard(self.folder, progress.step, console.print) if wanted else None
            log.listeners += [forks.log, *([curves.write] if curves else [])]
            trainer = Trainer(parts, progress, Outputs(self.folder, log, console, forks))
            self.ranks.wait()  # some ranks are slow to set up; from here on every rank answers within a step
            try:
                reason = trainer.run(poll)
                forks.settle()
                return reason
            except Interrupted:
                trainer.save(logged=False)
                raise
            finally:
                log.close()
                forks.close()
                if curves:
                    curves.close()

    def _parts(self, poll: Poll) -> Parts:
        recipe, device = self.recipe, self.device
        train = {name: self._batches(task, "train") for name, task in self.tasks.items()}
        dev = {name: self._batches(task, "dev") for name, task in self.tasks.items()}
        how = Measuring(recipe.seed, recipe.training.label_smoothing, device, poll, self.ranks)
        model = Transformer(shape_of(recipe, self.prepared), recipe.seed).to(device.torch)
        actor = recipe.curriculum.sampler
        return Parts(
            recipe=recipe,
            model=model,
            optimizer=Adam(model),
            curriculum=self._curriculum(recipe),
            train=train,
            evaluator=Evaluator(dev, how, self.options.bleu if recipe.training.measures_bleu else None),
            rewards=Rewards(train, dev, how, sentences=actor.sentences, once=actor.gradients == "once")
            if isinstance(actor, ActorSection)
            else None,
            dev_sizes={name: batches.sentences for name, batches in dev.items()},
            device=device,
            ranks=self.ranks,
        )

    def _batches(self, task: Task, split: str) -> Batches:
        corpus, budget = self.prepared.corpus(task.language, split), self.recipe.training.batch_tokens
        return Batches(corpus, task.direction, language=task.name, seed=self.recipe.seed, budget=budget)

    def _curriculum(self, recipe: Recipe) -> Curriculum:
        sizes = {name: self.prepared.sizes[task.language]["train"] for name, task in self.tasks.items()}
        of_tasks = task_graph(self.graph, tasks(recipe.data, self.prepared)) if self.graph else None
        return recipe.curriculum.build(of_tasks, sizes=sizes, benchmark=self.benchmark)


@contextmanager
def _signals(ranks: Ranks) -> Iterator[Poll]:
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


def _restore(parts: Parts, saved: checkpoints.Checkpoint) -> Progress:
    parts.model.load_state_dict(saved.model)
    parts.optimizer.load_state(saved.optimizer)
    parts.curriculum.load_state_dict(saved.curriculum)
    progress = saved.progress
    if not progress.is_over(parts.recipe.training.max_steps):
        progress.finished = None  # `max_steps` was raised
    return progress


def _environment(prepared: Prepared, ranks: Ranks) -> Environment:
    return Environment(
        cclm=__version__,
        python=platform.python_version(),
        torch=str(torch.__version__),
        numpy=np.__version__,
        threads=torch.get_num_threads(),
        world_size=ranks.world,
        data=prepared.fingerprint,
    )
