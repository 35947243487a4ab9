"""`--dry-run`: what a command would do, stage by stage, and what that would cost."""

import json
from collections.abc import Sequence

from cclm.data.pretrained import is_run
from cclm.experiments.benchmark import as_bitext
from cclm.experiments.cost import (
    Cost,
    PretrainedSizes,
    benchmark_cost,
    free_memory,
    parameters,
    percent,
    seconds,
    whole_training_cost,
)
from cclm.experiments.pipeline import Pipeline, Planned
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study
from cclm.training.console import duration
from cclm.training.torchrun import world_size


def print_plan(recipe: Recipe, stages: Sequence[str], *, as_json: bool) -> None:
    """Prints what the stages would do. Changes nothing."""
    pipeline = Pipeline(recipe)
    planned = pipeline.plan(stages)
    times = {stage.name: seconds(stage.cost, recipe, pipeline.prepared) for stage in planned}
    steps = sum(stage.cost.steps for stage in planned)
    total = sum(stage.cost.target_tokens for stage in planned)
    for_losses = sum(stage.cost.target_tokens for stage in planned if stage.name == "benchmark")
    training = whole_training_cost(recipe, pipeline.prepared, world_size()).target_tokens
    size, needed = parameters(recipe, pipeline.prepared), _memory(recipe)
    if as_json:
        facts = {
            "stages": [_facts(stage) | {"seconds": times[stage.name]} for stage in planned],
            "steps": steps,
            "target_tokens": total,
            "seconds": sum(times.values()),
            "benchmark_share": for_losses / total if total else None,
            "benchmark_of_training": for_losses / training,
            "parameters": size,
            "estimated": pipeline.prepared is None,
            **({"memory": needed, "memory_free": free_memory(recipe)[0]} if needed else {}),
        }
        print(json.dumps(facts))
        return
    for stage in planned:
        print(f"{stage.name:<10} {_description(stage, recipe, training)}")
    if total:
        share = f", {for_losses / total:.0%} of them for L*" if for_losses else ""
        print(f"{'in all':<10} at most {steps:,} steps, {total:,} target tokens{share}")
        print(f"{'time':<10} about {duration(sum(times.values()))} at most on the cores of this machine")
    about = "at most " if pipeline.prepared is None else ""
    print(f"{'model':<10} {about}{size:,} parameters")
    if needed:
        free, where = free_memory(recipe)
        print(
            f"{'memory':<10} about {needed / 1e9:.1f} GB per training; {free / 1e9:.1f} GB are free{where}:"
            f" {'it fits' if needed <= free else 'it does not fit'}"
        )
    if pipeline.prepared is None:
        print("the text is not prepared yet: full batches and vocabularies are assumed")


def _memory(recipe: Recipe) -> int:
    """Bytes that the training of a pretrained model takes; 0 for our own models, which are small."""
    if not recipe.model.pretrained or is_run(recipe.model.pretrained):
        return 0
    return PretrainedSizes.of(recipe).memory(recipe.training.batch_tokens)


def _facts(stage: Planned) -> dict[str, object]:
    cost = {"models": stage.cost.models, "steps": stage.cost.steps, "target_tokens": stage.cost.target_tokens}
    return {"stage": stage.name, "to_do": stage.to_do, **cost}


def _description(stage: Planned, recipe: Recipe, training: int) -> str:
    """What a stage would do; of L*, the cost as a share of the target tokens of the whole training."""
    if not stage.to_do:
        return f"nothing to do: {stage.current} is reused" if stage.current else "nothing to do"
    kept = f"; no longer used, and kept: {stage.current}" if stage.current else ""
    if not stage.cost.models:
        return f"would be done{kept}"
    tokens = f"{stage.cost.target_tokens:,} target tokens"
    if stage.name != "benchmark":
        return f"would train: at most {stage.cost.steps:,} steps, {tokens}{kept}"
    share = f"{percent(stage.cost.target_tokens / training)} of the training"
    return f"would train: {_models(recipe, stage.cost)}, at most {stage.cost.steps:,} steps, {tokens}, {share}{kept}"


def _models(recipe: Recipe, cost: Cost) -> str:
    """What is trained for L*."""
    if recipe.benchmark.source in ("file", "none"):
        return "a table of your own" if recipe.benchmark.file else "no L*"
    return f"{cost.models} {'multilingual model' if recipe.benchmark.source == 'multilingual' else 'bitext models'}"


def print_study_plan(study: Study) -> None:
    """Prints how many trainings a study takes, and at what cost at most. What is done already is not subtracted."""
    recipe = study.recipe_of()
    arms = [arm for arm in study.arms if arm != BITEXT]
    trials = len(arms) * len(study.seeds)
    tries = len(study.tune.tries()) if study.tune else 0
    pipeline, cost = _costs(recipe)
    is_bitext = recipe.benchmark.source == BITEXT
    seeds = {*(study.seeds if BITEXT in study.arms else ()), *((recipe.seed,) if is_bitext else ())}
    total = cost["train"] * (trials + tries) + (Cost() if is_bitext else cost["benchmark"])
    bitext = cost["benchmark"] if is_bitext else benchmark_cost(as_bitext(recipe), pipeline.prepared)
    total += bitext * len(seeds)
    print(
        f"{'trials':<10} {len(study.arms) * len(study.seeds)} trials: {len(study.arms)} arms, {len(study.seeds)} seeds"
    )
    if tries:
        print(f"{'tuning':<10} {tries} trainings")
    if seeds:
        print(f"{'benchmark':<10} {bitext.models} bitext models with {len(seeds)} seeds{_share(bitext, cost['train'])}")
    if not is_bitext:
        print(f"{'benchmark':<10} {_models(recipe, cost['benchmark'])}{_share(cost['benchmark'], cost['train'])}")
    _print_total(total, recipe, pipeline)


def print_sweep_plan(recipe: Recipe, runs: int) -> None:
    """Prints how many runs a sweep has, and at what cost at most: runs that decide alike are trained once."""
    pipeline, cost = _costs(recipe)
    total = cost["benchmark"] + cost["train"] * runs
    print(f"{'sweep':<10} {runs} runs at most, those that decide alike are trained once")
    print(f"{'benchmark':<10} {_models(recipe, cost['benchmark'])}{_share(cost['benchmark'], cost['train'])}")
    _print_total(total, recipe, pipeline)


def _share(losses: Cost, training: Cost) -> str:
    """The cost of L* relative to one training; empty where there is none."""
    if not losses.target_tokens or not training.target_tokens:
        return ""
    return f", {percent(losses.target_tokens / training.target_tokens)} of one training"


def _costs(recipe: Recipe) -> tuple[Pipeline, dict[str, Cost]]:
    """What is left of the trainings for L*, and what one training takes from the start."""
    pipeline = Pipeline(recipe.model_copy(update={"name": "a-run-that-is-not-there"}))
    return pipeline, {stage.name: stage.cost for stage in pipeline.plan()}


def _print_total(total: Cost, recipe: Recipe, pipeline: Pipeline) -> None:
    print(f"{'in all':<10} at most {total.steps:,} steps, {total.target_tokens:,} target tokens")
    time = duration(seconds(total, recipe, pipeline.prepared))
    print(f"{'time':<10} about {time} at most on the cores of this machine")
