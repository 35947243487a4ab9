"""The stages of a recipe, from text to report. All commands that run, skip or plan stages use this list.

    prepare -> graph -> benchmark -> train -> translate -> score -> report

Each stage knows whether its result on disk is up to date, how to produce it, and the maximum cost.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepare import Plan, Preparation
from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder, key_of
from cclm.errors import DataError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import (
    benchmark,
    benchmark_key,
    bitext_folder,
    cache_lock,
    cached,
    known_losses,
    reference_recipe,
    write_recipe,
)
from cclm.experiments.cache import adopt_benchmark, adopt_data, to_adopt
from cclm.experiments.cost import (
    NOTHING,
    Cost,
    benchmark_cost,
    percent,
    refuse_too_little_memory,
    training_cost,
    whole_training_cost,
)
from cclm.experiments.early_checks import (
    read_losses,
    refuse_dangling_links,
    refuse_impossible_curriculum,
    refuse_impossible_model,
    refuse_missing_device,
    refuse_missing_losses,
    refuse_read_only_work,
)
from cclm.experiments.executor import ALL_TASKS, Display, Executor, Job, Watcher, read_recipe
from cclm.experiments.graph import given_graph, graph_of, needs_graph, refuse_other_graph, write_graph
from cclm.formats.benchmark import Benchmark
from cclm.progress_bar import shown
from cclm.recipe.schema import Recipe
from cclm.report.pages import reported, run_report
from cclm.training.lock import Lock, announce
from cclm.training.provenance import (
    begun_with,
    begun_without_losses,
    changes,
    is_finished,
    made_from,
    refuse_lost_settings,
    refuse_other_benchmark,
    refuse_other_settings,
    with_total_of,
    write_config,
)
from cclm.training.run_inputs import origin_of
from cclm.training.torchrun import world_size

if TYPE_CHECKING:
    from cclm.training.ranks import Ranks

KINDS = {"prepare": "prepared", "graph": "graph", "benchmark": "benchmark"}
"""The kind of the cache entry that a stage makes, for the stages that make one."""
STAGES = ("prepare", "graph", "benchmark", "train", "translate", "score", "report")


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline. `is_done` also loads its result, for the stages after it."""

    name: str
    is_done: Callable[[], bool]
    make: Callable[[], object]
    cost: Callable[[], Cost] = lambda: NOTHING


@dataclass(frozen=True)
class Planned:
    """What a stage would do."""

    name: str
    to_do: bool
    cost: Cost = NOTHING
    entry: Path | None = None
    """The entry of the cache that is reused."""
    unused: Path | None = None
    """The entry of the cache that is current now and would not be any longer; it is kept."""


