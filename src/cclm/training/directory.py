"""Tasks: one pair of languages in one direction for every node of the curriculum."""

import os
from dataclasses import dataclass
from pathlib import Path

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Direction, Marks
from cclm.data.prepared import Prepared
from cclm.data.pretrained import is_run
from cclm.data.work_folder import WorkFolder
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.formats.checkpoint import BEST, MANIFEST, Manifest, checkpoint_folders, read_pointer, weights_file
from cclm.formats.run import CONFIG, MADE_FROM, ORIGIN, MadeFrom, Origin, read_settings
from cclm.recipe.loading import BITEXT
from cclm.recipe.model import SIZES, ModelSection
from cclm.recipe.schema import DataSection, Recipe
from cclm.recipe.section import check


@dataclass(frozen=True)
class Task:
    """A pair of languages in one direction; `name` is what the curriculum calls it."""

    name: str
    language: str
    source: str
    target: str
    direction: Direction


def tasks(data: DataSection, prepared: Prepared) -> dict[str, Task]:
    """Every task of a recipe. Tasks into the pivot have no tags; others have the tag of the target on both sides.

    A pretrained model wants its own codes, as the layout of its vocabulary says.
    """
    made: list[Task] = []
    if prepared.other.layout:
        ways = (data.direction != "one-to-many", data.direction != "many-to-one")
        made = [_coded(lang, to_pivot, data, prepared) for lang in data.languages for to_pivot in (True, False)
                if ways[not to_pivot]]  # fmt: skip
        return {task.name: task for task in made}
    for lang in data.languages:
        if data.direction == "many-to-one":
            made.append(Task(lang, lang, lang, data.pivot, Direction(to_pivot=True)))
        elif data.direction == "one-to-many":
            made.append(_tagged(lang, data.pivot, lang, lang, prepared))
        else:
            made.append(_tagged(f"{lang}-{data.pivot}", lang, data.pivot, lang, prepared))
            made.append(_tagged(f"{data.pivot}-{lang}", data.pivot, lang, lang, prepared))
    return {task.name: task for task in made}


def _tagged(name: str, source: str, target: str, language: str, prepared: Prepared) -> Task:
    to_pivot = target != language
    sides = (prepared.other, prepared.pivot) if to_pivot else (prepared.pivot, prepared.other)
    before_source, before_target = (side.tag_id(target) for side in sides)
    return Task(name, language, source, target, Direction(to_pivot, before_source, before_target))


def _coded(lang: str, to_pivot: bool, data: DataSection, prepared: Prepared) -> Task:
    """A task of a pretrained model."""
    vocabulary, layout = prepared.other, prepared.other.layout
    assert layout is not None
    source, target = (lang, data.pivot) if to_pivot else (data.pivot, lang)
    name = f"{source}-{target}" if data.direction == "many-to-many" else lang
    marks = Marks(layout.pad, layout.start, layout.end, predicts_tag=layout.codes == "both")
    if layout.codes == "both":
        tags = (vocabulary.tag_id(source), vocabulary.tag_id(target))
        return Task(name, lang, source, target, Direction(to_pivot, *tags, marks=marks))
    tag = vocabulary.tags.get(target) if layout.codes == "source" else None
    return Task(name, lang, source, target, Direction(to_pivot, tag, marks=marks))


def task_graph(graph: LanguageGraph, of: dict[str, Task]) -> LanguageGraph:
    """The language graph over tasks: a task is as similar to another as their languages are."""
    hrls = [name for name, task in of.items() if task.language in graph.high_resource]
    lrls = [name for name, task in of.items() if task.language in graph.low_resource]
    similarity = {lrl: {hrl: graph.similarity[of[lrl].language][of[hrl].language] for hrl in hrls} for lrl in lrls}
    return LanguageGraph(hrls, lrls, similarity, graph.k)


RECIPE = "recipe.json"
"""In the folder of the bitext models, which is not a run itself and has no config.yaml."""


MULTILINGUAL = "multilingual"
"""The name of the short training of all languages that L* may come from, and of its folder in the cache."""


def is_bitext(run: Path) -> bool:
    """Whether this is the folder of the bitext runs, which together are one system: each translates its own task."""
    return (run / RECIPE).exists()


def is_for_losses(run: Path) -> bool:
    """Whether this is one of the trainings that L* comes from: a bitext model or the multilingual training."""
    folder = run.resolve()
    return is_bitext(folder.parent) or (folder.parent / f"{MULTILINGUAL}.json").exists()


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


def work_of(run: Path) -> Path:
    """The work folder of a run, by its path as it was given, or else with symbolic links followed.

    `work/runs` may be a link to another disk: the work folder is then beside the link. A link to a single run leads to
    a folder in another one's work folder.
    """
    up = 2 if is_for_losses(run) else 1
    given, resolved = _work_above(Path(os.path.abspath(run)), up), _work_above(run.resolve(), up)
    return given if (given / "prepared").is_dir() else resolved


def _work_above(run: Path, up: int) -> Path:
    """WORK of WORK/runs/NAME, and of bitext models in WORK/cache/benchmark/KEY."""
    folder = run.parents[up]
    in_cache = (folder.name, run.parents[up - 1].name) == ("cache", "benchmark")
    return folder.parent if in_cache else folder


def data_of(run: Path, recipe: Recipe) -> Prepared:
    """The prepared data that a run, or the first of a folder of bitext runs, was trained on."""
    runs = [path.parent for path in sorted(run.glob(f"*/{MADE_FROM}"))] if is_bitext(run) else [run]
    found = MadeFrom.find(runs[0] / MADE_FROM) if runs else None
    return WorkFolder(Path(recipe.work)).data_of_run(run, found.data if found else None)


def tasks_of(run: Path, recipe: Recipe, prepared: Prepared) -> dict[str, Task]:
    """All tasks, or the one that a bitext model was trained for: its folder has the task's name."""
    made = tasks(recipe.data, prepared)
    return {run.name: made[run.name]} if is_bitext(run.resolve().parent) and run.name in made else made


def best_of(run: Path) -> Path:
    """The best checkpoint."""
    folder = run / "checkpoints"
    name, known = read_pointer(folder, BEST), [path.name for path in checkpoint_folders(folder)]
    if name is None and known:
        step = int(known[-1].removeprefix("step-")) if known[-1].removeprefix("step-").isdigit() else 0
        raise ConfigError(
            f"{run}: no best checkpoint yet: it was stopped at step {step}, before its first validation; train it on"
        )
    if name is None:
        raise ConfigError(f"{run}: no checkpoint yet; train it first")
    if name not in known:
        raise TrainingError(
            f"{folder / BEST}: names {name!r:.60}, which is no checkpoint here; resume the run: that mends the file"
        )
    return folder / name


def weights_of(checkpoint: Path) -> str:
    """What identifies the weights of a checkpoint: their checksum, as its manifest has it."""
    try:
        return Manifest.read(checkpoint / MANIFEST).files[weights_file(checkpoint)].sha256
    except (DataError, KeyError):
        raise TrainingError(f"{checkpoint}: manifest.json is missing or damaged") from None


def origin_of(run: Path) -> Origin | None:
    """The run that this one shared its first steps with; None for one that was trained by itself."""
    return Origin.read(run / ORIGIN) if (run / ORIGIN).exists() else None
