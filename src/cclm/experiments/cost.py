"""What trainings cost, in steps and target tokens at most, and how many parameters a model has. Nothing is trained."""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import SPECIALS
from cclm.experiments.benchmark import bitext_folder, bitext_recipe
from cclm.formats.checkpoint import Progress
from cclm.recipe.schema import Recipe
from cclm.training.directory import tasks
from cclm.training.provenance import newest_checkpoint, progress_of


@dataclass(frozen=True)
class Cost:
    """An upper bound: a training may stop before its last step."""

    models: int = 0
    steps: int = 0
    target_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.models + other.models, self.steps + other.steps, self.target_tokens + other.target_tokens)


NOTHING = Cost()
PER_STEP = 0.005
"""Seconds that a step takes at least, however small the model: what torch's calls cost."""
EFFICIENCY = 0.6
"""The share of the speed of large matrix products that a training reaches, on CPUs measured by benchmarks/."""


def seconds(cost: Cost, recipe: Recipe, prepared: Prepared | None) -> float:
    """About how long a cost takes on the cores of this machine, by a measured matrix product; GPUs are not measured."""
    if not cost.steps:
        return 0.0
    # Forward and backward take 6 operations per parameter and token; source and target are about equally long, and
    # each passes through about half of the parameters.
    operations = 6.0 * parameters(recipe, prepared) * cost.target_tokens
    return max(operations / (_flops() * EFFICIENCY), cost.steps * PER_STEP)


@cache
def _flops() -> float:
    """Floating-point operations per second of a matrix product in float32 on all cores."""
    size = 768
    matrix = np.ones((size, size), dtype=np.float32)
    matrix @ matrix  # starts the threads
    start = time.perf_counter()
    for _ in range(3):
        matrix @ matrix
    return float(3 * 2 * size**3 / (time.perf_counter() - start))


def benchmark_cost(recipe: Recipe, prepared: Prepared | None) -> Cost:
    """What is left to do of the bitext models."""
    if recipe.benchmark.file:
        return NOTHING
    settings = bitext_recipe(recipe)
    steps, tokens = 0, 0.0
    means = _tokens_per_batch(recipe, prepared)
    for name, mean in means.items():
        folder = bitext_folder(recipe, prepared) / name if prepared else None
        left = _steps_left(folder, settings.training.max_steps)
        steps, tokens = steps + left, tokens + left * settings.training.accumulate * mean
    return Cost(len(means), steps, round(tokens))


def training_cost(recipe: Recipe, prepared: Prepared | None, folder: Path, world: int) -> Cost:
    """What is left to do of the training itself, on so many ranks."""
    means = _tokens_per_batch(recipe, prepared)
    steps = _steps_left(folder, recipe.training.max_steps)
    tokens = steps * recipe.training.accumulate * world * sum(means.values()) / len(means)
    return Cost(1, steps, round(tokens))


def _steps_left(folder: Path | None, max_steps: int) -> int:
    newest = newest_checkpoint(folder) if folder else None
    progress = progress_of(newest) if newest else Progress()
    return 0 if progress.is_over(max_steps) else max(0, max_steps - progress.step)


def _tokens_per_batch(recipe: Recipe, prepared: Prepared | None) -> dict[str, float]:
    """Real target tokens in a batch of each task, on average; unprepared, as many as fit in."""
    if prepared is None:
        names = recipe.data.languages
        both = [f"{lang}-{way}" for lang in names for way in ("in", "out")]
        return dict.fromkeys(both if recipe.data.direction == "many-to-many" else names, recipe.training.batch_tokens)
    found = {}
    for task in tasks(recipe.data, prepared).values():
        corpus, budget = prepared.corpus(task.language, "train"), recipe.training.batch_tokens
        batches = Batches(corpus, task.direction, language=task.name, seed=recipe.seed, budget=budget)
        targets = corpus.lengths[:, int(task.direction.to_pivot)] + 1  # </s>
        found[task.name] = int(targets.sum()) / len(batches)
    return found


def parameters(recipe: Recipe, prepared: Prepared | None) -> int:
    """Numbers that are trained: embeddings (the target's is the output, too), and in every layer attention and
    feed-forward with their norms."""
    model, (source, target) = recipe.model, _symbols(recipe, prepared)
    width, inner = model.width, model.feed_forward
    attention, norm = 4 * (width * width + width), 2 * width
    feed_forward = width * inner + inner + inner * width + width
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return (source + target) * width + model.layers * (encoder + decoder) + 2 * norm


def _symbols(recipe: Recipe, prepared: Prepared | None) -> tuple[int, int]:
    """Of the source and of the target; none of the source where both share one table."""
    languages, pieces = len(recipe.data.languages), recipe.vocabulary.pieces
    reserved = len(SPECIALS) + languages + 1
    if recipe.vocabulary.joint:
        return 0, len(prepared.other) if prepared else reserved + pieces
    many = len(prepared.other) if prepared else reserved + languages * pieces
    one = len(prepared.pivot) if prepared else reserved + pieces
    return (many, one) if recipe.data.direction == "many-to-one" else (one, many)
