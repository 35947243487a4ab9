"""`cclm sweep`: the paper's search for the threshold. The runs form a tree: steps that several runs share are trained
once (`cclm.training.forking`), and every leaf ends as if it had been trained alone."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cclm.atomic import refuse_foreign_files
from cclm.data.work_folder import WorkFolder
from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import reference_recipe
from cclm.experiments.display import Display
from cclm.experiments.executor import Executor, Job, Watcher, processes_for, read_recipe, save_recipe
from cclm.experiments.graph import language_graph
from cclm.experiments.pipeline import BEFORE_TRAINING, Pipeline
from cclm.experiments.train_job import run_folder
from cclm.formats import sweep as formats
from cclm.formats.log import Log, Probe, Stopped
from cclm.formats.run import LOG
from cclm.messages import announce
from cclm.recipe.methods import CompetenceSection
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.report.pages import write_sweep
from cclm.training.lock import Lock
from cclm.training.provenance import is_finished
from cclm.training.run_inputs import origin_of

Aggregate = Literal["max", "avg"]
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
AGGREGATES: tuple[Aggregate, ...] = ("max", "avg")
WRITTEN = ("report.html", "report.md", "figure-2.svg")
"""What a sweep has only after its sweep.json."""


@dataclass(frozen=True)
class Leaf:
    """A gate of the grid, and its run."""

    threshold: float
    aggregate: Aggregate
    recipe: Path
    folder: Path

    @property
    def name(self) -> str:
        """The name of its run."""
        return self.folder.name

    @property
    def begun(self) -> bool:
        """Whether it has a run directory of its own by now."""
        return (self.folder / "checkpoints").exists()

    @property
    def shared_steps(self) -> int:
        """Steps that it shared with the run that it was separated from."""
        origin = origin_of(self.folder)
        return (origin.step or 0) if origin else 0

    @property
    def same_as(self) -> str | None:
        """The run that it is identical to, because it was never separated from it; None otherwise."""
        origin = origin_of(self.folder)
        return origin.run if origin and origin.same else None

    @property
    def log(self) -> Log:
        """The log of its run."""
        return Log.read(self.folder / LOG)


def sweep(
    recipe: Recipe,
    thresholds: Sequence[float] = THRESHOLDS,
    aggregates: Sequence[Aggregate] = AGGREGATES,
    *,
    executor: Executor | None = None,
    rival: Path | None = None,
) -> Path:
    """Trains the grid, as far as it is not done; writes sweep.json and its page, which it returns.

    Waits while another process runs a sweep of the same name.
    """
    if any(len(set(values)) < len(values) or not values for values in (thresholds, aggregates)):
        raise ConfigError(
            "sweep: --threshold and --aggregate need at least one value each, and no value twice; got thresholds"
            f" {list(thresholds)} and aggregates {list(aggregates)}"
        )
    beside = _rival(rival) if rival else None
    executor = executor or processes_for(recipe.training.device)
    refuse_impossible(recipe)
    grid = grid_recipes(recipe, thresholds, aggregates)
    Pipeline(recipe, executor=executor).refuse_missing_device(map(run_folder, grid))
    for each in grid:
        Pipeline(each).refuse_other_settings()  # before anything is made for them
    Pipeline(recipe).refuse_other_text(map(run_folder, grid))
    Pipeline(recipe).refuse_occupied(BEFORE_TRAINING)
    with Lock(sweep_folder(recipe), wait=announce), WorkFolder(Path(recipe.work)).in_use():
        return _sweep(recipe, thresholds, aggregates, executor, beside)


def refuse_impossible(recipe: Recipe) -> None:
    """Raises an error if the leaves of a sweep cannot be trained, or its folder has files of a user. Reads no text."""
    refuse_foreign_files(sweep_folder(recipe), WRITTEN, "sweep.json")
    gate = CompetenceSection(name="competence")  # of every leaf, whatever the recipe has
    curriculum = recipe.curriculum.model_copy(update={"gate": gate})
    Pipeline(recipe.model_copy(update={"curriculum": curriculum})).refuse_impossible(trains=True)


def _sweep(
    recipe: Recipe,
    thresholds: Sequence[float],
    aggregates: Sequence[Aggregate],
    executor: Executor,
    beside: formats.Rival | None,
) -> Path:
    with Display(reference_recipe(recipe).training.max_steps) as display:
        pipeline = Pipeline(recipe, executor=executor, watcher=display, say=display.print)
        pipeline.walk(("prepare",))
        language_graph(recipe, pipeline.data)  # fails where there is none: the gate of every leaf needs it
        pipeline.walk(("graph", "benchmark"))
    grid = leaves(recipe, thresholds, aggregates)
    with Display(recipe.training.max_steps) as display:
        failed = train_tree(grid, executor, display, pipeline)
    if failed:
        why = "\n  ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise TrainingError(
            f"{len(failed)} of {len(grid)} runs failed or were not started;"
            f" run the same command to continue with them\n  {why}"
        )
    folder = sweep_folder(recipe)
    results(recipe, grid, beside).write(folder / "sweep.json")
    return write_sweep(folder)


def sweep_folder(recipe: Recipe) -> Path:
    """The folder of a sweep; its runs are among the other runs of the work folder."""
    return Path(recipe.work) / "sweeps" / recipe.name


def grid_recipes(recipe: Recipe, thresholds: Sequence[float], aggregates: Sequence[Aggregate]) -> list[Recipe]:
    """The recipe of every leaf. ConfigError if a threshold gives a name that no run can have, or that of another."""
    made, own = list[Recipe](), recipe.curriculum.gate
    confidence = own.confidence if isinstance(own, CompetenceSection) else 0.0
    for aggregate in aggregates:
        for threshold in thresholds:
            content = recipe.model_dump(mode="json")
            content["name"] = f"{recipe.name}-{aggregate}-{threshold:g}"
            gate = {"name": "competence", "aggregate": aggregate, "threshold": threshold, "confidence": confidence}
            content["curriculum"]["gate"] = gate
            made.append(check(Recipe, content, f"--threshold {threshold}"))
    names = [leaf.name for leaf in made]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"sweep: two thresholds give the run {repeated[0]}; names have six digits of a threshold: round them"
        )
    return made


def leaves(recipe: Recipe, thresholds: Sequence[float], aggregates: Sequence[Aggregate]) -> list[Leaf]:
    """The grid; each leaf's recipe is written into the folder of the sweep, as a file that `cclm train` takes."""
    points = [(threshold, aggregate) for aggregate in aggregates for threshold in thresholds]
    made = []
    for (threshold, aggregate), leaf in zip(points, grid_recipes(recipe, thresholds, aggregates), strict=True):
        path = sweep_folder(recipe) / f"{leaf.name}.json"
        save_recipe(path, leaf)
        made.append(Leaf(threshold, aggregate, path, run_folder(leaf)))
    return made


