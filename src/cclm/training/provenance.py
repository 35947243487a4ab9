"""The settings that a run was started with, their comparison on resume, and its progress. Does not import torch."""

from collections.abc import Mapping
from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.errors import DataError, TrainingError
from cclm.formats.checkpoint import (
    BEST,
    LATEST,
    PROGRESS,
    Progress,
    checkpoint_folders,
    damage,
    folder_name,
    read_pointer,
)
from cclm.formats.run import (
    CONFIG,
    ENVIRONMENT,
    LOG,
    MADE_FROM,
    NOT_FINITE,
    ORIGIN,
    TIMING,
    MadeFrom,
    cache_comment,
    read_settings,
    settings_text,
)
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.schema import Recipe

FREE = {"max_steps", "patience", "device", "save_every"}
"""Settings of training that may change when a run is resumed: they decide how long and where, not what.

`_decisive` has the exceptions: `max_steps` with linear and cosine schedules, and sections that are ignored.
"""
PROBES = ("probe", "dev_sample")
"""The settings for measuring dev losses. A recipe sets at most one; with neither, a resumed run keeps its own."""
FORCIBLE = ("recipe.training.", "recipe.curriculum.every", "recipe.curriculum.dev_sample", "recipe.curriculum.probe",
            "recipe.model.dropout", "recipe.model.attention_dropout", "recipe.model.activation_dropout",
            "recipe.name")  # fmt: skip
"""Other settings that `--force` may change in a run: its model, optimizer and curriculum can be loaded all the same."""
TOTAL = "accumulate x ranks"
"""The key of made_from.json that says how many micro-batches a step has."""
NOT_FORCIBLE = ("recipe.training.precision",)
"""Exceptions to `FORCIBLE`: a checkpoint contains the loss scale of fp16."""
DESCRIBED = {CONFIG: "curriculum", ENVIRONMENT: "cclm", "graph.json": "similarity", "benchmark.json": "losses"}
"""What a run has before its made_from.json, if it is killed then: the files, and a key that each of ours has."""
WRITTEN = (LOG, TIMING, NOT_FINITE, "scores.json", "report.html")
"""What a run has only after its made_from.json."""


def made_from(recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None, world: int = 1) -> MadeFrom:
    """All that decides the result of a training on `world` ranks."""
    losses = dict(benchmark) if benchmark else None
    return MadeFrom(recipe=_decisive(recipe, world), data=prepared.fingerprint, benchmark=losses)


def _decisive(recipe: Recipe, world: int) -> dict[str, object]:
    ignored = {"work", "benchmark"} if recipe.training.measures_bleu else {"work", "benchmark", "translation"}
    content = recipe.model_dump(mode="json", exclude=ignored)
    # The schedules that anneal over all steps give other rates in a longer training.
    free = FREE - {"max_steps"} if recipe.training.schedule in ("linear", "cosine") else FREE
    training = {name: value for name, value in content["training"].items() if name not in free}
    # The same micro-batches make the same update, on however many ranks.
    training[TOTAL] = training.pop("accumulate") * world
    return content | {"training": training}


