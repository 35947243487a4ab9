"""`cclm benchmark` and `cclm train`: what comes before is made first, if it is not there."""

import sys
from pathlib import Path

from cclm.data.prepare import prepare
from cclm.data.prepared import Prepared
from cclm.experiments.benchmark import benchmark
from cclm.recipe import Recipe
from cclm.stages.bleu import DevBleu
from cclm.stages.graph import language_graph
from cclm.stages.prepare import plan
from cclm.stages.progress import shown
from cclm.training.session import train


def run_folder(recipe: Recipe) -> Path:
    """Where the run of this recipe is."""
    return Path(recipe.work) / "runs" / recipe.name


def prepared_data(recipe: Recipe) -> Prepared:
    """The prepared data, made if it is not there."""
    with shown({"learning subwords": len(recipe.data.languages) + 1}) as progress:
        return prepare(plan(recipe), recipe.prepared, progress=progress)


def run_benchmark(recipe: Recipe, at_once: int | None = None) -> dict[str, float]:
    """L* of every task, trained if it is not there."""
    return benchmark(recipe, prepared_data(recipe), at_once=at_once, say=_say)


def run_train(recipe: Recipe, *, tensorboard: bool = False) -> Path:
    """Trains the recipe's model, or goes on with it; gives its run directory."""
    prepared = prepared_data(recipe)
    graph = language_graph(recipe)
    recipe.graph_file.write_text(graph.to_json(), encoding="utf-8")  # the report draws it
    losses = benchmark(recipe, prepared, say=_say)
    folder = run_folder(recipe)
    bleu = DevBleu(recipe, prepared, folder) if recipe.training.measures_bleu else None
    train(recipe, prepared, graph, losses, folder, bleu=bleu, tensorboard=tensorboard)
    return folder


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
