"""The language graph of a recipe: computed from the training text, or read from the user's file; kept in the cache."""

from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder, key_of
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.experiments.early_checks import given_graph
from cclm.formats.base import read_regular
from cclm.formats.run import MADE_FROM
from cclm.recipe.schema import Recipe


def graph_of(recipe: Recipe, prepared: Prepared | None) -> LanguageGraph | None:
    """The language graph; None where all languages are of one kind and no gate asks for it."""
    return language_graph(recipe, prepared) if needs_graph(recipe) else None


def needs_graph(recipe: Recipe) -> bool:
    """Whether languages are of two kinds, or the gate asks for a graph."""
    return bool(recipe.data.high_resource and recipe.data.low_resource) or recipe.curriculum.gate.name == "competence"


def language_graph(recipe: Recipe, prepared: Prepared | None) -> LanguageGraph:
    """The graph that the recipe names: a file of the user's, or vocabulary overlap of the training text."""
    if recipe.graph.file:
        return given_graph(recipe, Path(recipe.graph.file))
    assert prepared is not None
    try:
        return LanguageGraph.from_counts(
            prepared.counts(),
            high_resource=recipe.data.high_resource,
            low_resource=recipe.data.low_resource,
            k=recipe.graph.k or recipe.vocabulary.pieces,
        )
    except ValueError as error:
        raise ConfigError(f"language graph: {error}") from None


def refuse_other_graph(folder: Path, recipe: Recipe) -> None:
    """Raises TrainingError if the graph in the user's file, if any, is not the one that a run was begun with.

    The run has a copy. Without one, or if it is damaged, there is nothing to compare with.
    """
    copy = folder / "graph.json"
    if recipe.graph.file is None or not (folder / MADE_FROM).exists() or not copy.is_file():
        return
    try:
        begun = LanguageGraph.from_json(read_regular(copy).decode())
    except (ValueError, RecursionError):
        return
    path = Path(recipe.graph.file)
    if begun.to_json() != given_graph(recipe, path).to_json():
        raise TrainingError(
            f"{folder} was begun with another graph than graph.file {path} has now; restore it ({copy} is a copy),"
            " or give the run another name"
        )


def write_graph(work: WorkFolder, graph: LanguageGraph) -> Path:
    """Writes a graph into the cache, unless it is there already; returns its folder."""
    folder = work.entry("graph", key_of(graph.to_json()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_if_changed(folder / "graph.json", graph.to_json())
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
    return folder
