"""One training as a process: set up or resume, handle signals, leave everything in the run directory."""

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from cclm import __version__
from cclm.atomic import atomic_text
from cclm.curriculum import Curriculum, LanguageGraph
from cclm.curriculum.bounded_probe import BoundedProbe
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.data.splitting import Splitter, halves_of
from cclm.errors import Interrupted, TrainingError
from cclm.formats.checkpoint import AVERAGE, CURRICULUM, MODEL, OPTIMIZER, PROBE, Progress, folder_name
from cclm.formats.run import ENVIRONMENT, LOG, MADE_FROM, TIMING, Environment
from cclm.memory import keep_few_prepared_products, keep_freed_memory
from cclm.messages import announce
from cclm.recipe.methods import ActorSection, CompetenceSection
from cclm.recipe.schema import Recipe
from cclm.signals import fault, signals_recorded
from cclm.training import checkpoint as checkpoints
from cclm.training.adam import Adam
from cclm.training.average import Average
from cclm.training.building import model_of, vocabularies_of
from cclm.training.console import Shown, TrainingConsole
from cclm.training.dev_probe import DevProbe
from cclm.training.dev_sentences import probe_batch_tokens
from cclm.training.device import Device, device_of
from cclm.training.forking import Forks
from cclm.training.lock import Lock
from cclm.training.log import LogWriter, TensorBoard, Trackio
from cclm.training.provenance import (
    FREE,
    differences,
    forced_settings,
    made_from,
    precision_of_run,
    record_forced,
    refuse_changes,
    refuse_lost_settings,
    with_probe,
    write_config,
)
from cclm.training.ranks import ALONE, Ranks
from cclm.training.rewards import Rewards
from cclm.training.tasks import Task, task_graph, tasks
from cclm.training.trainer import Outputs, Parts, Trainer, probe_event, schedule_of
from cclm.training.validation import Bleu, Evaluator, MeasurementSettings

Poll = Callable[[], None]
"""Raises Interrupted once a signal has arrived."""


@dataclass(frozen=True)
class Options:
    """The options of a training that are not part of its recipe."""

    only: tuple[str, ...] = ()
    """Tasks to train; empty means all. Bitext models use it; their vocabularies are still those of all languages."""
    ranks: Ranks = ALONE
    """Of several ranks only the first owns the run directory, writes and prints; the others compute."""
    bleu: Bleu | None = None
    """Translates the dev sets, for a recipe that asks for BLEU."""
    tensorboard: bool = False
    """Write the curves of the log into RUN/tensorboard."""
    trackio: bool = False
    """Log the same curves to Trackio."""
    strict: bool = False
    """Fail where the newest checkpoint is damaged, instead of falling back to the one before."""
    force: bool = False
    """Continue with other settings where the checkpoints allow it; recorded in made_from.json and in manifests."""
    record_inputs: Callable[[], object] = lambda: None
    """Writes the inputs of the training to the run directory; called after the lock has been acquired."""
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
    """Trains into the run directory, from its newest checkpoint where there is one; returns why it ended."""
    options = options or Options()
    if recipe.training.measures_bleu and options.bleu is None:
        raise TrainingError("training.bleu needs Options.bleu; or set it to false, and stop_on and select_on to macro")
    precision = precision_of_run(folder) if recipe.training.precision == "auto" else recipe.training.precision
    device = device_of(
        recipe.training.device,
        precision or "auto",
        width=recipe.model.width,
        deterministic=recipe.training.deterministic,
        tf32=recipe.training.tf32,
    )
    recipe = recipe.with_training(precision=device.precision)  # on another machine `auto` might be something else
    recipe = with_probe(folder, recipe)
    keep_freed_memory()
    keep_few_prepared_products()
    session = _Session(recipe, prepared, graph, benchmark, folder, options, device)
    # Several ranks do not wait for a living owner: their machines would stand idle.
    lock = Lock(folder, wait=announce if options.ranks.world == 1 else None)
    with _explained(recipe, folder), lock if options.ranks.first else nullcontext():
        if options.ranks.first:
            options.record_inputs()
        session.record_settings()
        saved = session.checkpoint_to_resume_from()
        with _signals_polled(options.ranks, lock) as poll, device.in_use():
            return session.run(saved, poll)


@contextmanager
def _explained(recipe: Recipe, folder: Path) -> Iterator[None]:
    """Turns a full disk or too little memory into an error that says what to do.

    A batch that does not fit is not split and tried again: its dropout masks would be others, and the result of a run
    would depend on how much memory was free.
    """
    try:
        yield
    except OSError as error:
        raise TrainingError(f"{error.filename or folder}: {error.strerror or error}") from None
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        settings = recipe.training
        raise TrainingError(
            f"out of memory: training.batch_tokens is {settings.batch_tokens}; halve it and double"
            f" training.accumulate (now {settings.accumulate}) for the same updates from smaller batches,"
            " or make the model smaller"
        ) from None