@dataclass
class Pipeline:
    """Runs the stages of a recipe, and holds the results of the stages that are done."""

    recipe: Recipe
    workers: int | None = None
    """Processes that prepare the text; one per core by default."""
    executor: Executor | None = None
    """Where bitext models are trained; by default as processes on this machine."""
    watcher: Watcher | None = None
    """Follows the trainings for L*; by default a display of their own."""
    say: Callable[[str], object] = announce
    """Where lines about the benchmark, and about other processes that are waited for, go."""
    tensorboard: bool = False
    trackio: bool = False
    strict: bool = False
    """Whether a damaged newest checkpoint is an error."""
    force: bool = False
    """Whether the run may be resumed with other settings of training."""
    prepared: Prepared | None = field(default=None, init=False)
    graph: LanguageGraph | None = field(default=None, init=False)
    losses: dict[str, float] | None = field(default=None, init=False)
    trains: bool = field(default=False, init=False)
    """Whether the recipe's own model is trained. If its run exists already, it keeps the L* that it started with."""

    @property
    def folder(self) -> Path:
        """The run directory of the recipe."""
        return run_folder(self.recipe)

    def stages(self, names: Sequence[str] = STAGES) -> Iterator[Stage]:
        """The stages of these names, in the order of the list."""
        made = (
            Stage("prepare", self._is_prepared, self._prepare),
            Stage("graph", self._has_graph, self._write_graph),
            Stage("benchmark", self._has_losses, self._benchmark, self._benchmark_cost),
            Stage("train", self._is_trained, self.train, self._training_cost),
            Stage("translate", lambda: self.evaluation.translated() is not None, lambda: self.evaluation.translate()),
            Stage("score", lambda: self.evaluation.scored() is not None, lambda: self.evaluation.score()),
            Stage("report", lambda: reported(self.folder) is not None, lambda: run_report(self.folder)),
        )
        return (stage for stage in made if stage.name in names)

    def walk(self, names: Sequence[str] = STAGES, *, say: Callable[[str], object] = lambda line: None) -> list[str]:
        """Runs every stage of these names that is not done, and returns the names of those that were run.

        Calls `say` with one line per stage: how long it took, or why it was skipped.
        """
        refuse_dangling_links(self.work.path, self.work.path / "cache", self.folder.parent)
        if "train" in names:
            refuse_dangling_links(self.folder, self.folder / "checkpoints")
        refuse_read_only_work(self.work.path)
        self.trains = self.trains or "train" in names
        if "train" in names:
            self.refuse_other_settings()
        if {"benchmark", "train"} & set(names):
            self.refuse_impossible(trains="train" in names)
            self.refuse_missing_device()
            refuse_too_little_memory(self.recipe)
        self.refuse_occupied(names)
        with self.work.in_use():
            self.adopt_data()
            return self._make(names, say)

    def _make(self, names: Sequence[str], say: Callable[[str], object]) -> list[str]:
        made = []
        for stage in self.stages(names):
            start = time.monotonic()
            if stage.name == "benchmark" and to_adopt(self.work, self.recipe):
                with self._adopting():
                    adopt_benchmark(self.work, for_one_process(self.recipe), self.data)
            if stage.name in ("translate", "score") and not self.has_test_sets:
                say(f"{stage.name:<10} skipped: there is no test set")
                continue
            if stage.is_done():
                is_none = stage.name == "graph" and self.graph is None
                say(f"{stage.name:<10} skipped: {'no gate asks for one' if is_none else 'nothing has changed'}")
            else:
                stage.make()
                made.append(stage.name)
                say(f"{stage.name:<10} done in {time.monotonic() - start:.1f} s")
            if stage.name == "prepare" and "train" in names:
                self.refuse_other_settings()  # now the data can be compared, too
            self._point(stage.name)
            if stage.name == "train" and "translate" in names:
                self._write_settings()
        return made

    def adopt_data(self) -> None:
        """Moves prepared data and a graph of version 0.1.0 into the cache."""
        if to_adopt(self.work, self.recipe):
            with self._adopting():
                adopt_data(self.work, self.recipe)

    def _adopting(self) -> Lock:
        return Lock(self.work.path, file=self.work.path / ".adopting.lock", wait=self.say)

    def plan(self, names: Sequence[str] = STAGES) -> list[Planned]:
        """What `walk` would do, without doing it. A stage is to do, too, if a stage that it needs is."""
        self.trains = "train" in names
        if self.trains:
            self.recipe = with_total_of(self.folder, self.recipe, world_size())
            self.refuse_other_settings()
        if {"benchmark", "train"} & set(names):
            self.refuse_impossible(trains=self.trains)
        self.refuse_occupied(names)
        planned: dict[str, Planned] = {}
        for stage in self.stages(names):
            waits = any(planned[name].to_do for name in NEEDS[stage.name] if name in planned)
            impossible = stage.name in ("translate", "score") and self.prepared and not self.has_test_sets
            to_do = not impossible and (waits or not stage.is_done())
            entry = None if to_do else self._entry(stage.name)
            current = self.work.current(KINDS[stage.name]) if stage.name in KINDS and (to_do or entry) else None
            unused = current if current != entry else None
            planned[stage.name] = Planned(stage.name, to_do, stage.cost() if to_do else NOTHING, entry, unused)
        return list(planned.values())

    def _entry(self, stage: str) -> Path | None:
        """The entry of the cache with the result of a stage that is done; None if it is elsewhere, or not needed."""
        found = None
        if stage == "prepare":
            found = self.data.folder
        elif stage == "graph" and self.graph:
            found = self.work.entry("graph", self._graph_key)
        elif stage == "benchmark" and self.losses and not self.recipe.benchmark.file:
            found = self.work.entry("benchmark", benchmark_key(for_one_process(self.recipe), self.data))
        return found if found and found.exists() else None

    def run(self, names: Sequence[str] = STAGES, *, say: Callable[[str], object] = lambda line: None) -> bool:
        """`walk`, under torchrun and srun as well: there all ranks train together, and the first does the rest.

        Returns whether this process is the first rank, which prints the results.
        """
        if "train" in names:
            self.recipe = with_total_of(self.folder, self.recipe, world_size())
        if world_size() > 1 and not self._train_on_ranks():
            return False
        self.walk(names, say=say)
        return True

    def _point(self, stage: str) -> None:
        """Points the link in the work folder at the cache entry that a stage has made or found."""
        if stage == "prepare":
            self.work.point("prepared", self.data.folder.name)
        elif stage == "graph" and self.graph is None:
            self.work.remove_pointer("graph")
        elif stage == "graph":
            self.work.point("graph", self._graph_key)
        elif stage == "benchmark" and self.losses and not self.recipe.benchmark.file:
            self.work.point("benchmark", benchmark_key(for_one_process(self.recipe), self.data))

    def _write_settings(self) -> None:
        """Writes the settings of the run, trained now or before: those of the translation may be new."""
        if bitext_folder(for_one_process(self.recipe), self.data).exists():
            write_recipe(for_one_process(self.recipe), self.data)
        write_config(self.folder, self.recipe, self.keys, world=world_size())

    @property
    def work(self) -> WorkFolder:
        """The work folder of the recipe."""
        return WorkFolder(Path(self.recipe.work))

    @property
    def keys(self) -> dict[str, str]:
        """The keys in the cache of what the training is given."""
        return cache_keys(self.recipe, self.data, self.graph)

    @property
    def _graph_key(self) -> str:
        assert self.graph is not None
        return key_of(self.graph.to_json())

    def refuse_other_settings(self) -> None:
        """Raises TrainingError if the run was started with other settings, before any other work is done."""
        refuse_other_settings(self.folder, self.recipe, world_size(), self.prepared, force=self.force)
        refuse_other_benchmark(self.folder, self.recipe)
        refuse_other_graph(self.folder, self.recipe)

    def refuse_occupied(self, names: Sequence[str]) -> None:
        """Raises DataError if something of the user's is where these stages need a link, before any work is done."""
        needed = {
            "prepare": ["prepared"],
            "graph": ["graph.json", "graph.svg"] if needs_graph(self.recipe) else [],
            "benchmark": self._links_to_losses("train" in names),
        }
        pointers = {pointer for name in names for pointer in needed.get(name, ())}
        self.work.refuse_occupied(sorted(pointers - to_adopt(self.work, self.recipe)))

    def _links_to_losses(self, trains: bool) -> list[str]:
        """The links to L* where the recipe has it trained."""
        source = self.recipe.benchmark.source
        if source in ("none", "file") or (trains and not self.recipe.curriculum.needs_benchmark):
            return []
        return ["benchmark.json", "runs/bitext"] if source == "bitext" else ["benchmark.json"]

    def refuse_impossible(self, *, trains: bool) -> None:
        """Raises an error if the bitext models, or with `trains` the model itself, cannot be trained. Reads no text."""
        self._refuse_missing_dev_sets(self._preparation.without("dev"))
        refuse_impossible_model(self.recipe)
        if trains:
            refuse_impossible_curriculum(self.recipe)
            if self.recipe.graph.file:
                given_graph(self.recipe, Path(self.recipe.graph.file))
        if self.recipe.benchmark.file:
            path = Path(self.recipe.benchmark.file)
            refuse_missing_losses(path, read_losses(path), self.recipe.data)

    def refuse_missing_device(self) -> None:
        """Refuses a missing device, unless something was trained before: a finished run can be reported on anywhere."""
        entries = Path(self.recipe.work) / "cache" / "benchmark"
        if self._trains_elsewhere:
            return
        if not self.folder.exists() and not (entries.is_dir() and any(entries.iterdir())):
            refuse_missing_device(self.recipe.training.device)

    @property
    def _trains_elsewhere(self) -> bool:
        return self.executor is not None and self.executor.is_elsewhere

    def _refuse_missing_dev_sets(self, missing: Sequence[str]) -> None:
        if missing:
            raise DataError(
                f"{', '.join(missing)}: no dev set, and competence is measured on it; give one,"
                " or cut one off the training text with data.cut.dev=500"
            )

    @property
    def has_test_sets(self) -> bool:
        """Whether any language has a test set."""
        return any("test" in sizes for sizes in self.data.sizes.values())

    @cached_property
    def evaluation(self) -> Evaluation:
        """The translations and scores of the run."""
        return Evaluation(self.folder, recipe=self.recipe)

    def _is_prepared(self) -> bool:
        self._preparation.check_folder()
        self.prepared = self._preparation.existing(self._prepared_entry) or self._preparation.existing()
        return self.prepared is not None

    def _prepare(self) -> None:
        entry = self._prepared_entry
        learns = not self.recipe.model.pretrained
        models = 1 if self.recipe.vocabulary.joint else len(self.recipe.data.languages) + 1
        with cache_lock(self.work, "prepared", entry.name, self.say):
            self.prepared = self._preparation.existing(entry)  # another process may have made it meanwhile
            if self.prepared is None:
                stages = {"learning subwords": models} if learns else {}
                with shown({**stages, "encoding": "reading"}) as progress:
                    self.prepared = self._preparation.make(entry, workers=self.workers, progress=progress)

    @cached_property
    def _preparation(self) -> Preparation:
        return Preparation(Plan(self.recipe.data, self.recipe.vocabulary, self.recipe.model), self.recipe.prepared)

    @property
    def _prepared_entry(self) -> Path:
        return self.work.entry("prepared", key_of(self._preparation.made_from.plain()))

    def _has_graph(self) -> bool:
        self.graph = graph_of(self.recipe, self.data)
        if self.graph is None:
            return self.work.current("graph") is None
        for path in (self.work.entry("graph", self._graph_key) / "graph.json", self.recipe.graph_file):
            if path.is_file() and path.read_bytes() == self.graph.to_json().encode():
                return True
        return False

    def _write_graph(self) -> None:
        if self.graph:
            write_graph(self.work, self.graph)

    def _has_losses(self) -> bool:
        own = begun_with(self.folder, self.recipe) if self.trains else None
        self.losses = own or known_losses(for_one_process(self.recipe), self.data, self.say)
        if self.trains and not self.recipe.curriculum.needs_benchmark:
            if begun_without_losses(self.folder):
                self.losses = None
            return True  # this curriculum does not need L*: use it if it is cached, but do not train it
        return self.losses is not None or self.recipe.benchmark.source == "none"

    def _benchmark(self) -> None:
        if not self._trains_elsewhere:
            refuse_missing_device(self.recipe.training.device)  # once, and not by the process of every bitext model
        recipe = for_one_process(self.recipe)
        shown = nullcontext(self.watcher) if self.watcher else Display(reference_recipe(recipe).training.max_steps)
        with shown as watcher:
            self.losses = benchmark(recipe, self.data, executor=self.executor, watcher=watcher, say=self.say)
        found, training = (
            cached(for_one_process(self.recipe), self.data),
            whole_training_cost(self.recipe, self.prepared, world_size()),
        )
        if found and found.target_tokens is not None:
            share = percent(found.target_tokens / training.target_tokens)
            self.say(
                f"L* took {found.target_tokens:,} target tokens: {share} of the training's, if that takes all its steps"
            )

    def _benchmark_cost(self) -> Cost:
        return benchmark_cost(for_one_process(self.recipe), self.prepared)

    def _is_trained(self) -> bool:
        return is_finished(self.folder, self.recipe, self.data, self.losses, world_size())

    def _training_cost(self) -> Cost:
        return training_cost(self.recipe, self.prepared, self.folder, world_size())

    @property
    def data(self) -> Prepared:
        """The prepared data, once the first stage is done."""
        assert self.prepared is not None
        return self.prepared

    def train(self, ranks: "Ranks | None" = None) -> None:
        """Trains the model of the recipe. The stages before it must be done."""
        from cclm.training.device import device_of  # torch: only where there is something to train
        from cclm.training.ranks import ALONE
        from cclm.training.session import Options, train

        bleu = None
        if self.recipe.training.measures_bleu:
            from cclm.evaluation.dev_bleu import DevBleu  # a second more, where transformers is installed

            bleu = DevBleu(self.recipe, self.data, self.folder)
        options = Options(
            ranks=ranks or ALONE,
            bleu=bleu,
            tensorboard=self.tensorboard,
            trackio=self.trackio,
            strict=self.strict,
            force=self.force,
            describe=lambda: describe(self.recipe, self.data, self.graph, self.losses, self.folder),
        )
        device_of(self.recipe.training.device)  # refused before anything is written
        train(self.recipe, self.data, self.graph, self.losses, self.folder, options)

    def _train_on_ranks(self) -> bool:
        """The stages up to the training on several ranks: the first rank makes what comes before it, all train.

        Returns whether this is the first rank.
        """
        from cclm.training.device import device_of
        from cclm.training.ranks import joined

        with joined(device_of(self.recipe.training.device).torch) as ranks, self.work.in_use():
            if ranks.first:
                self.trains = True
                self.refuse_other_settings()
                self.refuse_impossible(trains=True)
                self.walk(("prepare",))
                self.refuse_other_settings()
                self.walk(("graph", "benchmark"))
                graph = self.graph and self.graph.to_json()
                ranks.broadcast(json.dumps([str(self.data.folder), graph, self.losses]))
            else:
                data, graph, self.losses = json.loads(ranks.broadcast())
                self.prepared = Prepared.open(Path(data))
                self.graph = LanguageGraph.from_json(graph) if graph else None
            self.train(ranks)
        return ranks.first


