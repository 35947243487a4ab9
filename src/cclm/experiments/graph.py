"""`cclm graph`: the language graph of a recipe, computed or given; written, printed and drawn."""

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, DataError
from cclm.experiments.prepare import prepared_data
from cclm.recipe.schema import Recipe
from cclm.report.graph import draw_graph
from cclm.report.similarity_table import similarity_table


def run(recipe: Recipe, *, as_json: bool, workers: int | None = None) -> LanguageGraph:
    """Makes graph.json and graph.svg in the recipe's work folder, and prints the similarities."""
    graph = language_graph(recipe, None if recipe.graph.file else prepared_data(recipe, workers))
    picture = recipe.graph_file.with_suffix(".svg")
    try:
        recipe.graph_file.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(recipe.graph_file, graph.to_json())
        write_if_changed(picture, draw_graph(graph, title=recipe.name))
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror or error}") from None
    if as_json:
        print(json.dumps(graph.to_dict(), ensure_ascii=False))
        return graph
    console = Console()
    console.print(similarity_table(graph))
    compared = f"top {graph.k:,} subwords of each language" if graph.k else "similarities of your own"
    console.print(Text(compared, style="dim"))
    console.print(f"{recipe.graph_file}  {picture}", highlight=False, soft_wrap=True)
    return graph


def language_graph(recipe: Recipe, prepared: Prepared | None) -> LanguageGraph:
    """The graph that the recipe names: a file of the user's, or vocabulary overlap of the training text."""
    if recipe.graph.file:
        return _given(recipe, Path(recipe.graph.file))
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


def _given(recipe: Recipe, path: Path) -> LanguageGraph:
    try:
        graph = LanguageGraph.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"graph.file {path}: {getattr(error, 'strerror', None) or error}") from None
    for side in ("high_resource", "low_resource"):
        theirs, ours = set(getattr(graph, side)), set(getattr(recipe.data, side))
        if theirs != ours:
            raise ConfigError(
                f"graph.file {path}: {side} is {', '.join(sorted(theirs))}, in the recipe {', '.join(sorted(ours))}"
            )
    return graph
