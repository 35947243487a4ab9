"""The tasks of a recipe. A task is a pair of languages in one direction; the curriculum admits and draws tasks."""

from dataclasses import dataclass

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Direction, Marks
from cclm.data.prepared import Prepared
from cclm.recipe.schema import DataSection


@dataclass(frozen=True)
class Task:
    """A pair of languages in one direction; the curriculum knows it by `name`."""

    name: str
    language: str
    source: str
    target: str
    direction: Direction


def tasks(data: DataSection, prepared: Prepared) -> dict[str, Task]:
    """Every task of a recipe. Tasks into the pivot have no tags; others have the tag of the target on both sides.

    Tasks of a pretrained model have its language codes instead, where the layout of its vocabulary puts them.
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
