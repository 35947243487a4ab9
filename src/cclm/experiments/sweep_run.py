"""`cclm sweep`: the paper's search for the threshold, and its Figure 2; beginnings that runs share are trained once."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cclm.atomic import write_if_changed
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import benchmark, bitext_recipe
from cclm.experiments.graph import language_graph
from cclm.experiments.prepare import prepared_data
from cclm.experiments.sweep import (
    Aggregate,
    Leaf,
    LeafTraining,
    fewest_steps,
    leaves,
    steps_alone,
    steps_trained,
    train_tree,
)
from cclm.experiments.train import draw
from cclm.experiments.trials import admissions_of, events
from cclm.experiments.watch import Watch
from cclm.recipe.schema import Recipe
from cclm.report.pages import write_sweep
from cclm.training.directory import origin_of
from cclm.training.provenance import is_finished

VERSION = 1
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
AGGREGATES: tuple[Aggregate, ...] = ("max", "avg")


class ScoredLeaf(LeafTraining):
    """A leaf in its process: trained, then translated and scored, unless it is the same as another."""

    def run(self) -> None:
        """The training, and its scores."""
        super().run()
        if not _is_same(self.folder) and not (evaluation := Evaluation(self.folder)).scored():
            evaluation.score()


def run(
    recipe: Recipe,
    thresholds: Sequence[float] = THRESHOLDS,
    aggregates: Sequence[Aggregate] = AGGREGATES,
    *,
    at_once: int | None = None,
    rival: Path | None = None,
) -> Path:
    """Trains the grid, as far as it is not done, and leaves sweep.json and its page, which it gives."""
    if any(len(set(values)) < len(values) or not values for values in (thresholds, aggregates)):
        raise ConfigError(f"sweep: thresholds {list(thresholds)}, aggregates {list(aggregates)}: some, each once")
    beside = _rival(rival) if rival else None
    prepared = prepared_data(recipe)
    draw(recipe, language_graph(recipe, prepared))
    with Watch(bitext_recipe(recipe).training.max_steps) as watch:
        losses = benchmark(recipe, prepared, at_once=at_once, saw=watch.saw, say=watch.say)
    grid = leaves(recipe, thresholds, aggregates)

    def done(training: LeafTraining) -> bool:
        whole = is_finished(training.folder, training.settings(), prepared, losses)
        return whole and (_is_same(training.folder) or Evaluation(training.folder).scored() is not None)

    with Watch(recipe.training.max_steps) as watch:
        failed = train_tree(grid, at_once or available_cores(), watch.saw, done, ScoredLeaf)
    if failed:
        told = "\n  ".join(f"{name}: {why}" for name, why in failed.items())
        raise TrainingError(f"{len(failed)} of {len(grid)} runs failed; the same command tries them again\n  {told}")
    folder = Path(recipe.work) / "sweeps" / recipe.name
    text = json.dumps(found(recipe, grid, beside), indent=1, ensure_ascii=False, allow_nan=False)
    write_if_changed(folder / "sweep.json", text + "\n")
    return write_sweep(folder)


def found(recipe: Recipe, grid: Sequence[Leaf], rival: dict[str, Any] | None) -> dict[str, Any]:
    """The content of sweep.json: what every leaf came to, the choice by weighted dev loss, what sharing has saved."""
    rows = [_leaf(leaf, grid) for leaf in grid]
    best = min(rows, key=lambda row: row["weighted"])
    return {
        "version": VERSION,
        "recipe": recipe.name,
        "thresholds": list(dict.fromkeys(leaf.threshold for leaf in grid)),
        "aggregates": list(dict.fromkeys(leaf.aggregate for leaf in grid)),
        "leaves": rows,
        "chosen": {"threshold": best["threshold"], "aggregate": best["aggregate"]},
        "steps": {"trained": steps_trained(grid), "independent": steps_alone(grid), "fewest": fewest_steps(grid)},
        "rival": rival,
    }


def _leaf(leaf: Leaf, grid: Sequence[Leaf]) -> dict[str, Any]:
    log = events(leaf.folder)
    stopped = next(event for event in reversed(log) if event["event"] == "stopped")
    best = next(event for event in log if event["event"] == "validation" and event["step"] == stopped["best"])
    origin = leaf.origin
    other = next((o for o in grid if o.name == origin.run), None) if origin and origin.same else None
    scores = Evaluation((other or leaf).folder).scored() or {}
    chrf = [row["chrf"] for row in scores.get("languages", {}).values()]
    return {
        "threshold": leaf.threshold,
        "aggregate": leaf.aggregate,
        "run": f"runs/{leaf.name}",
        "weighted": best["weighted"],
        "macro": best["macro"],
        "steps": stopped["step"],
        "best": stopped["best"],
        "admissions": admissions_of(leaf.folder),
        "bleu": scores.get("means", {}).get("all"),
        "chrf": sum(chrf) / len(chrf) if chrf else None,
        "same_as": {"threshold": other.threshold, "aggregate": other.aggregate} if other else None,
    }


def _is_same(folder: Path) -> bool:
    origin = origin_of(folder)
    return origin is not None and origin.same


def _rival(run: Path) -> dict[str, Any]:
    """A run of another method, to draw across the figure."""
    evaluation = Evaluation(run)
    scores = evaluation.scored() or evaluation.score()
    log = events(run)
    best = next(event["best"] for event in reversed(log) if event["event"] == "stopped")
    weighted = next(e["weighted"] for e in log if e["event"] == "validation" and e["step"] == best)
    return {"name": evaluation.recipe.name, "weighted": weighted, "bleu": scores["means"]["all"]}