NEEDS = {
    "prepare": (),
    "graph": ("prepare",),
    "benchmark": ("prepare",),
    "train": ("prepare", "benchmark"),
    "translate": ("train",),
    "score": ("translate",),
    "report": ("score",),
}
"""The stages whose result each needs."""


def run_folder(recipe: Recipe) -> Path:
    """The run directory of a recipe."""
    return Path(recipe.work) / "runs" / recipe.name


def for_one_process(recipe: Recipe) -> Recipe:
    """The recipe for a single process with the same updates. Bitext models are always trained in a single process."""
    accumulate = recipe.training.accumulate * world_size()
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"accumulate": accumulate})})


def cache_keys(recipe: Recipe, prepared: Prepared, graph: LanguageGraph | None) -> dict[str, str]:
    """The keys in the cache of what a training is given."""
    keys = {"prepared": prepared.folder.name}
    keys |= {"graph": key_of(graph.to_json())} if graph else {}
    if recipe.benchmark.source == "none":
        return keys
    return keys | {"benchmark": benchmark_key(for_one_process(recipe), prepared)}


def describe(
    recipe: Recipe, prepared: Prepared, graph: LanguageGraph | None, losses: dict[str, float] | None, folder: Path
) -> None:
    """Writes the inputs of a training to its run directory: cache keys, and copies of graph and L* for the report.

    Writes nothing if the run was started with other inputs: `train` raises an error for it.
    """
    refuse_lost_settings(folder)
    if changes(folder, made_from(recipe, prepared, losses, world_size())):
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, recipe, cache_keys(recipe, prepared, graph), world=world_size())
    if graph:
        refuse_other_graph(folder, recipe)
        write_if_changed(folder / "graph.json", graph.to_json())
    if losses:
        origin = loss_origin(recipe, prepared)
        origin.model_copy(update={"losses": losses}).write(folder / "benchmark.json")


