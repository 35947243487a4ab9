"""`--dry-run`: what a command would do, stage by stage, and what that would cost."""

import json
from collections.abc import Sequence

from cclm.data.pretrained import is_run
from cclm.experiments.cost import Cost, PretrainedSizes, free_memory, parameters, seconds
from cclm.experiments.pipeline import Pipeline, Planned
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study
from cclm.training.console import duration


def print_plan(recipe: Recipe, stages: Sequence[str], *, as_json: bool) -> None:
    """Prints what the stages would do. Changes nothing."""
    pipeline = Pipeline(recipe)
    planned = pipeline.plan(stages)
    times = {stage.name: seconds(stage.cost, recipe, pipeline.prepared) for stage in planned}
    steps = sum(stage.cost.steps for stage in planned)
    total = sum(stage.cost.target_tokens for stage in planned)
    for_losses = sum(stage.cost.target_tokens for stage in planned if stage.name == "benchmark")
    size, needed = parameters(recipe, pipeline.prepared), _memory(recipe)
    if as_json:
        facts = {
            "stages": [_facts(stage) | {"seconds": times[stage.name]} for stage in planned],
            "steps": steps,
            "target_tokens": total,
            "seconds": sum(times.values()),
            "benchmark_share": for_losses / total if total else None,
            "parameters": size,
            "estimated": pipeline.prepared is None,
            **({"memory": needed, "memory_free": free_memory(recipe)[0]} if needed else {}),
        }
        print(json.dumps(facts))
        return
    for stage in planned:
        print(f"{stage.name:<10} {_description(stage)}")
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


def _description(stage: Planned) -> str:
    if not stage.to_do:
        return f"nothing to do: {stage.current} is reused" if stage.current else "nothing to do"
    kept = f"; no longer used, and kept: {stage.current}" if stage.current else ""
    if not stage.cost.models:
        return f"would be done{kept}"
    models = f"{stage.cost.models} bitext models, " if stage.name == "benchmark" else ""
    tokens = f"{stage.cost.target_tokens:,} target tokens"
    return f"would train: {models}at most {stage.cost.steps:,} steps, {tokens}{kept}"


def print_study_plan(study: Study) -> None:
    """Prints how many trainings a study takes, and at what cost at most. What is done already is not subtracted."""
    recipe = study.recipe_of()
    arms = [arm for arm in study.arms if arm != BITEXT]
    trials = len(arms) * len(study.seeds)
    tries = len(study.tune.tries()) if study.tune else 0
    bitext_seeds = {recipe.seed, *(study.seeds if BITEXT in study.arms else ())}
    pipeline, cost = _costs(recipe)
    total = Cost()
    for _ in range(trials + tries):
        total += cost["train"]
    for _ in bitext_seeds:
        total += cost["benchmark"]
    print(
        f"{'trials':<10} {len(study.arms) * len(study.seeds)} trials: {len(study.arms)} arms, {len(study.seeds)} seeds"
    )
    if tries:
        print(f"{'tuning':<10} {tries} trainings")
    print(f"{'benchmark':<10} {cost['benchmark'].models} bitext models with {len(bitext_seeds)} seeds")
    _print_total(total, recipe, pipeline)


def print_sweep_plan(recipe: Recipe, runs: int) -> None:
    """Prints how many runs a sweep has, and at what cost at most: runs that decide alike are trained once."""
    pipeline, cost = _costs(recipe)
    total = cost["benchmark"]
    for _ in range(runs):
        total += cost["train"]
    print(f"{'sweep':<10} {runs} runs at most, those that decide alike are trained once")
    print(f"{'benchmark':<10} {cost['benchmark'].models} bitext models")
    _print_total(total, recipe, pipeline)


def _costs(recipe: Recipe) -> tuple[Pipeline, dict[str, Cost]]:
    """What is left of the bitext models, and what one training takes from the start."""
    pipeline = Pipeline(recipe.model_copy(update={"name": "a-run-that-is-not-there"}))
    return pipeline, {stage.name: stage.cost for stage in pipeline.plan()}


def _print_total(total: Cost, recipe: Recipe, pipeline: Pipeline) -> None:
    print(f"{'in all':<10} at most {total.steps:,} steps, {total.target_tokens:,} target tokens")
    time = duration(seconds(total, recipe, pipeline.prepared))
    print(f"{'time':<10} about {time} at most on the cores of this machine")
