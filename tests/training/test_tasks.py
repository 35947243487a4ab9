"""Tasks: what is translated into what, with which tags, and how similar two tasks are."""

from pathlib import Path

import pytest
from small_recipe import GRAPH, prepared, recipe

from cclm.data.prepared import Prepared
from cclm.training.tasks import task_graph, tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    return prepared(folder)


def test_into_one_language_there_are_no_tags_and_out_of_it_the_targets_on_both_sides(
    folder: Path, data: Prepared
) -> None:
    into = tasks(recipe(folder).data, data)["aze"]
    assert (into.source, into.target, into.direction.to_pivot) == ("aze", "eng", True)
    assert (into.direction.source_tag, into.direction.target_tag) == (None, None)
    out_of = tasks(recipe(folder, "data.direction=one-to-many").data, data)["aze"]
    assert (out_of.source, out_of.target, out_of.direction.to_pivot) == ("eng", "aze", False)
    assert out_of.direction.source_tag == data.pivot.tag_id("aze")
    assert out_of.direction.target_tag == data.other.tag_id("aze")


def test_many_to_many_has_two_tasks_per_language(folder: Path, data: Prepared) -> None:
    both = tasks(recipe(folder, "data.direction=many-to-many", "vocabulary.joint=true").data, data)
    assert list(both)[:2] == ["tur-eng", "eng-tur"]
    assert both["tur-eng"].direction.target_tag == data.pivot.tag_id("eng")
    graph = task_graph(GRAPH, both)
    assert graph.high_resource == ("tur-eng", "eng-tur", "por-eng", "eng-por")
    assert graph.similarity["eng-glg"]["por-eng"] == 0.6
