"""A recipe so small that it trains in seconds, and its data."""

import json
from pathlib import Path
from typing import Any

from corpora import HRLS, LRLS, write_tsv

from cclm.curriculum import LanguageGraph
from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.recipe.loading import override
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check

GRAPH = LanguageGraph(
    ["tur", "por"], ["aze", "glg"], {"aze": {"tur": 0.5, "por": 0.1}, "glg": {"tur": 0.1, "por": 0.6}}
)
BENCHMARK = dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)


def recipe(folder: Path, *changes: str) -> Recipe:
    """The recipe over text in `folder/text`, with changes."""
    content: dict[str, Any] = {
        "version": 1,
        "name": "small",
        "work": str(folder / "work"),
        "data": {"format": "tsv", "path": str(folder / "text"), "high_resource": HRLS, "low_resource": LRLS},
        "vocabulary": {"pieces": 120},
        "model": {"layers": 1, "heads": 2, "width": 16, "feed_forward": 32, "dropout": 0.1},
        "curriculum": {"gate": {"threshold": 0.3}, "every": 5, "dev_sample": 8},
        "training": {
            "batch_tokens": 200, "accumulate": 1, "learning_rate": 0.01, "warmup": 10, "max_steps": 20,
            "validate_every": 10, "device": "cpu", "precision": "fp32",
        },
    }  # fmt: skip
    return check(Recipe, override(content, changes), "small")


def prepared(folder: Path) -> Prepared:
    """The prepared data of that recipe; the text is written first, where it is not there."""
    if not (folder / "text").exists():
        write_tsv(folder / "text")
    settings = recipe(folder)
    return prepare(Plan(settings.data, settings.vocabulary), settings.prepared, workers=1)


def events(run: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """The log of a run, or its events of one kind."""
    found = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [event for event in found if kind in (None, event["event"])]
