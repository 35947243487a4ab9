"""What a run was trained with, from its directory: recipe, prepared data, tasks, the run that it was forked from."""

from pathlib import Path

from cclm.data.prepared import Prepared
from cclm.data.pretrained import is_run
from cclm.data.work_folder import WorkFolder
from cclm.errors import ConfigError, DataError
from cclm.formats.run import CONFIG, MADE_FROM, ORIGIN, MadeFrom, Origin, read_settings
from cclm.formats.run_folder import RECIPE, is_bitext, work_of
from cclm.recipe.loading import BITEXT
from cclm.recipe.model import SIZES, ModelSection
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.training.tasks import Task, tasks


def recipe_of(run: Path) -> Recipe:
    """The recipe that a run, or a folder of bitext runs, was made with; its work folder is where the run is now."""
    path = run / RECIPE if is_bitext(run) else run / CONFIG
    if not path.exists() and run.name == BITEXT:
        raise ConfigError(
            f"{run}: no bitext models here; they are trained where benchmark.method is bitext, as by"
            " `cclm benchmark RECIPE benchmark.method=bitext`"
        )
    if not path.exists():
        raise ConfigError(f"{run}: no run here (it has no config.yaml)")
    try:
        content = read_settings(path)
    except DataError as error:
        raise ConfigError(str(error)) from None
    recipe = check(Recipe, content, str(path))
    return recipe.model_copy(update={"work": str(work_of(run))})


def sizes_of(recipe: Recipe) -> ModelSection:
    """The model section that has the sizes of our model: the recipe's own, or that of the run it continues."""
    start = recipe.model.pretrained
    if start and is_run(start) and not set(SIZES) <= recipe.model.model_fields_set:
        return sizes_of(recipe_of(Path(start)))
    return recipe.model


def data_of(run: Path, recipe: Recipe) -> Prepared:
    """The prepared data that a run, or the first of a folder of bitext runs, was trained on."""
    runs = [path.parent for path in sorted(run.glob(f"*/{MADE_FROM}"))] if is_bitext(run) else [run]
    found = MadeFrom.find(runs[0] / MADE_FROM) if runs else None
    return WorkFolder(Path(recipe.work)).data_of_run(run, found.data if found else None)


def tasks_of(run: Path, recipe: Recipe, prepared: Prepared) -> dict[str, Task]:
    """All tasks, or the one that a bitext model was trained for: its folder has the task's name."""
    made = tasks(recipe.data, prepared)
    return {run.name: made[run.name]} if is_bitext(run.resolve().parent) and run.name in made else made


def origin_of(run: Path) -> Origin | None:
    """The run that this one shared its first steps with; None for one that was trained by itself."""
    return Origin.read(run / ORIGIN) if (run / ORIGIN).exists() else None
