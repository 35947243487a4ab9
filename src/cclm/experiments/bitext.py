"""One bitext training, as a process of its own: `python -m cclm.experiments.bitext RECIPE.json TASK`."""

import sys
from pathlib import Path

import torch

from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.recipe import Recipe
from cclm.training.errors import Interrupted
from cclm.training.session import train


def main() -> None:
    """Trains the model of one task and leaves its run directory."""
    torch.set_num_threads(1)
    settings, task = Path(sys.argv[1]), sys.argv[2]
    recipe = Recipe.model_validate_json(settings.read_text(encoding="utf-8"))
    prepared = Prepared.open(recipe.prepared)
    nobody = LanguageGraph(["a"], ["b"], {"b": {"a": 0.0}})  # its gate asks no graph
    try:
        train(recipe, prepared, nobody, None, settings.parent / task, only=[task])
    except Interrupted as signal:
        sys.exit(128 + signal.number)


if __name__ == "__main__":
    main()
