"""`cclm extend RUN --data NEW.yaml`: a new run that starts from RUN and knows more languages. RUN is not changed.

The languages of RUN are trained on again, so that they are not forgotten; the gate admits the new ones. L* of the old
languages is that of RUN.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclm.errors import ConfigError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.train_job import run_folder
from cclm.formats.run import CONFIG, read_settings
from cclm.formats.run_folder import best_of, is_bitext, name_of, tokens_of
from cclm.formats.scores import BEFORE, Before, FromStart, Scores
from cclm.recipe.loading import override, refuse_reserved_name, with_values
from cclm.recipe.model import SIZES
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.training.provenance import progress_of
from cclm.training.run_inputs import recipe_of, sizes_of

SHARE = 0.5
"""Steps of the new run, as a share of the steps up to the best checkpoint of the old run."""
WARMUP = 0.1
"""The longest warm-up, as a share of the steps."""
VALIDATIONS = 5
"""The least number of validations."""
LANGUAGES = ("high_resource", "low_resource")


def extended_recipe(run: Path, content: Mapping[str, object], changes: Sequence[str], source: str) -> Recipe:
    """The recipe of RUN with what `content`, a part of a recipe, changes; its languages are added to those of RUN."""
    if is_bitext(run):
        raise ConfigError(f"{run}: a folder of bitext models; give the folder of a run")
    before = recipe_of(run)
    best_of(run)  # refuses a run without a checkpoint
    data = content.get("data")
    new = {side: _names(data, side, source) for side in LANGUAGES}
    if not any(new.values()):
        raise ConfigError(f"{source}: no language to add; name some in data.high_resource or data.low_resource")
    if known := sorted({name for names in new.values() for name in names} & {*before.data.languages}):
        raise ConfigError(f"{source}: {run} knows {', '.join(known)} already; name new languages only")
    given = override(dict(content), changes).get("training")
    merged = with_values(read_settings(run / CONFIG), {"training": _training(run, before, given)})
    settings = override(with_values(merged, dict(content)), changes)
    languages = {side: [*getattr(before.data, side), *new[side]] for side in LANGUAGES}
    start = {name: getattr(sizes_of(before), name) for name in SIZES} | {"pretrained": str(run)}
    fixed = {"data": languages, "model": start, "work": before.work}
    named = "name" in content or any(change.startswith("name=") for change in changes)
    recipe = check(
        Recipe, with_values(settings, fixed | ({} if named else {"name": f"{name_of(run)}-extended"})), source
    )
    refuse_reserved_name(recipe, source)
    if run_folder(recipe).resolve() == run.resolve():
        raise ConfigError(f"{source}: name {recipe.name} is that of {run}, which stays as it is; choose another")
    return recipe


def _training(run: Path, before: Recipe, given: object) -> dict[str, object]:
    """How the new run is trained unless `given` says otherwise: half the steps, at the old peak rate, annealed to zero.

    A lower peak kept the old languages slightly better in a short extension, and the new one learnt less.
    """
    asked = given.get("max_steps") if isinstance(given, dict) else None
    steps = asked if isinstance(asked, int) else math.ceil(SHARE * progress_of(best_of(run)).step)
    return {
        "schedule": "linear",
        "max_steps": steps,
        "warmup": min(before.training.warmup, int(WARMUP * steps)),
        "validate_every": max(1, min(before.training.validate_every, steps // VALIDATIONS)),
    }


def _names(data: object, side: str, source: str) -> list[str]:
    found = data.get(side, []) if isinstance(data, dict) else []
    if not isinstance(found, list):
        raise ConfigError(f"{source}: data.{side} must be a list of languages; got {found!r:.60}")
    return [str(name) for name in found]


def check_against(run: Path, recipe: Recipe) -> None:
    """Refuses the run of `--against` if it has no checkpoint or lacks a language. Called before anything is trained."""
    if is_bitext(run):
        raise ConfigError(f"--against {run}: a folder of bitext models; give the folder of a run")
    best_of(run)
    if missing := [lang for lang in recipe.data.languages if lang not in recipe_of(run).data.languages]:
        raise ConfigError(f"--against {run}: it was not trained on {', '.join(missing)}; give a run with all languages")


def record_before(run: Path, recipe: Recipe, against: Path | None = None) -> Before:
    """Writes the scores of RUN, and of `against`, for the report; they are scored first if need be.

    Without `against`, one that was given earlier stays.
    """
    path = run_folder(recipe) / BEFORE
    earlier = Before.find(path)
    full = _from_start(against) if against else earlier.from_start if earlier else None
    before = Before(run=name_of(run), scores=_scores(run), **({"from_start": full} if full else {}))
    before.write(path)
    return before


def _scores(run: Path) -> Scores:
    evaluation = Evaluation(run)
    return evaluation.ensure_scores()


def _from_start(run: Path) -> FromStart:
    return FromStart(run=name_of(run), scores=_scores(run), tokens=tokens_of(run))


@dataclass(frozen=True)
class Change:
    """BLEU of one language: in RUN (None if it is new), in the new run, and in a run on all from the start."""

    before: float | None
    now: float
    from_start: float | None


def changes_of(before: Before, after: Scores) -> dict[str, Change]:
    """BLEU of every language before and after the extension."""
    old, full = before.scores.languages, before.from_start.scores.languages if before.from_start else {}
    return {
        name: Change(old.get(name, {}).get("bleu"), row["bleu"], full.get(name, {}).get("bleu"))
        for name, row in after.languages.items()
    }


def cost_of(before: Before, recipe: Recipe) -> str | None:
    """The target tokens of the new run beside those of training all from the start; None without such a run."""
    if before.from_start is None:
        return None
    tokens, full = tokens_of(run_folder(recipe)), before.from_start
    return f"{tokens:,} target tokens; {full.run}, from the start: {full.tokens:,} ({tokens / max(1, full.tokens):.0%})"