def _is_out_of_memory(error: Exception) -> bool:
    """torch raises a plain RuntimeError when a CPU has no memory left."""
    message = str(error).lower()
    is_named = "allocate memory" in message or "bad_alloc" in message
    return is_named or isinstance(error, MemoryError | torch.OutOfMemoryError)


@dataclass(frozen=True)
class _Session:
    """The inputs of a training; `run` trains it to the end."""

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

    def record_settings(self) -> None:
        """Writes made_from.json. If it exists and a setting that affects the result differs, raises TrainingError."""
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
        refuse_lost_settings(self.folder)
        forced = refuse_changes(self.folder, now, force=self.options.force)
        write_config(self.folder, self.recipe, world=self.ranks.world)
        fault("begin:described")
        atomic_text(self.folder / ENVIRONMENT, _environment(self.prepared, self.ranks).text())
        if not (self.folder / MADE_FROM).exists():  # last: where it exists, the other files do
            now.write(self.folder / MADE_FROM)
        elif forced:
            record_forced(self.folder, now, forced)

    def checkpoint_to_resume_from(self) -> checkpoints.Checkpoint | None:
        """The checkpoint to resume from: the newest undamaged one that the first rank finds, for every rank."""
        folder = self.folder / "checkpoints"
        pass_over = _refuse_damaged if self.options.strict else checkpoints.announce_damaged
        saved = checkpoints.load_newest(folder, pass_over) if self.ranks.first else None
        saved = self._rewound_before_decay(saved) if saved else None
        name = self.ranks.broadcast(folder_name(saved.progress.step) if saved else "")
        return saved if self.ranks.first or not name else checkpoints.load(folder / name)

    def _rewound_before_decay(self, saved: checkpoints.Checkpoint) -> checkpoints.Checkpoint:
        """The checkpoint itself; for a run with `wsd` whose `max_steps` was raised, the one before its decay."""
        settings, progress = self.recipe.training, saved.progress
        start, begun = schedule_of(settings).decay_start, progress.branch.step if progress.branch else None
        if start is None or progress.early_decay or progress.is_over(settings.max_steps):
            return saved
        at_full_rate = progress.step if begun is None else begun
        if start < at_full_rate:
            raise TrainingError(
                f"{self.folder}: training.max_steps {settings.max_steps} would begin the decay after step {start}, but"
                f" step {at_full_rate} was trained at the full learning rate; set it to at least"
                f" {at_full_rate + settings.decay_steps}"
            )
        if begun is None or start == begun or progress.step == begun:
            return saved
        try:
            return checkpoints.rewind_to(self.folder / "checkpoints", begun)
        except TrainingError as error:
            raise TrainingError(
                f"{error}; without this checkpoint, from before its decay, {self.folder} cannot be trained for longer:"
                " give the run another name"
            ) from None

    def run(self, saved: checkpoints.Checkpoint | None, poll: Poll) -> str:
        """Trains to the end and returns the reason. A signal saves a checkpoint and is raised."""
        parts = self._parts(poll)
        curricula = {name: self._curriculum(recipe) for name, recipe in self.options.forks.items()}
        forks = Forks(self.folder, curricula, saved.forks if saved else None)
        progress = _restore(parts, saved, self.folder) if saved else Progress(scale=self.device.first_scale)
        first = self.ranks.first
        log = LogWriter(self.folder / LOG if first else None, progress.log_bytes)
        shown = Shown(
            self.recipe.name,
            self.recipe.training.max_steps,
            {name: len(batches) for name, batches in parts.train.items()},
            gate.threshold if isinstance(gate := self.recipe.curriculum.gate, CompetenceSection) else None,
        )
        latest, timing = probe_event(progress.step, parts.curriculum), self.folder / TIMING if first else None
        with TrainingConsole(shown, progress, latest, timing=timing, is_silent=not first) as console:
            if saved:
                console.print(f"resuming from step {progress.step:,}")
            for part, own in self.recipe.curriculum.own_parts():
                console.print(f"{part} {own.name}")
            if self.device.emulates:
                console.print(f"{self.device.precision} is emulated: this processor multiplies in fp32 and rounds")
            curves = self._curves(progress.step, console) if first else []
            log.listeners += [forks.log, *(one.write for one in curves)]
            trainer = Trainer(parts, progress, Outputs(self.folder, log, console, forks, forced_settings(self.folder)))
            self.ranks.wait()  # some ranks are slow to set up; from here on every rank answers within a step
            self.ranks.check_same_weights(parts.model, progress.step)
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
                for one in curves:
                    one.close()

    def _curves(self, step: int, console: TrainingConsole) -> list[TensorBoard | Trackio]:
        """The writers for TensorBoard and Trackio that the options ask for."""
        found: list[TensorBoard | Trackio] = []
        if self.options.tensorboard:
            found.append(TensorBoard(self.folder, step, console.print))
        if self.options.trackio:
            found.append(Trackio(self.folder, console.print))
        return found

    def _parts(self, poll: Poll) -> Parts:
        recipe, device = self.recipe, self.device
        train = {name: self._batches(task, "train") for name, task in self.tasks.items()}
        dev = {name: self._batches(task, "dev") for name, task in self.tasks.items()}
        how = MeasurementSettings(recipe.seed, recipe.training.label_smoothing, device, poll, self.ranks)
        model = model_of(recipe, self.prepared).to(device.torch)
        actor, average = recipe.curriculum.sampler, recipe.training.average
        return Parts(
            recipe=recipe,
            model=model,
            optimizer=Adam(model),
            average=Average(model, last=average.last, ema=average.ema) if average else None,
            curriculum=self._curriculum(recipe),
            train=train,
            evaluator=Evaluator(dev, how, self.options.bleu if recipe.training.measures_bleu else None),
            probe=self._probe(dev, how),
            rewards=Rewards(train, dev, how, sentences=actor.sentences, once=actor.gradients == "once")
            if isinstance(actor, ActorSection)
            else None,
            splitter=self._splitter(),
            dev_sizes={name: batches.sentences for name, batches in dev.items()},
            device=device,
            ranks=self.ranks,
        )

    def _probe(self, dev: dict[str, Batches], how: MeasurementSettings) -> DevProbe | None:
        """The bounded probe, unless the recipe has `dev_sample`."""
        settings, recipe = self.recipe.curriculum.bounded, self.recipe
        if settings is None:
            return None
        graph = self._task_graph(recipe) if not self.options.only else None
        tokens = {name: batches.target_tokens for name, batches in dev.items()}
        bounded = BoundedProbe(tokens, seed=recipe.seed, vouching=graph.shares_by_lrl() if graph else None)
        budget = probe_batch_tokens(recipe.training.batch_tokens, len(vocabularies_of(recipe, self.prepared)[1]))
        return DevProbe(dev, how, bounded, share=settings.share, budget=budget)

    def _splitter(self) -> Splitter | None:
        """Splits pieces of the training batches, for a recipe that asks for it."""
        wanted, pivot = self.recipe.training.split_pieces, self.recipe.data.pivot
        if wanted is None:
            return None
        halves = {
            lang: halves_of(self.prepared, lang, is_pivot=lang == pivot)
            for lang in {lang for task in self.tasks.values() for lang in (task.source, task.target)}
        }
        by_task = {name: (halves[task.source], halves[task.target]) for name, task in self.tasks.items()}
        return Splitter(self.recipe.seed, wanted.source, wanted.target, by_task)

    def _batches(self, task: Task, split: str) -> Batches:
        corpus, budget = self.prepared.corpus(task.language, split), self.recipe.training.batch_tokens
        return Batches(corpus, task.direction, language=task.name, seed=self.recipe.seed, budget=budget)

    def _curriculum(self, recipe: Recipe) -> Curriculum:
        sizes = {name: self.prepared.sizes[task.language]["train"] for name, task in self.tasks.items()}
        return recipe.curriculum.build(self._task_graph(recipe), sizes=sizes, benchmark=self.benchmark)

    def _task_graph(self, recipe: Recipe) -> LanguageGraph | None:
        return task_graph(self.graph, tasks(recipe.data, self.prepared)) if self.graph else None


