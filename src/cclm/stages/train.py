"""`cclm benchmark` and `cclm train`: what comes before is made first, if it is not there."""

import json
import sys
from pathlib import Path

from cclm.curriculum import LanguageGraph
from cclm.data.prepare import prepare
from cclm.data.prepared import Prepared
from cclm.experiments.benchmark import benchmark
from cclm.recipe import Recipe
from cclm.stages.graph import language_graph
from cclm.stages.prepare import plan
from cclm.stages.progress import shown
from cclm.training.device import device_of
from cclm.training.evaluate import Bleu
from cclm.training.ranks import Ranks, joined
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


def run_train(recipe: Recipe, *, tensorboard: bool = False) -> Path | None:
    """Trains the recipe's model, or goes on with it; gives its run directory.

    Under torchrun every rank comes here: the first makes what comes before the training, and it alone has a directory
    to give in the end.
    """
    with joined(device_of(recipe.training.device).torch) as ranks:
        if ranks.first:
            prepared = prepared_data(recipe)
            graph, losses = language_graph(recipe), benchmark(_as_one(recipe, ranks), prepared, say=_say)
            recipe.graph_file.write_text(graph.to_json(), encoding="utf-8")  # the report draws it
            ranks.told(json.dumps([graph.to_json(), losses]))
        else:
            text, losses = json.loads(ranks.told())
            prepared, graph = Prepared.open(recipe.prepared), LanguageGraph.from_json(text)
        folder = run_folder(recipe)
        bleu = _bleu(recipe, prepared, folder) if recipe.training.measures_bleu else None
        train(recipe, prepared, graph, losses, folder, ranks=ranks, bleu=bleu, tensorboard=tensorboard)
    return folder if ranks.first else None


def _as_one(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe for one process with the same updates: bitext models are trained so, however many ranks there are."""
    accumulate = recipe.training.accumulate * ranks.world
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"accumulate": accumulate})})


def _bleu(recipe: Recipe, prepared: Prepared, folder: Path) -> Bleu:
    from cclm.stages.bleu import DevBleu  # a second to import, where transformers is installed

    return DevBleu(recipe, prepared, folder)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
