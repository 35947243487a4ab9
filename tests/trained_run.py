"""A run that was really trained, if only for a moment: its model is of no use, and all its files are there."""

from pathlib import Path

import torch
from small_recipe import recipe

from cclm.curriculum import LanguageGraph
from cclm.data.prepare import Plan, prepare
from cclm.training.session import train
from cclm.training.tasks import tasks

GRAPH = LanguageGraph(
    ["tur", "por"], ["aze", "glg"], {"aze": {"tur": 0.5, "por": 0.1}, "glg": {"tur": 0.1, "por": 0.6}}
)


def trained_run(folder: Path, *changes: str) -> Path:
    """The run directory of a small recipe over text in `folder/text`."""
    torch.set_num_threads(1)
    settings = recipe(folder, *changes)
    data = prepare(Plan(settings.data, settings.vocabulary), settings.prepared, workers=1)
    run = Path(settings.work) / "runs" / settings.name
    train(settings, data, GRAPH, dict.fromkeys(tasks(settings.data, data), 4.0), run)
    return run