def train_tree(grid: Sequence[Leaf], executor: Executor, watcher: Watcher, pipeline: Pipeline) -> dict[str, str]:
    """Trains and scores every leaf that is not done; returns why some failed.

    The first leaf is trained, and all others share its training. A leaf whose curriculum decides differently gets a run
    directory of its own and is trained from there. Leaves that are added to a finished sweep share no training with the
    earlier ones; the first of them is trained for all of them. When a leaf fails, those that already have a run
    directory are trained to their end, and the others wait for the next start of the command.
    """
    seen: set[str] = set()
    failed: dict[str, str] = {}

    def jobs(found: Sequence[Leaf]) -> list[Job]:
        seen.update(leaf.name for leaf in found)
        return [
            _job(leaf, grid, pipeline.data.folder) for leaf in found if not is_done(read_recipe(leaf.recipe), pipeline)
        ]

    def ready() -> list[Job]:
        """Jobs for leaves that have got a run directory since the last call."""
        return jobs([leaf for leaf in grid if leaf.begun and leaf.name not in seen])

    while left := [leaf for leaf in grid if leaf.name not in seen]:
        if failed:
            # They share the training of a leaf that failed. If one of them led instead, the tree would be another one
            # than without the failure, and its shared steps would be trained twice.
            return failed | {leaf.name: "not started: it shares the training of one that failed" for leaf in left}
        failed |= executor.run(jobs(left[:1]), watcher, more=ready)
    return failed


