"""The search for a threshold, as a tree: runs that differ in the gate alone are one run until they first decide
otherwise. Every leaf comes out as if it had been trained by itself; shared beginnings are trained once."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.experiments.benchmark import kept
from cclm.experiments.processes import Training, side_by_side
from cclm.experiments.trials import events
from cclm.formats.run import Origin
from cclm.recipe.schema import Recipe
from cclm.training.directory import origin_of

Aggregate = Literal["max", "avg"]


@dataclass(frozen=True)
class Leaf:
    """A gate of the grid, and its run."""

    threshold: float
    aggregate: Aggregate
    recipe: Path
    folder: Path

    @property
    def name(self) -> str:
        """Of its run."""
        return self.folder.name

    @property
    def origin(self) -> Origin | None:
        """The run that it was one with at first; None for the one that led from the start."""
        return origin_of(self.folder)

    @property
    def begun(self) -> bool:
        """Whether it has a run directory of its own by now."""
        return (self.folder / "checkpoints").exists()


@dataclass(frozen=True)
class LeafTraining(Training):
    """A leaf's training, with all others ready to follow as long as they decide alike."""

    others: tuple[Path, ...] = ()

    def run(self) -> None:
        """Trains, in a process of its own."""
        from cclm.training.session import Options, train

        recipe = self.settings()
        prepared = Prepared.open(recipe.prepared)
        graph = LanguageGraph.from_json(recipe.graph_file.read_text(encoding="utf-8"))
        found = [Recipe.model_validate_json(path.read_text(encoding="utf-8")) for path in self.others]
        forks = {other.name: other for other in found}
        train(recipe, prepared, graph, kept(recipe, prepared), self.folder, Options(forks=forks))


def leaves(recipe: Recipe, thresholds: Sequence[float], aggregates: Sequence[Aggregate]) -> list[Leaf]:
    """The grid; each leaf's recipe is written beside the runs, as a file that `cclm train` takes."""
    made = []
    for aggregate in aggregates:
        for threshold in thresholds:
            name = f"{recipe.name}-{aggregate}-{threshold:g}"
            content = recipe.model_dump(mode="json")
            content["name"] = name
            content["curriculum"]["gate"] = {"name": "competence", "aggregate": aggregate, "threshold": threshold}
            path = Path(recipe.work) / "sweeps" / recipe.name / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_if_changed(path, Recipe.model_validate(content).model_dump_json(indent=1) + "\n")
            made.append(Leaf(threshold, aggregate, path, Path(recipe.work) / "runs" / name))
    return made


def train_tree(
    grid: Sequence[Leaf],
    at_once: int,
    saw: Callable[[Training, dict[str, Any]], object],
    done: Callable[[LeafTraining], bool],
    kind: type[LeafTraining] = LeafTraining,
) -> dict[str, str]:
    """Trains every leaf that is not `done`; gives why some failed. `kind` may do more with a leaf than train it.

    The first leads and all others follow. Whoever parts from it gets a run directory, and is then trained too. Leaves
    that nobody has led, because they are new in a sweep that was done before, get a leader of their own.
    """
    seen: set[str] = set()
    failed: dict[str, str] = {}

    def trainings(found: Sequence[Leaf]) -> list[Training]:
        seen.update(leaf.name for leaf in found)
        made = [
            kind(leaf.name, leaf.recipe, leaf.folder, others=tuple(other.recipe for other in grid if other != leaf))
            for leaf in found
        ]
        return [each for each in made if not (each.folder.exists() and done(each))]

    def ready() -> list[Training]:
        """Those that have come to be since the last time."""
        return trainings([leaf for leaf in grid if leaf.begun and leaf.name not in seen])

    while left := [leaf for leaf in grid if leaf.name not in seen]:
        failed |= side_by_side(trainings(left[:1]), at_once, saw, more=ready)
    return failed


def steps_trained(grid: Sequence[Leaf]) -> int:
    """Steps that the tree took: each leaf's from where it parted from its origin."""
    origins = [(leaf, leaf.origin) for leaf in grid]
    return sum(
        _steps(leaf) - (origin.step or 0 if origin else 0) for leaf, origin in origins if not (origin and origin.same)
    )


def steps_alone(grid: Sequence[Leaf]) -> int:
    """Steps that independent runs would have taken."""
    return sum(map(_steps, grid))


def fewest_steps(grid: Sequence[Leaf]) -> int:
    """Steps that no way of sharing could save: what follows different decisions has to be trained apart."""
    apart: dict[str, int] = {}
    for leaf in grid:
        decided, last = "", 0
        for event in events(leaf.folder):
            if event["event"] == "probe" or event["event"] == "stopped":
                apart[f"{decided}|{last}"] = event["step"] - last
                last = event["step"]
                decided += json.dumps([event.get("admitted"), event.get("weights")])
    return sum(apart.values())


def _steps(leaf: Leaf) -> int:
    return next(int(event["step"]) for event in reversed(events(leaf.folder)) if event["event"] == "stopped")
