"""The stages of a recipe, from text to report. All commands that run, skip or plan stages use this list.

    prepare -> graph -> benchmark -> train -> translate -> score -> report

Each stage knows whether its result on disk is up to date, how to produce it, and the maximum cost.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from cclm.curriculum import LanguageGraph
from cclm.curriculum.languages import listed
from cclm.data.prepare import Plan, Preparation, differing_text
from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder, key_of
from cclm.errors import DataError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import (
    benchmark,
    benchmark_key,
    bitext_folder,
    cache_lock,
    cached,
    known_losses,
    reference_recipe,
    write_bitext_recipe,
)
from cclm.experiments.cache import migratable, migrate_benchmark, migrate_data
from cclm.experiments.cost import (
    NOTHING,
    Cost,
    benchmark_cost,
    percent,
    refuse_too_little_memory,
    training_cost,
    whole_training_cost,
)
from cclm.experiments.display import Display
from cclm.experiments.early_checks import (
    refuse_dangling_links,
    refuse_impossible_curriculum,
    refuse_impossible_model,
    refuse_missing_device,
    refuse_read_only_work,
    refuse_unusable_graph,
    refuse_unusable_losses,
    refuse_unwritable_work,
)
from cclm.experiments.executor import Executor, Watcher
from cclm.experiments.graph import graph_of, needs_graph, refuse_other_graph, write_graph
from cclm.experiments.train_job import cache_keys, for_one_process, record_inputs, run_folder
from cclm.formats.run import MADE_FROM, MadeFrom
from cclm.messages import Say, announce
from cclm.progress_bar import shown
from cclm.recipe.schema import Recipe
from cclm.report.pages import reported, run_report
from cclm.training.lock import Lock
from cclm.training.provenance import (
    is_finished,
    losses_of_run,
    refuse_other_benchmark,
    refuse_other_settings,
    was_begun_without_losses,
    with_accumulate_of_run,
    write_config,
)
from cclm.training.torchrun import world_size

if TYPE_CHECKING:
    from cclm.training.ranks import Ranks

STAGES = ("prepare", "graph", "benchmark", "train", "translate", "score", "report")
BEFORE_TRAINING, UP_TO_TRAINING = STAGES[:3], STAGES[:4]


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline, and all that is special to it."""

    name: str
    needs: Sequence[str]
    """The stages whose results it needs."""
    is_done: Callable[[], bool]
    """Also loads the result, for the stages after it."""
    make: Callable[[], object]
    cost: Callable[[], Cost] = lambda: NOTHING
    kind: str | None = None
    """The kind of the cache entry that it makes, if it makes one."""
    entry: Callable[[], Path | None] = lambda: None
    """That entry, once the stage is done; None if the result is elsewhere or not needed."""
    links: Callable[[], Sequence[str]] = lambda: ()
    """The links that it makes in the work folder, to its entry."""
    before: Callable[[], object] = lambda: None
    """Called before it is looked at whether it is done."""
    impossible: Callable[[], str | None] = lambda: None
    """Why it is left out, if it is."""
    is_needed: Callable[[], bool] = lambda: True
    """Whether anything asks for its result."""
    why_done: Callable[[], str] = lambda: "nothing has changed"


