"""cclm under measurement: `cclm.training.session.train` as the command calls it, with everything switched on.

Eight languages, competence gate, inverse-competence sampling, schedule, logs. The curriculum's probe takes 256
sentences a language every 100 steps; no window is that long, so it takes 26 every 10: as many a step, in portions. The
benchmark losses L* are such that the gate admits the small languages at the first look.
"""

import sys
from pathlib import Path
from typing import Any

from events import Events, counting
from workload import PIVOT, SIZES, Size

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Batches, Direction
from cclm.data.prepared import Prepared
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.training.adam import Adam
from cclm.training.session import train

EVERY, SAMPLE = 10, 26
NEVER = 10**8
LEAST_LOSS = 13.0
"""L*, in bits: about that of a model which knows nothing."""


def recipe_of(
    size: Size, precision: str, work: Path, *, languages: tuple[str, ...], budget: int, every: int = EVERY
) -> Recipe:
    """The recipe of the work; the first half of the languages are HRLs."""
    hrls, lrls = languages[: len(languages) // 2], languages[len(languages) // 2 :]
    content: dict[str, Any] = {
        "version": 1,
        "name": "speed",
        "work": str(work),
        "data": {"format": "tsv", "path": "none", "pivot": PIVOT, "high_resource": hrls, "low_resource": lrls},
        "vocabulary": {"joint": size.joint},
        "model": {
            "layers": size.layers, "heads": size.heads, "width": size.width, "feed_forward": size.feed_forward,
            "dropout": 0.3,
        },
        "curriculum": {
            "gate": {"name": "competence", "threshold": 0.5}, "sampler": {"name": "inverse-competence"},
            "every": every, "dev_sample": SAMPLE,
        },
        "training": {
            "batch_tokens": budget, "accumulate": 1, "label_smoothing": 0.1, "clip": 1.0,
            "max_steps": NEVER, "validate_every": NEVER, "precision": precision, "device": "cpu",
        },
    }  # fmt: skip
    return check(Recipe, content, "speed")


def budget_for(prepared: Prepared, tokens: int) -> int:
    """The token budget with which a batch of a language, drawn from all alike, has so many real target tokens."""
    budget = tokens
    while _mean_batch(prepared, budget) < tokens:
        budget += tokens // 20
    return budget


def _mean_batch(prepared: Prepared, budget: int) -> float:
    means = []
    for lang in prepared.languages:
        corpus = prepared.corpus(lang, "train")
        batches = Batches(corpus, Direction(to_pivot=True), language=lang, seed=1, budget=budget)
        means.append((int(corpus.lengths[:, 1].sum()) + len(corpus)) / len(batches))
    return sum(means) / len(means)


def graph_of(recipe: Recipe) -> LanguageGraph:
    """A graph in which all languages are alike."""
    hrls, lrls = recipe.data.high_resource, recipe.data.low_resource
    return LanguageGraph(hrls, lrls, {lrl: dict.fromkeys(hrls, 0.5) for lrl in lrls})


def begin(recipe: Recipe, prepared: Prepared) -> None:
    """Trains until the process is killed."""
    losses = dict.fromkeys(recipe.data.languages, LEAST_LOSS)
    train(recipe, prepared, graph_of(recipe), losses, Path(recipe.work) / "runs" / recipe.name)


def main(folder: str, name: str, precision: str, work: str, told: str) -> None:
    """Trains until it is killed."""
    events = Events(Path(told))
    counting(events, Batches, "batch", lambda arguments, batch: batch.target_tokens)
    events.tell_after(Adam, "step")
    prepared = Prepared.open(Path(folder))
    budget = budget_for(prepared, SIZES[name].step_tokens)
    begin(recipe_of(SIZES[name], precision, Path(work), languages=prepared.languages, budget=budget), prepared)


if __name__ == "__main__":
    main(*sys.argv[1:])
