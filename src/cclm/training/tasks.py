"""Tasks: one pair of languages in one direction for every node of the curriculum."""

from dataclasses import dataclass

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Direction
from cclm.data.prepared import Prepared
from cclm.recipe.schema import DataSection


@dataclass(frozen=True)
class Task:
    """A pair of languages in one direction; `name` is what the curriculum calls it."""

    name: str
    language: str
    source: str
    target: str
    direction: Direction


def tasks(data: DataSection, prepared: Prepared) -> dict[str, Task]:
    """Every task of a recipe. Tasks into the pivot have no tags; others have the tag of the target on both sides."""
    made: list[Task] = []
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
    tags = (side.tag_id(target) for side in sides)
    return Task(name, language, source, target, Direction(to_pivot, *tags))


def task_graph(graph: LanguageGraph, of: dict[str, Task]) -> LanguageGraph:
    """The language graph over tasks: a task is as similar to another as their languages are."""
    hrls = [name for name, task in of.items() if task.language in graph.high_resource]
    lrls = [name for name, task in of.items() if task.language in graph.low_resource]
    similarity = {lrl: {hrl: graph.similarity[of[lrl].language][of[hrl].language] for hrl in hrls} for lrl in lrls}
    return LanguageGraph(hrls, lrls, similarity, graph.k)
