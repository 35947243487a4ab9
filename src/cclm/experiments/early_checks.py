"""Errors that are raised before any work, from the recipe, the names of files and this machine alone. torch is imported
only if the recipe names a device other than the CPU."""

import os
from pathlib import Path

from cclm.curriculum import LanguageGraph
from cclm.data.pretrained import find_pretrained
from cclm.errors import ConfigError, DataError
from cclm.formats.base import read_regular
from cclm.formats.benchmark import Benchmark
from cclm.recipe.schema import DataSection, Recipe


def refuse_impossible_curriculum(recipe: Recipe) -> None:
    """Refuses settings that the curriculum would refuse later: builds it with made-up sizes, similarities and losses.

    Without this, a threshold out of range or a share for an unknown language is refused only after L* is trained.
    """
    if recipe.curriculum.needs_benchmark:
        refuse_no_losses(recipe)
    languages = task_languages(recipe.data)
    graph = _any_graph(recipe, languages) if recipe.curriculum.gate.name == "competence" else None
    losses = dict.fromkeys(languages, 1.0) if recipe.curriculum.needs_benchmark else None
    recipe.curriculum.build(graph, sizes=dict.fromkeys(languages, 1), benchmark=losses)


def refuse_one_kind(data: DataSection, why: str) -> None:
    """Refuses languages of one kind where there have to be two."""
    for side in ("high_resource", "low_resource"):
        if not getattr(data, side):
            raise ConfigError(f"data.{side} is empty, {why}")


def refuse_unwritable_work(work: Path) -> None:
    """Refuses a work folder that does not exist and cannot be made, before the text is read for it."""
    above = next(folder for folder in (work, *work.absolute().parents) if folder.exists())
    if not above.is_dir():
        raise ConfigError(f"{above}: a file, and work needs a folder there; choose another with work=FOLDER")
    if above != work and not os.access(above, os.W_OK):
        raise DataError(f"{work}: cannot be made, {above} is read-only; choose another folder with work=FOLDER")


def refuse_read_only_work(work: Path, stage: str) -> None:
    """Refuses to make the result of a stage in a work folder that may only be read."""
    if work.exists() and not os.access(work, os.W_OK):
        raise DataError(f"{work}: read-only, and {stage} is still to be done; choose another folder with work=FOLDER")


def refuse_dangling_links(*paths: Path) -> None:
    """Refuses links to a place that is not there, as on a disk that is not mounted: a run would begin anew there."""
    for path in paths:
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path}: a link to {os.readlink(path)}, which is not there; is its disk mounted?")


def refuse_impossible_model(recipe: Recipe) -> None:
    """Refuses a pretrained model that cannot be trained, or not for these languages. Reads its tokenizer."""
    if recipe.model.pretrained is None:
        return
    from cclm.data.subwords import (  # SentencePiece: `cclm doctor` works without it
        PretrainedSubwords,
        SubwordsOfRun,
        subwords_of,
    )

    found = subwords_of(recipe.data, recipe.vocabulary, recipe.model)
    if isinstance(found, PretrainedSubwords):
        find_pretrained(found.folder.name)
        _ = found.codes
        if recipe.training.split_pieces or recipe.restricts:
            key = "translation.restrict" if recipe.restricts else "training.split_pieces"
            raise ConfigError(
                f"{key} needs subwords that cclm has learnt, and a pretrained model has others; remove it"
            )
    elif isinstance(found, SubwordsOfRun):
        found.inputs()


def refuse_no_losses(recipe: Recipe) -> None:
    """Refuses `benchmark.method: none` where L* is needed."""
    if recipe.benchmark.source == "none":
        parts = recipe.curriculum.parts_with_benchmark
        why = f", but {' and '.join(parts)} cannot do without L*" if parts else ": there is no L* to train"
        raise ConfigError(
            f"benchmark.method is none{why}; choose bitext or multilingual, or give a table with benchmark.method=file"
            " benchmark.file=FILE"
        )


def refuse_missing_losses(path: Path, losses: Benchmark, data: DataSection) -> None:
    """Refuses a table of reference losses that lacks a task of the recipe."""
    if missing := sorted(task_languages(data).keys() - losses.losses.keys()):
        there = ", ".join(sorted(losses.losses)) or "none"
        raise ConfigError(f"benchmark.file {path}: no loss for {', '.join(missing)}; it has {there}")


def refuse_unusable_losses(recipe: Recipe) -> None:
    """Refuses a `benchmark.file` that cannot be read, or lacks a task."""
    if recipe.benchmark.file:
        path = Path(recipe.benchmark.file)
        refuse_missing_losses(path, read_losses(path), recipe.data)


def refuse_unusable_graph(recipe: Recipe) -> None:
    """Refuses a `graph.file` that cannot be read, or is of other languages."""
    if recipe.graph.file:
        given_graph(recipe, Path(recipe.graph.file))


def read_losses(path: Path) -> Benchmark:
    """The user's table of reference losses."""
    try:
        return Benchmark.read(path)
    except DataError as error:
        raise ConfigError(f"benchmark.file {error}") from None


def given_graph(recipe: Recipe, path: Path) -> LanguageGraph:
    """The graph in the user's file, which must be of the languages of the recipe."""
    try:
        graph = LanguageGraph.from_json(read_regular(path).decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"graph.file {path}: {getattr(error, 'strerror', None) or error}") from None
    for side in ("high_resource", "low_resource"):
        theirs, ours = set(getattr(graph, side)), set(getattr(recipe.data, side))
        if theirs != ours:
            raise ConfigError(
                f"graph.file {path}: {side} is {', '.join(sorted(theirs))}, in the recipe {', '.join(sorted(ours))}"
            )
    return graph


def refuse_missing_device(name: str) -> None:
    """Refuses a device that this machine does not have."""
    if name in ("auto", "cpu"):
        return
    from cclm.training.device import refuse_missing

    refuse_missing(name)


def task_languages(data: DataSection) -> dict[str, str]:
    """The language of every task of a recipe, by the name of the task: `cclm.training.tasks.tasks` without data."""
    if data.direction != "many-to-many":
        return {lang: lang for lang in data.languages}
    ways = ((f"{lang}-{data.pivot}", f"{data.pivot}-{lang}") for lang in data.languages)
    return {name: lang for lang, names in zip(data.languages, ways, strict=True) for name in names}


def _any_graph(recipe: Recipe, languages: dict[str, str]) -> LanguageGraph:
    why = (
        "and the competence gate admits LRLs by the competence of HRLs; name languages of both kinds, or set"
        " curriculum.gate={name: all}"
    )
    refuse_one_kind(recipe.data, why)
    hrls, lrls = recipe.data.by_resource(languages)
    return LanguageGraph(hrls, lrls, {lrl: dict.fromkeys(hrls, 1.0) for lrl in lrls})
