"""The report of a sweep: Figure 2, the table of leaves, the saved steps."""

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from made_run import EVIL
from made_study import LRLS, made_sweep

from cclm.formats.sweep import Sweep
from cclm.report import sweep as report

SVG = "{http://www.w3.org/2000/svg}"


def typed(sweep: dict[str, Any]) -> Sweep:
    return Sweep.check(sweep, "sweep.json")


def figure_2(sweep: dict[str, Any]) -> str:
    return report.figure_2(typed(sweep))


def panels(sweep: dict[str, Any]) -> list[str]:
    return report.panels(typed(sweep))


def sweep_page(sweep: dict[str, Any]) -> str:
    return report.sweep_page(typed(sweep))


def sweep_markdown(sweep: dict[str, Any], **options: Any) -> str:
    return report.sweep_markdown(typed(sweep), **options)


def marks(root: ElementTree.Element) -> dict[str, list[tuple[float, float]]]:
    """The centres of the marks with a hover text: squares for max, discs for avg."""
    squares = [
        (float(one.attrib["x"]) + 3.6, float(one.attrib["y"]) + 3.6) for one in root.iter(f"{SVG}rect") if len(one)
    ]
    discs = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in root.iter(f"{SVG}circle") if len(one)]
    return {"max": squares, "avg": discs}


def rings(root: ElementTree.Element) -> list[tuple[float, float]]:
    circles = [one.attrib for one in root.iter(f"{SVG}circle") if one.attrib.get("r") == "8"]
    return [(float(one["cx"]), float(one["cy"])) for one in circles]


@pytest.mark.parametrize(("panel", "key"), [(0, "weighted"), (1, "bleu")])
def test_every_leaf_is_drawn_at_its_threshold_and_value(panel: int, key: str) -> None:
    sweep = made_sweep()
    root = ElementTree.fromstring(panels(sweep)[panel])
    drawn = marks(root)
    leaves = {a: [leaf for leaf in sweep["leaves"] if leaf["aggregate"] == a] for a in ("max", "avg")}
    points = np.array(drawn["max"] + drawn["avg"])
    thresholds = [leaf["threshold"] for leaf in leaves["max"] + leaves["avg"]]
    values = [leaf[key] for leaf in leaves["max"] + leaves["avg"]]
    assert np.corrcoef(points[:, 0], thresholds)[0, 1] == pytest.approx(1, abs=1e-5)
    assert np.corrcoef(points[:, 1], values)[0, 1] == pytest.approx(-1, abs=1e-5)
    chosen = [leaf["threshold"] for leaf in leaves["avg"]].index(0.8)
    assert rings(root) == [pytest.approx(drawn["avg"][chosen], abs=0.11)]
    slope, start = np.polyfit(values, points[:, 1], 1)
    dotted = [one.attrib for one in root.iter(f"{SVG}line") if "stroke-dasharray" in one.attrib]
    heights = [float(one["y1"]) for one in dotted if float(one["x2"]) - float(one["x1"]) > 100]
    assert heights == [pytest.approx(start + slope * sweep["rival"][key], abs=0.3)]


def test_figure_2_has_both_panels_side_by_side() -> None:
    root = ElementTree.fromstring(figure_2(made_sweep()))
    assert [group.attrib["transform"] for group in root.iter(f"{SVG}g")] == ["translate(0 0)", "translate(400 0)"]
    assert len(rings(root)) == 2
    assert "Chosen: avg at 0.8." in (root.findtext(f"{SVG}desc") or "")


@pytest.mark.parametrize("huge", [1e308, -1e308, 1e-300])
def test_extreme_numbers_do_not_break_the_figure(huge: float) -> None:
    sweep = made_sweep()
    for i, leaf in enumerate(sweep["leaves"]):
        leaf |= {"weighted": huge, "macro": huge, "bleu": huge * (-1) ** i, "threshold": huge / (i + 1)}
    root = ElementTree.fromstring(figure_2(sweep))
    places = [place for kind in marks(root).values() for point in kind for place in point]
    assert all(0 <= place <= 400 for place in places)
    assert sweep_page(sweep)


