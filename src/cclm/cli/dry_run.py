"""`--dry-run`: what a command would do, stage by stage, and what that would cost."""

import json
from collections.abc import Sequence
from dataclasses import replace

from cclm.data.prepared import Prepared
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
from cclm.experiments.pipeline import BEFORE_TRAINING, Pipeline, Planned
from cclm.experiments.study import plan as plan_study
from cclm.experiments.sweep import Aggregate, grid_recipes, is_done, refuse_impossible
from cclm.experiments.train_job import run_folder
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, steps_to_come
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
    kept = f"; no longer used, and kept: {stage.unused}" if stage.unused else ""
    if not stage.to_do:
        return f"nothing to do{f': {stage.entry} is reused' if stage.entry else ''}{kept}"
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
    kind = "multilingual" if recipe.benchmark.source == "multilingual" else "bitext"
    return f"{cost.models} {kind} model{'' if cost.models == 1 else 's'}"


def print_study_plan(study: Study) -> None:
    """Prints what a study would do, what of it is done, and the cost of the rest at most."""
    planned, recipe = plan_study(study), study.recipe_of()
    prepared = planned.pipeline.prepared
    training = whole_training_cost(recipe, prepared)
    trials = f"{len(study.arms) * len(study.seeds)} trials: {len(study.arms)} arms, {len(study.seeds)} seeds"
    print(f"{'trials':<10} {trials}{_done(len(planned.finished))}")
    tries = len(study.tune.tries()) if study.tune else 0
    if tries:
        print(f"{'tuning':<10} {tries} trainings{_done(len(planned.tried))}")
    total = _print_stages(planned.stages, recipe, training)
    for arm, stages in planned.own.items():
        stages = [replace(stage, unused=None) for stage in stages]  # what is current now may be that of other arms
        total += _print_stages(stages, study.recipe_of(arm, recipe.seed, **steps_to_come(study, arm)), training, arm)
    done = {arm: len([trial for trial in planned.finished if trial.arm == arm]) for arm in study.arms}
    trainings = sum(len(study.seeds) - done[arm] for arm in study.arms if arm != BITEXT) + tries - len(planned.tried)
    total += training * trainings + _print_bitext(study, recipe, prepared, training)
    _print_total(total, recipe, prepared)


def _print_bitext(study: Study, recipe: Recipe, prepared: Prepared | None, training: Cost) -> Cost:
    """Prints what is trained for the arm of bitext models beside those that L* comes from; returns the cost."""
    is_for_losses = recipe.benchmark.source == BITEXT
    seeds = (
        [seed for seed in study.seeds if not (is_for_losses and seed == recipe.seed)] if BITEXT in study.arms else []
    )
    mine = [as_bitext(recipe.model_copy(update={"seed": seed})) for seed in seeds]
    left = [cost for cost in (benchmark_cost(each, prepared) for each in mine) if cost.steps]
    total = sum(left, Cost())
    if left:
        share = percent(total.target_tokens / training.target_tokens)
        models = f"{left[0].models} bitext models per seed, {len(left)} seeds"
        print(f"{BITEXT:<10} would train: {models}, {share} of the training")
    return total


def print_sweep_plan(recipe: Recipe, thresholds: Sequence[float], aggregates: Sequence[Aggregate]) -> None:
    """Prints how many runs a sweep has, and at what cost at most: runs that decide alike are trained once."""
    refuse_impossible(recipe)
    pipeline, leaves = Pipeline(recipe), grid_recipes(recipe, thresholds, aggregates)
    for leaf in leaves:
        Pipeline(leaf).refuse_other_settings()
    pipeline.refuse_other_text(map(run_folder, leaves))
    stages = pipeline.plan(BEFORE_TRAINING)
    done = len([leaf for leaf in leaves if pipeline.prepared and is_done(leaf, pipeline)])
    training = whole_training_cost(recipe, pipeline.prepared)
    print(f"{'sweep':<10} {len(leaves)} runs at most, those that decide alike are trained once{_done(done)}")
    total = _print_stages(stages, recipe, training)
    _print_total(total + training * (len(leaves) - done), recipe, pipeline.prepared)


def _done(count: int) -> str:
    return f"; {count} {'is' if count == 1 else 'are'} done" if count else ""


def _print_stages(stages: Sequence[Planned], recipe: Recipe, training: Cost, arm: str = "") -> Cost:
    """Prints what is done before several trainings, or for those of one arm; returns the cost."""
    for stage in stages:
        is_given = stage.name == "benchmark" and recipe.benchmark.source in ("file", "none")
        text = _models(recipe, stage.cost) if is_given else _description(stage, recipe, training.target_tokens)
        print(f"{stage.name:<10} {f'{arm}: ' if arm else ''}{text}")
    return sum((stage.cost for stage in stages), Cost())


def _print_total(total: Cost, recipe: Recipe, prepared: Prepared | None) -> None:
    print(f"{'in all':<10} at most {total.steps:,} steps, {total.target_tokens:,} target tokens")
    time = duration(seconds(total, recipe, prepared))
    print(f"{'time':<10} about {time} at most on the cores of this machine")