def _job(leaf: Leaf, grid: Sequence[Leaf], data: Path) -> Job:
    others = tuple(other.recipe for other in grid if other != leaf)
    return Job(leaf.name, leaf.recipe, leaf.folder, data, forks=others, scored=True)


def is_done(leaf: Recipe, pipeline: Pipeline) -> bool:
    """Whether the run of a leaf's recipe is trained, and scored unless it is the same as another one."""
    folder = run_folder(leaf)
    if not folder.exists() or not is_finished(folder, leaf, pipeline.data, pipeline.losses):
        return False
    origin = origin_of(folder)
    return bool(origin and origin.same) or Evaluation(folder).scored() is not None


def results(recipe: Recipe, grid: Sequence[Leaf], rival: formats.Rival | None) -> formats.Sweep:
    """The result of every leaf, the leaf with the lowest weighted dev loss, and the steps saved by sharing."""
    rows = [_leaf(leaf, grid) for leaf in grid]
    best = min(rows, key=lambda row: row.weighted)
    return formats.Sweep(
        recipe=recipe.name,
        thresholds=list(dict.fromkeys(leaf.threshold for leaf in grid)),
        aggregates=list(dict.fromkeys(leaf.aggregate for leaf in grid)),
        leaves=rows,
        chosen=formats.Point(threshold=best.threshold, aggregate=best.aggregate),
        steps=formats.Steps(trained=steps_trained(grid), independent=sum(map(_steps, grid)), fewest=fewest_steps(grid)),
        rival=rival,
    )


def _leaf(leaf: Leaf, grid: Sequence[Leaf]) -> formats.Leaf:
    stopped, best = leaf.log.stopped, leaf.log.best
    assert stopped is not None  # it is done
    assert best is not None
    assert best.weighted is not None
    assert best.macro is not None
    other = next((other for other in grid if other.name == leaf.same_as), None)
    scores = Evaluation((other or leaf).folder).scored()
    chrf = [row["chrf"] for row in scores.languages.values()] if scores else []
    return formats.Leaf(
        threshold=leaf.threshold,
        aggregate=leaf.aggregate,
        run=f"runs/{leaf.name}",
        weighted=best.weighted,
        macro=best.macro,
        steps=stopped.step,
        best=stopped.best,
        admissions=leaf.log.admissions,
        bleu=scores.means.all if scores else None,
        chrf=sum(chrf) / len(chrf) if chrf else None,
        same_as=formats.Point(threshold=other.threshold, aggregate=other.aggregate) if other else None,
    )


def steps_trained(grid: Sequence[Leaf]) -> int:
    """The number of steps that were trained: of each leaf, those after it was separated from another run."""
    return sum(_steps(leaf) - leaf.shared_steps for leaf in grid if leaf.same_as is None)


def fewest_steps(grid: Sequence[Leaf]) -> int:
    """A lower bound on the number of steps to train: the total length of all distinct segments between decisions."""
    apart: dict[str, int] = {}
    for leaf in grid:
        decided, last = "", 0
        for event in leaf.log.events:
            if isinstance(event, Probe | Stopped):
                apart[f"{decided}|{last}"] = event.step - last
                last = event.step
                decided += json.dumps([event.admitted, event.weights] if isinstance(event, Probe) else None)
    return sum(apart.values())


def _steps(leaf: Leaf) -> int:
    stopped = leaf.log.stopped
    assert stopped is not None
    return stopped.step


def _rival(run: Path) -> formats.Rival:
    """A run of another method, to draw across the figure."""
    evaluation = Evaluation(run)
    scores = evaluation.ensure_scores()
    best = Log.read(run / LOG).best
    if best is None:
        raise ConfigError(f"--rival {run}: its training has not ended; finish it first")
    return formats.Rival(name=evaluation.recipe.name, weighted=best.weighted, bleu=scores.means.all)
