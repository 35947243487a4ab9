"""`cclm run`: a recipe from text to report, stage by stage; what is there and still holds is passed over."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cclm.data.prepare import current
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.score_table import print_scores
from cclm.experiments.benchmark import benchmark, write_recipe
from cclm.experiments.prepare import plan, prepared_data
from cclm.experiments.train import (
    as_one,
    draw,
    drawn,
    graph_of,
    known_losses,
    run_folder,
    run_train,
    say,
    train_model,
)
from cclm.recipe.schema import Recipe
from cclm.report.pages import reported, run_report
from cclm.training.provenance import is_finished, refuse_other_settings, write_config
from cclm.training.torchrun import world_size

Made = TypeVar("Made")


def run(recipe: Recipe, *, tensorboard: bool = False) -> Path | None:
    """Does every stage that is not done yet, with a line about each; gives the report.

    Under torchrun all ranks train together, with what comes before that; the rest is the first one's.
    """
    folder, world = run_folder(recipe), world_size()
    if world > 1 and run_train(recipe, tensorboard=tensorboard) is None:
        return None
    refuse_other_settings(folder, recipe, world)
    prepared = _stage("prepare", current(plan(recipe), recipe.prepared), lambda: prepared_data(recipe))
    refuse_other_settings(folder, recipe, world, prepared)
    graph = graph_of(recipe, prepared)
    _stage("graph", drawn(recipe, graph), lambda: draw(recipe, graph))
    alone = as_one(recipe)
    losses = _stage("benchmark", known_losses(recipe, prepared), lambda: benchmark(alone, prepared, say=say))
    finished = folder if is_finished(folder, recipe, prepared, losses, world) else None

    def train() -> Path:
        from cclm.training.session import Options  # torch: only where there is something to train

        return train_model(recipe, prepared, graph, losses, Options(tensorboard=tensorboard))

    _stage("train", finished, train)
    write_recipe(alone)  # passed over or not: settings of translation may be new
    write_config(folder, recipe)
    evaluation = Evaluation(folder)
    _stage("translate", evaluation.translated(), evaluation.translate)
    print_scores(_stage("score", evaluation.scored(), evaluation.score))
    return _stage("report", reported(folder), lambda: run_report(folder))


def _stage(name: str, there: Made | None, make: Callable[[], Made]) -> Made:
    """What is there already, or else is made now; and a line that says which."""
    if there is not None:
        say(f"{name:<10} skipped: nothing has changed")
        return there
    start = time.monotonic()
    made = make()
    say(f"{name:<10} done in {time.monotonic() - start:.1f} s")
    return made