def with_accumulate_of_run(folder: Path, recipe: Recipe, world: int) -> Recipe:
    """The recipe for `world` ranks that continue a run begun by the same command on another number of ranks.

    A step keeps its micro-batches: `accumulate` follows from their number, where the ranks can share them evenly.
    """
    total = _total(folder)
    if total is None or recipe.training.accumulate * world == total or total % world:
        return recipe
    if recipe.training.accumulate != _begun_accumulate(folder):
        return recipe  # it was changed on purpose
    return recipe.with_training(accumulate=total // world)


def _total(folder: Path) -> int | None:
    """The micro-batches per step that a run was begun with."""
    found = MadeFrom.find(folder / MADE_FROM)
    training = found.recipe.get("training") if found else None
    total = training.get(TOTAL) if isinstance(training, dict) else None
    return total if isinstance(total, int) else None


def _begun_accumulate(folder: Path) -> int | None:
    """`accumulate` in the command that a run was begun with."""
    try:
        training = read_settings(folder / CONFIG).get("training")
    except DataError:
        return None
    return training.get("accumulate") if isinstance(training, dict) else None


def write_config(folder: Path, recipe: Recipe, keys: Mapping[str, str] | None = None, *, world: int = 1) -> None:
    """Writes the resolved recipe as it is now: settings that may change while a run is resumed are in it, too.

    A first line names the `keys` in the cache of what the run is trained on; without keys, it stays as it is. On
    another number of ranks, `accumulate` stays as the run was begun with.
    """
    accumulate = _begun_accumulate(folder)
    if accumulate and recipe.training.accumulate * world == _total(folder):
        recipe = recipe.with_training(accumulate=accumulate)
    begun = precision_of_run(folder)
    if recipe.training.precision == "auto" and begun:
        recipe = recipe.with_training(precision=begun)
    recipe = with_probe(folder, recipe)
    comment = "".join(f" {kind} {key}" for kind, key in keys.items()) if keys else cache_comment(folder / CONFIG)
    text = settings_text(recipe.model_dump(mode="json"))
    write_if_changed(folder / CONFIG, f"# cache:{comment}\n{text}" if comment else text)


def precision_of_run(folder: Path) -> str | None:
    """The precision that a run was begun in, which `auto` keeps; None where there is no run yet."""
    if not (folder / MADE_FROM).exists():
        return None
    try:
        return str(_read(folder).recipe["training"]["precision"])
    except (KeyError, TypeError):
        raise _damaged(folder) from None


def with_probe(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with one of `curriculum.probe` and `dev_sample`: its own, that of the run, or the bounded probe."""
    if recipe.curriculum.probe or recipe.curriculum.dev_sample:
        return recipe
    own = recipe.curriculum
    if (folder / MADE_FROM).exists():
        try:
            begun = _read(folder).recipe["curriculum"]
            own = CurriculumSection.model_validate({name: begun[name] for name in PROBES if name in begun})
        except (KeyError, TypeError, ValueError):
            raise _damaged(folder) from None
    update = {"probe": own.bounded, "dev_sample": own.dev_sample}
    return recipe.model_copy(update={"curriculum": recipe.curriculum.model_copy(update=update)})


def changes(folder: Path, now: MadeFrom) -> list[str]:
    """The settings that differ from those of the run, each as `key: before -> now`; none where there is no run yet.

    Only what is set in `now` is compared, without the path of the text: the fingerprint of the data stands for it.
    """
    if not (folder / MADE_FROM).exists():
        return []
    before, after = _read(folder).plain(), now.plain()
    try:
        for made in (before, after):
            made["recipe"]["data"].pop("path", None)
        if now.recipe["training"]["precision"] == "auto":  # a resumed run keeps its precision
            before["recipe"]["training"]["precision"] = "auto"
        if not now.recipe["curriculum"].keys() & set(PROBES):  # the run keeps its probe
            for name in PROBES:
                before["recipe"]["curriculum"].pop(name, None)
        return differences({name: before[name] for name in now.model_fields_set}, after)
    except (KeyError, TypeError):
        raise _damaged(folder) from None


def _read(folder: Path) -> MadeFrom:
    try:
        return MadeFrom.read(folder / MADE_FROM)
    except DataError:
        raise _damaged(folder) from None


def _damaged(folder: Path) -> TrainingError:
    return TrainingError(f"{folder / MADE_FROM}: damaged; give the run another name, or delete {folder} to begin anew")


def differences(before: Mapping[str, object], now: Mapping[str, object], prefix: str = "") -> list[str]:
    """The values that differ between two nested settings, each as `key: before -> now`."""
    found: list[str] = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name}: {old!r} -> {new!r}")
    return found


def refuse_changes(folder: Path, now: MadeFrom, *, force: bool = False) -> list[str]:
    """Raises TrainingError where a setting that decides the result differs from the run's.

    With `force` only differences that its checkpoints cannot continue with are refused; the others are returned.
    """
    changed = changes(folder, now)
    refused = [change for change in changed if not force or not _can_be_forced(change)]
    if refused:
        forcible = "" if force or not all(map(_can_be_forced, changed)) else ", or resume with `cclm train --force`"
        what = (
            "cannot be forced: its checkpoints depend on these settings" if force else "was begun with other settings"
        )
        raise TrainingError(
            f"{folder} {what}; resume it with the same{forcible}, or give the run another name\n  "
            + "\n  ".join(change.removeprefix("recipe.") for change in refused)
        )
    return changed


def _can_be_forced(change: str) -> bool:
    name = change.partition(":")[0]
    return name.startswith(FORCIBLE) and name not in NOT_FORCIBLE


def record_forced(folder: Path, now: MadeFrom, forced: list[str]) -> None:
    """Writes made_from.json of a run that continues with other settings; what was forced before is kept in it."""
    now.model_copy(update={"forced": [*forced_settings(folder), *forced]}).write(folder / MADE_FROM)


def forced_settings(folder: Path) -> list[str]:
    """The settings of a run that were changed with `--force`."""
    return _read(folder).forced if (folder / MADE_FROM).exists() else []


def refuse_lost_settings(folder: Path) -> None:
    """Raises TrainingError for checkpoints without made_from.json: what they were made from cannot be compared.

    Also for other files that training would replace or append to: without made_from.json they are not those of a run. A
    run that was just separated from another one has no made_from.json yet; it has origin.json.
    """
    # First: another process may be about to begin the run, and made_from.json precedes what is looked for here.
    checkpoints, foreign = checkpoint_folders(folder / "checkpoints"), _foreign(folder)
    if (folder / MADE_FROM).exists() or (folder / ORIGIN).exists():
        return
    if checkpoints:
        raise TrainingError(
            f"{folder}: checkpoints without made_from.json, which says what they were made from;"
            " restore that file from a copy, or give the run another name"
        )
    if foreign:
        raise TrainingError(
            f"{foreign[0]}: exists in a folder that is no run of cclm (it has no made_from.json); nothing was changed:"
            " move it, or give the run another name"
        )


def _foreign(folder: Path) -> list[Path]:
    """The files of the user's in a folder that is none of a run, under names that training writes to."""
    files = [path for name in (*DESCRIBED, *WRITTEN) if (path := folder / name).is_file()]
    return [path for path in files if path.name in WRITTEN or not _has_key(path, DESCRIBED[path.name])]


def _has_key(path: Path, key: str) -> bool:
    try:
        return key in read_settings(path)
    except DataError:
        return False


def refuse_other_settings(
    folder: Path, recipe: Recipe, world: int = 1, prepared: Prepared | None = None, *, force: bool = False
) -> None:
    """Like `refuse_changes`, for the recipe and the data only: called before work that the run could not use."""
    refuse_lost_settings(folder)
    settings = _decisive(recipe, world)
    known = MadeFrom(recipe=settings, data=prepared.fingerprint) if prepared else MadeFrom(recipe=settings)
    refuse_changes(folder, known, force=force)


def refuse_other_benchmark(folder: Path, recipe: Recipe, *, in_study: bool = False) -> None:
    """Raises TrainingError, before anything is trained for L*, if the settings of `benchmark` differ from the run's.

    A run in a study (`in_study`) got L* through `benchmark.file`, which is no reason to skip the check.
    """
    if not (folder / MADE_FROM).exists() or _read(folder).benchmark is None or recipe.benchmark.file:
        return
    before = (read_settings(folder / CONFIG).get("benchmark") or {}) if (folder / CONFIG).exists() else {}
    then = {"method": "bitext", "max_steps": None, "level": None} | before
    compared = ("max_steps",) if then["method"] == "file" else ("method", "max_steps", "level")
    changed = [name for name in compared if then[name] != getattr(recipe.benchmark, name)]
    if before and (in_study or before.get("file") is None) and changed:
        raise TrainingError(
            f"{folder} was begun with other settings; resume it with the same, or give the run another name\n"
            + "\n".join(f"  benchmark.{name}: {then[name]} -> {getattr(recipe.benchmark, name)}" for name in changed)
        )


def was_begun_without_losses(folder: Path) -> bool:
    """Whether a run was started without L*, because its gate and sampler do not use it."""
    found = MadeFrom.find(folder / MADE_FROM)
    return found is not None and found.benchmark is None


def losses_of_run(folder: Path, recipe: Recipe) -> dict[str, float] | None:
    """The reference losses L* of a run that exists: it keeps those it was begun with, even if more steps are asked for.

    None where there is no run yet, or where the recipe now has another table or bitext models of another length.
    """
    try:
        config = read_settings(folder / CONFIG)
        losses = MadeFrom.read(folder / MADE_FROM).benchmark
    except DataError:
        return None
    same = config.get("benchmark") == recipe.benchmark.model_dump(mode="json") and recipe.benchmark.file is None
    return losses if losses and same else None


def is_finished(
    folder: Path, recipe: Recipe, prepared: Prepared, benchmark: Mapping[str, float] | None, world: int = 1
) -> bool:
    """Whether the run exists undamaged, was made from these very inputs, and has no step left to take."""
    if not (folder / MADE_FROM).exists() or changes(folder, made_from(recipe, prepared, benchmark, world)):
        return False
    newest = newest_checkpoint(folder)
    if newest is None or damage(newest) is not None:
        return False
    progress = progress_of(newest)
    if progress.selected_step is not None and read_pointer(newest.parent, BEST) != folder_name(progress.selected_step):
        return False  # killed before `best` was written
    return read_pointer(newest.parent, LATEST) == newest.name and progress.is_over(recipe.training.max_steps)


def newest_checkpoint(folder: Path) -> Path | None:
    """The folder of the newest checkpoint of a run, damaged or not."""
    return next(reversed(checkpoint_folders(folder / "checkpoints")), None)


def progress_of(checkpoint: Path) -> Progress:
    """How far the training had come."""
    return Progress.read(checkpoint / PROGRESS)