@contextmanager
def _signals_polled(ranks: Ranks, lock: Lock) -> Iterator[Poll]:
    """Yields a `poll` function that raises Interrupted if a signal has arrived. The handlers only record signals.

    A signal to one rank stops all ranks: they exchange it at every `poll`, and raise at the same one. The first rank
    also stops if it no longer owns the run.
    """

    def poll() -> None:
        if ranks.first:
            lock.check()
        number = ranks.largest(received.number)
        if number:
            raise Interrupted(number)

    with signals_recorded() as received:
        yield poll


def _refuse_damaged(error: TrainingError) -> None:
    raise TrainingError(f"{error}; without --strict the one before is used") from None


def _restore(parts: Parts, saved: checkpoints.Checkpoint, run: Path) -> Progress:
    progress = saved.progress
    restoring: dict[str, Callable[[], object]] = {
        MODEL: lambda: parts.model.load_trained(saved.model),
        OPTIMIZER: lambda: parts.optimizer.load_state(saved.optimizer),
        CURRICULUM: lambda: parts.curriculum.load_state_dict(saved.curriculum),
    }
    if average := parts.average:
        restoring[AVERAGE] = lambda: average.load_state(saved.average)
    if probe := parts.probe:
        restoring[PROBE] = lambda: probe.load_state(saved.probe)
    for name, restore in restoring.items():
        try:
            restore()
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            path = run / "checkpoints" / folder_name(progress.step) / name
            reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            raise TrainingError(f"{path}: cannot be restored: {reason}") from None
    if not progress.is_over(parts.recipe.training.max_steps):
        progress.finished = None  # `max_steps` was raised: the training goes on
    if progress.step != schedule_of(parts.recipe.training).decay_start:
        # With `wsd`, a raised `max_steps` moves the decay, which was due at this step before.
        progress.due = [what for what in progress.due if what != "decay"]
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
