"""The drawing of the language graph: content, escaping, layout, determinism."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from worked_example import HRLS, LRLS, SIMILARITY, graph

from cclm import LanguageGraph
from cclm.paper import language_set
from cclm.report.graph import draw_graph

SVG = "{http://www.w3.org/2000/svg}"
READINESS = {"aze": 0.71, "bel": 0.64, "glg": 0.88, "slk": 0.91}


def made_up(hrls: int, lrls: int) -> LanguageGraph:
    """A graph with distinct similarities between 0 and 1, evenly spread."""
    high, low = [f"h{i}" for i in range(hrls)], [f"l{j}" for j in range(lrls)]
    return LanguageGraph(
        high, low, {lrl: {hrl: spread(i, j) for i, hrl in enumerate(high)} for j, lrl in enumerate(low)}
    )


def spread(i: int, j: int) -> float:
    return (1 + (7 * i + 13 * j + i * j) % 97) / 100


def drawing(given: LanguageGraph, **choices: Any) -> ET.Element:
    return ET.fromstring(draw_graph(given, **choices))


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [item for item in root.iter() if name in item.get("class", "").split()]


def names(root: ET.Element, kind: str = "node") -> list[str]:
    return [str(label.text) for node in of_class(root, kind) for label in of_class(node, "name")]


def test_every_language_is_named_once() -> None:
    for given in (graph(), made_up(2, 3), made_up(20, 30), made_up(100, 60)):
        assert sorted(names(drawing(given))) == sorted(given.languages)


def test_hrls_are_on_the_left_and_lrls_on_the_right() -> None:
    root = drawing(graph())
    x = {names(node)[0]: float(node[0].get("cx", "")) for node in of_class(root, "node")}
    assert names(root, "hrl") == HRLS
    assert names(root, "lrl") == LRLS
    assert max(x[hrl] for hrl in HRLS) < min(x[lrl] for lrl in LRLS)


def test_each_hrl_has_an_edge_to_each_lrl_and_the_nearest_is_marked() -> None:
    root = drawing(graph())
    assert (len(of_class(root, "edge")), len(of_class(root, "nearest"))) == (12, 4)
    hovers = {edge.findtext(f"{SVG}title") for edge in of_class(root, "nearest")}
    assert hovers == {"tur → aze: 0.50", "rus → bel: 0.34", "por → glg: 0.59", "ces → slk: 0.68"}
    assert sorted(str(label.text) for label in of_class(root, "similarity")) == ["0.34", "0.50", "0.59", "0.68"]


@pytest.mark.parametrize("kind", ["edge", "nearest"])
@pytest.mark.parametrize("measure", ["stroke-width", "stroke-opacity"])
def test_edges_are_stronger_for_higher_similarity(kind: str, measure: str) -> None:
    def similarity(edge: ET.Element) -> float:
        return float(str(edge.findtext(f"{SVG}title")).split(": ")[1])

    edges = sorted(of_class(drawing(graph()), kind), key=similarity)
    strength = [float(edge.get(measure, "")) for edge in edges]
    assert strength == sorted(strength)
    assert strength[0] < strength[-1]


def test_strong_edges_do_not_cross() -> None:
    for given in (language_set("diverse").graph, made_up(20, 30), made_up(100, 900)):
        order = [given.high_resource.index(given.nearest[lrl]) for lrl in names(drawing(given), "lrl")]
        assert order == sorted(order)


def test_similarity_labels_do_not_overlap() -> None:
    for given in (graph(), made_up(20, 30), made_up(30, 20), made_up(100, 100)):
        labels = of_class(drawing(given), "similarity")
        heights = sorted(float(label.get("y", "")) for label in labels)
        font = float(labels[0].get("font-size", ""))
        assert all(below - above > font for above, below in pairwise(heights))


def test_admitted_lrls_are_filled_and_waiting_ones_hollow() -> None:
    root = drawing(graph(), admitted=["tur", "slk", "glg"])
    assert names(root, "admitted") == ["glg", "slk"]
    assert names(root, "waiting") == ["aze", "bel"]
    fill = {names(node)[0]: node[0].get("fill") for node in of_class(root, "node")}
    assert fill["aze"] == fill["bel"] == "#ffffff"
    assert (fill["glg"], fill["slk"]) == (fill["por"], fill["ces"])  # the colour of the nearest HRL


def test_an_empty_admitted_set_differs_from_none() -> None:
    assert names(drawing(graph(), admitted=()), "waiting") == LRLS
    silent = drawing(graph())
    assert of_class(silent, "waiting") == of_class(silent, "admitted") == []


def test_readiness_is_written_beside_the_lrls_that_have_one() -> None:
    root = drawing(graph(), admitted=["slk"], readiness={"aze": 0.714, "bel": 0.6})
    shown = {names(node)[0]: [label.text for label in of_class(node, "readiness")] for node in of_class(root, "lrl")}
    assert shown == {"aze": ["0.71"], "bel": ["0.60"], "glg": [], "slk": []}


def test_a_huge_competence_is_written_in_scientific_notation() -> None:
    root = drawing(graph(), readiness={"aze": 1.25, "bel": 2.0**60})
    assert [label.text for label in of_class(root, "readiness")] == ["1.25", "1e+18"]


def test_an_isolated_lrl_has_no_nearest_hrl_and_comes_last() -> None:
    root = drawing(LanguageGraph(HRLS, LRLS, SIMILARITY | {"bel": dict.fromkeys(HRLS, 0.0)}))
    assert names(root, "lrl") == ["aze", "glg", "slk", "bel"]
    assert (len(of_class(root, "edge")), len(of_class(root, "nearest"))) == (13, 3)
    assert "bel: similar to no HRL" in str(root.findtext(f"{SVG}desc"))


def test_a_graph_without_any_similarity_is_drawn() -> None:
    for hrls, lrls in ((1, 1), (3, 200), (200, 3)):
        high, low = made_up(hrls, lrls).high_resource, made_up(hrls, lrls).low_resource
        root = drawing(LanguageGraph(high, low, {lrl: dict.fromkeys(high, 0.0) for lrl in low}))
        assert of_class(root, "nearest") == []


def test_above_forty_languages_per_side_only_the_nearest_edges_are_drawn() -> None:
    root = drawing(made_up(30, 41))
    assert (len(of_class(root, "edge")), len(of_class(root, "nearest"))) == (0, 41)


def test_with_very_many_languages_the_most_similar_are_drawn_and_the_others_counted() -> None:
    given = made_up(100, 900)
    text = draw_graph(given, admitted=given.low_resource)
    root = ET.fromstring(text)
    lrls, hrls = names(root, "lrl"), names(root, "hrl")
    assert len(lrls) == len(of_class(root, "nearest")) == 120
    assert set(hrls) == {given.nearest[lrl] for lrl in lrls}
    absent = set(given.low_resource) - set(lrls)
    weakest = min(given.similarity[lrl][given.nearest[lrl]] for lrl in lrls)
    assert all(given.similarity[lrl][given.nearest[lrl]] <= weakest for lrl in absent)
    note = f"not drawn: 780 LRLs less similar to any HRL (780 admitted) and {100 - len(hrls)} HRLs"
    assert any(note in str(label.text) for label in of_class(root, "quiet"))
    assert len(text) < 200_000


def test_the_legend_counts_the_hrls_and_lrls_that_are_not_drawn() -> None:
    assert "not drawn: 1 LRL less similar to any HRL</text>" in draw_graph(made_up(1, 121))
    assert re.search(r"not drawn: \d+ HRLs not nearest to any LRL drawn</text>", draw_graph(made_up(300, 5)))
    assert "not drawn" not in draw_graph(made_up(120, 120))


def test_a_title_with_markup_is_escaped() -> None:
    hostile = "</title><script>alert('&')</script>\x00\ud800\n\"two\""
    root = drawing(graph(), title=hostile)
    assert root.findtext(f"{SVG}title") == "</title><script>alert('&')</script>\ufffd\ufffd \"two\""
    assert list(root.iter(f"{SVG}script")) == []


def test_it_has_a_name_and_a_description_for_screen_readers() -> None:
    root = drawing(graph(), admitted=["slk"])
    assert (root.get("role"), root[0].tag, root[0].text) == ("img", f"{SVG}title", "Language graph")
    said = "aze: nearest to tur (0.50), waiting"
    assert said in str(root.findtext(f"{SVG}desc"))


def test_the_drawing_loads_nothing_from_elsewhere() -> None:
    text = draw_graph(graph(), title="related")
    assert re.findall(r"https?://[^\"']*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"href|url\(|@import|@font-face", text)


LONG = LanguageGraph(["a" * 64], ["b" * 64, "c"], {"b" * 64: {"a" * 64: 1.0}, "c": {"a" * 64: 0.01}})


@pytest.mark.parametrize("title", ["", "a title " * 40, "多言語" * 40])
@pytest.mark.parametrize(
    "given",
    [graph(), made_up(1, 1), made_up(2, 3), made_up(20, 30), made_up(100, 900), made_up(300, 5), LONG],
    ids=repr,
)
def test_nothing_lies_outside_the_frame(given: LanguageGraph, title: str) -> None:
    admitted, readiness = given.low_resource[::2], dict.fromkeys(given.low_resource, 0.5)
    root = drawing(given, admitted=admitted, readiness=readiness, title=title)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for left, top, right, bottom in filter(None, map(extent, root.iter())):
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height


def extent(item: ET.Element) -> tuple[float, float, float, float] | None:
    """The box around an element; a curve lies within its control points, a letter is at most an em wide."""

    def at(name: str) -> float:
        return float(item.get(name, "0"))

    match item.tag.removeprefix(SVG):
        case "circle":
            reach = at("r") + at("stroke-width") / 2
            return at("cx") - reach, at("cy") - reach, at("cx") + reach, at("cy") + reach
        case "rect":
            return at("x"), at("y"), at("x") + at("width"), at("y") + at("height")
        case "path" if item.get("class") != "arrow":
            numbers = [float(value) for value in re.findall(r"[\d.]+", item.get("d", ""))]
            line = at("stroke-width") / 2
            return min(numbers[::2]), min(numbers[1::2]) - line, max(numbers[::2]), max(numbers[1::2]) + line
        case "text":
            wide = sum(1.0 if ord(letter) > 0x2E80 else 0.6 for letter in str(item.text)) * at("font-size")
            before = {"middle": wide / 2, "end": wide}.get(item.get("text-anchor", ""), 0.0)
            return at("x") - before, at("y") - at("font-size"), at("x") - before + wide, at("y") + at("font-size") / 4
    return None


def test_the_same_graph_gives_the_same_text() -> None:
    one = draw_graph(graph(), admitted={"aze", "bel", "slk"}, readiness=READINESS, title="x")
    other = draw_graph(graph(), admitted=["slk", "bel", "aze"], readiness=dict(reversed(READINESS.items())), title="x")
    assert one == other


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"admitted": ["xyz"]}, "admitted: unknown language xyz"),
        ({"readiness": {"tur": 0.5}}, "readiness: unknown language tur"),
        ({"readiness": {"aze": float("nan")}}, "readiness of aze is nan"),
        ({"readiness": {"aze": -0.5}}, "readiness of aze is -0.5; a competence must be a finite number >= 0"),
    ],
)
def test_invalid_arguments_raise_an_error(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_graph(graph(), **wrong)