def test_a_sweep_that_is_not_scored_says_so() -> None:
    drawing = ElementTree.fromstring(panels(made_sweep(scored=False, rival=False))[1])
    assert "not scored yet" in [one.text for one in drawing.iter(f"{SVG}text")]
    assert marks(drawing) == {"max": [], "avg": []}


def test_one_threshold_or_very_many_can_be_drawn() -> None:
    for thresholds in ([0.8], list(np.round(np.linspace(0.1, 1, 46), 2))):
        sweep = made_sweep(thresholds=[float(t) for t in thresholds])
        root = ElementTree.fromstring(panels(sweep)[0])
        assert len(marks(root)["avg"]) == len(thresholds)
        labels = [one for one in root.iter(f"{SVG}text") if one.attrib["y"] == "288"]
        assert 1 <= len(labels) <= 10


def test_a_custom_aggregate_is_drawn() -> None:
    sweep = made_sweep()
    for leaf in sweep["leaves"]:
        leaf["aggregate"] = {"max": "median", "avg": "avg"}[leaf["aggregate"]]
    sweep["aggregates"] = ["median", "avg", "min"]
    root = ElementTree.fromstring(figure_2(sweep))
    assert sum("median" in (one.text or "") for one in root.iter(f"{SVG}title")) == 12


def rows(markdown: str) -> list[list[str]]:
    found = [line.strip("|").split("|") for line in markdown.splitlines() if re.match(r"\| \**[01]", line)]
    return [[cell.strip() for cell in row] for row in found]


def test_the_table_has_every_leaf_with_its_admissions() -> None:
    sweep = made_sweep()
    table = rows(sweep_markdown(sweep))
    leaves = [f"{threshold:g} {aggregate}" for threshold in sweep["thresholds"] for aggregate in ("avg", "max")]
    assert [row[0].strip("*") for row in table] == leaves
    (chosen,) = [row for row in table if row[0].startswith("**")]
    assert chosen[:3] == ["**0.8 avg**", "**4.200**", "**4.800**"]
    assert chosen[7] == ", ".join(f"{lrl} {600 + 100 * n}" for n, lrl in enumerate(LRLS))
    assert table[0][8] == "0.5 max"


def test_languages_never_admitted_are_named_and_long_lists_are_shortened() -> None:
    sweep = made_sweep()
    del sweep["leaves"][-1]["admissions"]["slk"]
    assert "glg 1,200, slk never" in sweep_markdown(sweep)
    sweep["leaves"][0]["admissions"] = {f"l{i:02}": 100 + i for i in range(30)}
    assert "l11 111, and 22 more" in sweep_markdown(sweep)  # 30 and the four that never came there


@pytest.mark.parametrize(
    ("trained", "said"),
    [(21_400, "21,400 steps, 41 % fewer than the 36,000"), (36_000, "36,000 steps, against the 36,000")],
)
def test_the_saved_steps_are_stated(trained: int, said: str) -> None:
    sweep = made_sweep()
    sweep["steps"]["trained"] = trained
    assert said in sweep_markdown(sweep)
    assert "these leaves need at least 20,900" in sweep_markdown(sweep)


def test_the_lead_names_the_choice() -> None:
    assert "Chosen on the dev sets: threshold 0.8, avg, with a weighted dev loss of 4.200 bits" in sweep_page(
        made_sweep()
    )


def test_texts_from_the_sweep_are_escaped() -> None:
    sweep: dict[str, Any] = made_sweep()
    sweep["recipe"] = sweep["rival"]["name"] = EVIL
    for leaf in sweep["leaves"]:
        leaf["aggregate"] = EVIL
        leaf["admissions"][EVIL] = 7
    sweep["aggregates"], sweep["chosen"]["aggregate"] = [EVIL], EVIL
    page = sweep_page(sweep)
    assert "<script" not in page
    assert "<img" not in page
    assert "<img" not in sweep_markdown(sweep, pictures="pictures")
    ElementTree.fromstring(figure_2(sweep))
