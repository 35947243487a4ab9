"""`cclm benchmark` and `cclm train`: what comes before is made first, if it is not there."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.experiments.benchmark import benchmark, kept
from cclm.experiments.graph import language_graph
from cclm.experiments.prepare import prepared_data
from cclm.recipe.schema import Recipe
from cclm.training.provenance import begun_with, refuse_other_settings
from cclm.training.torchrun import world_size

if TYPE_CHECKING:
    from cclm.training.session import Options


def run_folder(recipe: Recipe) -> Path:
    """Where the run of this recipe is."""
    return Path(recipe.work) / "runs" / recipe.name


def run_benchmark(recipe: Recipe, at_once: int | None = None) -> dict[str, float]:
    """L* of every task, trained if it is not there."""
    return benchmark(recipe, prepared_data(recipe), at_once=at_once, say=say)


def run_train(recipe: Recipe, *, tensorboard: bool = False, strict: bool = False, force: bool = False) -> Path | None:
    """Trains the recipe's model, or goes on with it; gives its run directory.

    Under torchrun every rank comes here: the first makes what comes before the training, and it alone has a directory
    to give in the end.
    """
    from cclm.training.device import device_of  # torch: only where there is something to train
    from cclm.training.ranks import joined
    from cclm.training.session import Options

    with joined(device_of(recipe.training.device).torch) as ranks:
        if ranks.first:
            refuse_other_settings(run_folder(recipe), recipe, ranks.world, force=force)
            prepared = prepared_data(recipe)
            refuse_other_settings(run_folder(recipe), recipe, ranks.world, prepared, force=force)
            graph = graph_of(recipe, prepared)
            draw(recipe, graph)
            losses = known_losses(recipe, prepared) or benchmark(as_one(recipe), prepared, say=say)
            ranks.broadcast(json.dumps([graph and graph.to_json(), losses]))
        else:
            text, losses = json.loads(ranks.broadcast())
            prepared, graph = Prepared.open(recipe.prepared), LanguageGraph.from_json(text) if text else None
        options = Options(ranks=ranks, tensorboard=tensorboard, strict=strict, force=force)
        train_model(recipe, prepared, graph, losses, options)
    return run_folder(recipe) if ranks.first else None


def known_losses(recipe: Recipe, prepared: Prepared) -> dict[str, float] | None:
    """L* where nothing has to be trained for it: the run's own, or that of the benchmark if it still holds."""
    return begun_with(run_folder(recipe), recipe) or kept(as_one(recipe), prepared, say)


def as_one(recipe: Recipe) -> Recipe:
    """The recipe for one process with the same updates: bitext models are trained so, however many ranks there are."""
    accumulate = recipe.training.accumulate * world_size()
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"accumulate": accumulate})})


def train_model(
    recipe: Recipe,
    prepared: Prepared,
    graph: LanguageGraph | None,
    losses: dict[str, float],
    options: "Options | None" = None,
) -> Path:
    """The training itself, when all that comes before is there."""
    from cclm.training.session import Options, train

    folder = run_folder(recipe)
    options = options or Options()
    if recipe.training.measures_bleu:
        from cclm.evaluation.dev_bleu import DevBleu  # a second more, where transformers is installed

        options = replace(options, bleu=DevBleu(recipe, prepared, folder))
    train(recipe, prepared, graph, losses, folder, options)
    return folder


def graph_of(recipe: Recipe, prepared: Prepared) -> LanguageGraph | None:
    """The language graph; None where all languages are of one kind and no gate asks for it."""
    both = recipe.data.high_resource and recipe.data.low_resource
    return language_graph(recipe, prepared) if both or recipe.curriculum.gate.name == "competence" else None


def drawn(recipe: Recipe, graph: LanguageGraph | None) -> Path | None:
    """The file of the graph, if it is this one's."""
    path = recipe.graph_file
    same = path.is_file() and graph is not None and path.read_bytes() == graph.to_json().encode()
    return path if same or (graph is None and not path.exists()) else None


def draw(recipe: Recipe, graph: LanguageGraph | None) -> Path:
    """Leaves the graph where the report looks for it."""
    try:
        if graph is None:
            recipe.graph_file.unlink(missing_ok=True)
        else:
            write_if_changed(recipe.graph_file, graph.to_json())
    except OSError as error:
        raise DataError(f"{recipe.graph_file}: {error.strerror or error}") from None
    return recipe.graph_file


def say(line: str) -> None:
    """A line for people, beside what a command answers."""
    print(line, file=sys.stderr, flush=True)
