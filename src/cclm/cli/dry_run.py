"""`--dry-run`: what a command would do, stage by stage, and what that would cost."""

import json
from collections.abc import Sequence

from cclm.experiments.cost import parameters
from cclm.experiments.pipeline import Pipeline, Planned
from cclm.recipe.schema import Recipe


def print_plan(recipe: Recipe, stages: Sequence[str], *, as_json: bool) -> None:
    """Prints what the stages would do. Changes nothing."""
    pipeline = Pipeline(recipe)
    planned = pipeline.plan(stages)
    steps = sum(stage.cost.steps for stage in planned)
    total = sum(stage.cost.target_tokens for stage in planned)
    for_losses = sum(stage.cost.target_tokens for stage in planned if stage.name == "benchmark")
    size = parameters(recipe, pipeline.prepared)
    if as_json:
        facts = {
            "stages": [_facts(stage) for stage in planned],
            "steps": steps,
            "target_tokens": total,
            "benchmark_share": for_losses / total if total else None,
            "parameters": size,
            "estimated": pipeline.prepared is None,
        }
        print(json.dumps(facts))
        return
    for stage in planned:
        print(f"{stage.name:<10} {_description(stage)}")
    if total:
        share = f", {for_losses / total:.0%} of them for L*" if for_losses else ""
        print(f"{'in all':<10} at most {steps:,} steps, {total:,} target tokens{share}")
    about = "at most " if pipeline.prepared is None else ""
    print(f"{'model':<10} {about}{size:,} parameters")
    if pipeline.prepared is None:
        print("the text is not prepared yet: full batches and vocabularies are assumed")


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
