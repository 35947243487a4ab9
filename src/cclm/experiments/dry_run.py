"""`--dry-run`: what a command would do, stage by stage, and what that would cost. It changes nothing."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cclm.data.batches import Batches
from cclm.data.prepare import current
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import SPECIALS
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import bitext_recipe, folder_of
from cclm.experiments.prepare import plan
from cclm.experiments.train import as_one, drawn, graph_of, known_losses, run_folder
from cclm.formats.checkpoint import Progress
from cclm.recipe.schema import Recipe
from cclm.report.pages import reported
from cclm.training.provenance import (
    changes,
    is_finished,
    made_from,
    newest_checkpoint,
    progress_of,
    refuse_other_settings,
)
from cclm.training.tasks import tasks
from cclm.training.torchrun import world_size

STAGES = {
    "benchmark": ("prepare", "benchmark"),
    "train": ("prepare", "graph", "benchmark", "train"),
    "run": ("prepare", "graph", "benchmark", "train", "translate", "score", "report"),
}
"""Of each command, in order."""


@dataclass(frozen=True)
class Stage:
    """A stage, whether it would be done, and at what cost at most: a training may stop before its last step."""

    stage: str
    to_do: bool
    models: int = 0
    steps: int = 0
    target_tokens: int = 0


def dry_run(recipe: Recipe, command: str, *, as_json: bool) -> None:
    """Prints what the command would do with the recipe."""
    prepared = current(plan(recipe), recipe.prepared)
    stages = [stage for stage in _stages(recipe, prepared) if stage.stage in STAGES[command]]
    tokens = {stage.stage: stage.target_tokens for stage in stages}
    total = sum(tokens.values())
    facts = {
        "stages": [asdict(stage) for stage in stages],
        "steps": sum(stage.steps for stage in stages),
        "target_tokens": total,
        "benchmark_share": tokens["benchmark"] / total if total else None,
        "parameters": parameters(recipe, prepared),
        "estimated": prepared is None,
    }
    if as_json:
        print(json.dumps(facts))
        return
    for stage in stages:
        print(f"{stage.stage:<10} {_told(stage) if stage.to_do else 'nothing to do'}")
    if total:
        share = f", {tokens['benchmark'] / total:.0%} of them for L*" if tokens["benchmark"] else ""
        print(f"{'in all':<10} at most {facts['steps']:,} steps, {total:,} target tokens{share}")
    about = "at most " if prepared is None else ""
    print(f"{'model':<10} {about}{facts['parameters']:,} parameters")
    if prepared is None:
        print("the text is not prepared yet: full batches and vocabularies are assumed")


def _told(stage: Stage) -> str:
    if not stage.models:
        return "would be done"
    models = f"{stage.models} bitext models, " if stage.stage == "benchmark" else ""
    return f"would train: {models}at most {stage.steps:,} steps, {stage.target_tokens:,} target tokens"


def _stages(recipe: Recipe, prepared: Prepared | None) -> Iterator[Stage]:
    """Every stage in turn. What cannot be known before an earlier one is done would be done."""
    folder, world = run_folder(recipe), world_size()
    refuse_other_settings(folder, recipe, world, prepared)
    yield Stage("prepare", prepared is None)
    yield Stage("graph", prepared is None or drawn(recipe, graph_of(recipe, prepared)) is None)
    losses = known_losses(recipe, prepared) if prepared else None
    given = prepared is None and recipe.benchmark.file is not None
    yield Stage("benchmark", given) if losses or given else _benchmark(as_one(recipe), prepared)
    finished = prepared is not None and losses is not None and is_finished(folder, recipe, prepared, losses, world)
    yield Stage("train", False) if finished else _train(recipe, prepared, folder, world)
    evaluation = Evaluation(folder, recipe=recipe) if finished else None
    translated = evaluation is not None and evaluation.translated() is not None
    scored = evaluation is not None and evaluation.scored() is not None
    yield Stage("translate", not translated)
    yield Stage("score", not scored)
    yield Stage("report", not scored or reported(folder) is None)


def _benchmark(recipe: Recipe, prepared: Prepared | None) -> Stage:
    settings = bitext_recipe(recipe)
    steps, tokens = 0, 0.0
    means = _tokens_a_batch(recipe, prepared)
    for name, mean in means.items():
        folder = folder_of(recipe, name)
        usable = prepared is not None and not changes(folder, made_from(settings, prepared, None))
        left = _steps_left(folder if usable else None, settings.training.max_steps)
        steps, tokens = steps + left, tokens + left * settings.training.accumulate * mean
    return Stage("benchmark", True, len(means), steps, round(tokens))


def _train(recipe: Recipe, prepared: Prepared | None, folder: Path, world: int) -> Stage:
    means = _tokens_a_batch(recipe, prepared)
    steps = _steps_left(folder, recipe.training.max_steps)
    tokens = steps * recipe.training.accumulate * world * sum(means.values()) / len(means)
    return Stage("train", True, 1, steps, round(tokens))


def _steps_left(folder: Path | None, max_steps: int) -> int:
    newest = newest_checkpoint(folder) if folder else None
    progress = progress_of(newest) if newest else Progress()
    return 0 if progress.is_over(max_steps) else max(0, max_steps - progress.step)


def _tokens_a_batch(recipe: Recipe, prepared: Prepared | None) -> dict[str, float]:
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