def loss_origin(recipe: Recipe, prepared: Prepared) -> Benchmark:
    """The method and the cost of L*, as far as they are known, with an empty table of losses."""
    path = recipe.benchmark.file
    found = Benchmark.find(Path(path)) if path else None
    if recipe.benchmark.source in ("bitext", "multilingual"):
        found = cached(for_one_process(recipe), prepared)
    known = {"method": found.method, "target_tokens": found.target_tokens} if found and found.method else {}
    return Benchmark.model_validate({"losses": {}, **known})


def train_job(job: Job) -> None:
    """Trains a job in this process, and scores it if asked to. The stages before must be done."""
    recipe = job.settings()
    with WorkFolder(Path(recipe.work)).in_use():  # the command that has started the job may be gone
        _train_job(job, recipe)


def _train_job(job: Job, recipe: Recipe) -> None:
    from cclm.training.session import Options, train

    prepared = Prepared.open(job.data)
    if job.only:  # a training for L*
        only = () if job.only == ALL_TASKS else (job.only,)
        train(recipe, prepared, None, None, job.folder, Options(only=only))
        return
    forks = {fork.name: fork for fork in map(read_recipe, job.forks)}
    graph, losses = graph_of(recipe, prepared), known_losses(recipe, prepared)
    options = Options(forks=forks, describe=lambda: describe(recipe, prepared, graph, losses, job.folder))
    train(recipe, prepared, graph, losses, job.folder, options)
    origin = origin_of(job.folder)
    if job.scored and not (origin and origin.same):  # runs of a sweep that never diverged are scored once
        evaluation = Evaluation(job.folder)
        evaluation.scored() or evaluation.score()