@dataclass(frozen=True)
class Planned:
    """What a stage would do."""

    name: str
    to_do: bool
    cost: Cost = NOTHING
    entry: Path | None = None
    """The entry of the cache that is reused."""
    unused: Path | None = None
    """The entry that the links in the work folder lead to now, if that would change. It is not deleted."""


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
    say: Say = announce
    """Shows messages about the benchmark, and about other processes that this one waits for."""
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
            Stage(
                "prepare",
                (),
                self._find_prepared,
                self._prepare,
                kind="prepared",
                entry=lambda: self.data.folder,
                links=lambda: ["prepared"],
            ),
            Stage(
                "graph",
                ("prepare",),
                self._find_graph,
                self._write_graph,
                kind="graph",
                entry=lambda: self.work.entry("graph", self._graph_key) if self.graph else None,
                links=lambda: ["graph.json", "graph.svg"] if needs_graph(self.recipe) else [],
                before=self._remove_graph_of_others,
                is_needed=lambda: needs_graph(self.recipe),
                why_done=lambda: "nothing has changed" if self.graph else "not needed",
            ),
            Stage(
                "benchmark",
                ("prepare",),
                self._find_losses,
                self._benchmark,
                self._benchmark_cost,
                kind="benchmark",
                entry=self._losses_entry,
                links=self._links_to_losses,
                is_needed=lambda: not self._trains_without_losses,
                before=self._migrate_benchmark,
            ),
            Stage("train", ("prepare", "benchmark"), self._is_trained, self.train, self._training_cost),
            Stage(
                "translate",
                ("train",),
                lambda: self.evaluation.translated() is not None,
                lambda: self.evaluation.translate(),
                before=self._write_settings,
                impossible=self._why_not_tested,
            ),
            Stage(
                "score",
                ("translate",),
                lambda: self.evaluation.scored() is not None,
                lambda: self.evaluation.score(),
                impossible=self._why_not_tested,
            ),
            Stage("report", ("score",), lambda: reported(self.folder) is not None, lambda: run_report(self.folder)),
        )
        return (stage for stage in made if stage.name in names)

    def walk(self, names: Sequence[str] = STAGES, *, say: Say = lambda line: None) -> list[str]:
        """Runs every stage of these names that is not done, and returns the names of those that were run.

        Calls `say` with one line per stage: how long it took, or why it was skipped.
        """
        refuse_dangling_links(self.work.path, self.work.path / "cache", self.folder.parent)
        if "train" in names:
            refuse_dangling_links(self.folder, self.folder / "checkpoints")
        refuse_unwritable_work(self.work.path)
        self.trains = self.trains or "train" in names
        if "train" in names:
            self.refuse_other_settings()
        if {"benchmark", "train"} & set(names):
            self.refuse_impossible(trains="train" in names)
            self.refuse_other_text([self.folder] if "train" in names else [])
            self.refuse_missing_device([self.folder] if "train" in names else self.work.entries("benchmark"))
            refuse_too_little_memory(self.recipe)
        self.refuse_occupied(names)
        with self.work.in_use():
            self.migrate_data()
            return self._make(names, say)

    def _make(self, names: Sequence[str], say: Say) -> list[str]:
        made = []
        for stage in self.stages(names):
            start = time.monotonic()
            stage.before()
            if reason := stage.impossible():
                say(f"{stage.name:<10} skipped: {reason}")
                continue
            if stage.is_done():
                say(f"{stage.name:<10} skipped: {stage.why_done()}")
            else:
                refuse_read_only_work(self.work.path, stage.name)
                stage.make()
                made.append(stage.name)
                say(f"{stage.name:<10} done in {time.monotonic() - start:.1f} s")
            if stage.name == "prepare" and self.trains:
                self.refuse_other_settings()  # now the data can be compared, too
            if stage.kind and (entry := stage.entry()):
                self.work.point(stage.kind, entry.name)
        return made

    def migrate_data(self) -> None:
        """Moves prepared data and a graph of version 0.1.0 into the cache."""
        if migratable(self.work, self.recipe):
            with self._migrating():
                migrate_data(self.work, self.recipe)

    def _migrating(self) -> Lock:
        return Lock(self.work.path, file=self.work.path / ".migrating.lock", wait=self.say)

    def plan(self, names: Sequence[str] = STAGES) -> list[Planned]:
        """What `walk` would do, without doing it. A stage is to do, too, if a stage that it needs is."""
        self.trains = "train" in names
        if self.trains:
            self.recipe = with_accumulate_of_run(self.folder, self.recipe, world_size())
            self.refuse_other_settings()
        if {"benchmark", "train"} & set(names):
            self.refuse_impossible(trains=self.trains)
            self.refuse_other_text([self.folder] if self.trains else [])
        self.refuse_occupied(names)
        planned: dict[str, Planned] = {}
        for stage in self.stages(names):
            waits = any(planned[name].to_do for name in stage.needs if name in planned)
            to_do = not stage.impossible() and (waits or not stage.is_done()) and stage.is_needed()
            entry = None if to_do else stage.entry()
            entry = entry if entry and entry.exists() else None
            current = self.work.current(stage.kind) if stage.kind and (to_do or entry) else None
            unused = current if current != entry else None
            planned[stage.name] = Planned(stage.name, to_do, stage.cost() if to_do else NOTHING, entry, unused)
        return list(planned.values())

    @property
    def _trains_without_losses(self) -> bool:
        """Whether the curriculum does not need L*: it is used if it is cached, but not trained."""
        return self.trains and not self.recipe.curriculum.needs_benchmark

    def run(self, names: Sequence[str] = STAGES, *, say: Say = lambda line: None) -> bool:
        """`walk`, under torchrun and srun as well: there all ranks train together, and the first does the rest.

        Returns whether this process is the first rank, which prints the results.
        """
        if "train" in names:
            self.recipe = with_accumulate_of_run(self.folder, self.recipe, world_size())
        if world_size() > 1 and not self._train_on_ranks():
            return False
        self.walk(names, say=say)
        return True

    def _write_settings(self) -> None:
        """Writes the settings of the run, trained now or before: those of the translation may be new."""
        if bitext_folder(for_one_process(self.recipe), self.data).exists():
            write_bitext_recipe(for_one_process(self.recipe), self.data)
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

    def refuse_other_text(self, runs: Iterable[Path]) -> None:
        """Raises TrainingError if one of these runs was begun with other text. Hashes the text, prepares nothing."""
        for run in runs:
            begun = MadeFrom.find(run / MADE_FROM)
            manifest = self.work.manifest_of(begun.data) if begun and begun.data else None
            if manifest and (changed := differing_text(manifest.made_from, self._preparation.made_from)):
                raise TrainingError(
                    f"{run} was begun with other text: {listed(changed)} changed; restore it, or give the run another"
                    " name"
                )

    def refuse_occupied(self, names: Sequence[str]) -> None:
        """Raises DataError if something of the user's is where these stages need a link, before any work is done."""
        links = {link for stage in self.stages(names) for link in stage.links()}
        self.work.refuse_occupied(sorted(links - migratable(self.work, self.recipe)))

    def _links_to_losses(self) -> list[str]:
        """The links to L* where the recipe has it trained."""
        source = self.recipe.benchmark.source
        if source in ("none", "file") or self._trains_without_losses:
            return []
        return ["benchmark.json", "runs/bitext"] if source == "bitext" else ["benchmark.json"]

    def refuse_impossible(self, *, trains: bool) -> None:
        """Raises an error if the bitext models, or with `trains` the model itself, cannot be trained. Reads no text."""
        self._refuse_missing_dev_sets(self._preparation.without("dev"))
        refuse_impossible_model(self.recipe)
        if trains:
            refuse_impossible_curriculum(self.recipe)
            refuse_unusable_graph(self.recipe)
        refuse_unusable_losses(self.recipe)

    def refuse_missing_device(self, begun: Iterable[Path]) -> None:
        """Refuses a missing device, unless one of these trainings exists: finished ones can be reported on anywhere."""
        if not self._trains_elsewhere and not any(path.exists() for path in begun):
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

    def _why_not_tested(self) -> str | None:
        """Why translations and scores are left out. Before the data is prepared, there is no reason known."""
        return "there is no test set" if self.prepared and not self.has_test_sets else None

    @cached_property
    def evaluation(self) -> Evaluation:
        """The translations and scores of the run."""
        return Evaluation(self.folder, recipe=self.recipe)

    def _find_prepared(self) -> bool:
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

    def _find_graph(self) -> bool:
        self.graph = graph_of(self.recipe, self.data)
        if self.graph is None:
            return True
        for path in (self.work.entry("graph", self._graph_key) / "graph.json", self.recipe.graph_file):
            if path.is_file() and path.read_bytes() == self.graph.to_json().encode():
                return True
        return False

    def _remove_graph_of_others(self) -> None:
        """Removes the links to the graph of another recipe, where this one has none."""
        if not needs_graph(self.recipe):
            self.work.remove_pointer("graph")

    def _write_graph(self) -> None:
        if self.graph:
            write_graph(self.work, self.graph)

    def _find_losses(self) -> bool:
        own = losses_of_run(self.folder, self.recipe) if self.trains else None
        self.losses = own or known_losses(for_one_process(self.recipe), self.data, self.say)
        if self._trains_without_losses:
            if was_begun_without_losses(self.folder):
                self.losses = None
            return True
        return self.losses is not None or self.recipe.benchmark.source == "none"

    def _benchmark(self) -> None:
        if not self._trains_elsewhere:
            refuse_missing_device(self.recipe.training.device)  # once, and not by the process of every bitext model
        recipe = for_one_process(self.recipe)
        steps = reference_recipe(recipe).training.max_steps
        with nullcontext(self.watcher) if self.watcher else Display(steps) as watcher:
            self.losses = benchmark(recipe, self.data, executor=self.executor, watcher=watcher, say=self.say)
        found = cached(recipe, self.data)
        if found and found.target_tokens is not None:
            training = whole_training_cost(self.recipe, self.prepared, world_size())
            share = percent(found.target_tokens / training.target_tokens)
            self.say(
                f"L* took {found.target_tokens:,} target tokens: {share} of the training's, if that takes all its steps"
            )

    def _losses_entry(self) -> Path | None:
        if not self.losses or self.recipe.benchmark.file:
            return None
        return self.work.entry("benchmark", benchmark_key(for_one_process(self.recipe), self.data))

    def _migrate_benchmark(self) -> None:
        """Moves L* and bitext models of version 0.1.0 into the cache."""
        if migratable(self.work, self.recipe):
            with self._migrating():
                migrate_benchmark(self.work, for_one_process(self.recipe), self.data)

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
            record_inputs=lambda: record_inputs(self.recipe, self.data, self.graph, self.losses, self.folder),
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
                self.refuse_other_text([self.folder])
                self.walk(("prepare",))
                self.walk(("graph", "benchmark"))
                graph = self.graph and self.graph.to_json()
                ranks.broadcast(json.dumps([str(self.data.folder), graph, self.losses]))
            else:
                data, graph, self.losses = json.loads(ranks.broadcast())
                self.prepared = Prepared.open(Path(data))
                self.graph = LanguageGraph.from_json(graph) if graph else None
            self.train(ranks)
        return ranks.first
