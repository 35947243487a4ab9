"""The comparisons of a study: primary comparisons, all differences, the forest plot, few seeds."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from made_study import PRIMARY, made_study, typed
from read_page import page_of

from cclm.report.study_claims import forest_plot
from cclm.report.study_scores import Study

SVG = "{http://www.w3.org/2000/svg}"


def test_primary_comparisons_come_first_with_their_sentence_and_adjusted_p() -> None:
    results = made_study()
    page = page_of(results)
    for first, second in PRIMARY:
        one = next(c for c in results["comparisons"] if [c["first"], c["second"]] == [first, second])
        assert f"{one['sentence']}." in page.words
        shown = page.column("Primary comparisons", "p, Holm")[f"{first} − {second}"]
        assert shown == (f"{one['holm']:.3f}" if one["holm"] >= 0.001 else "< 0.001")
        assert page.column("Primary comparisons", "chrF")[f"{first} − {second}"] == f"{one['mean']:+.2f}"


def test_the_difference_of_every_seed_is_listed() -> None:
    results = made_study()
    page = page_of(results)
    captions = [caption for caption in page.tables if caption.endswith(", first − second")]
    assert captions[0] == "chrF over all languages, first − second"
    assert sum(len(page.tables[caption]) - 1 for caption in captions) == len(results["comparisons"])
    names = {"chrf": "chrF", "bleu": "BLEU", "all": "all languages", "hrl": "the HRLs", "lrl": "the LRLs"}
    for one in results["comparisons"]:
        caption = f"{names[one['metric']]} over {names[one['over']]}, first − second"
        head, *rows = page.tables[caption]
        assert head[1:6] == [f"seed {seed}" for seed in (1, 2, 3, 4, 5)]
        pair = f"{one['first']} − {one['second']}"
        (row,) = [row for row in rows if row[0] == pair]
        shown = [float(value.replace("−", "-")) for value in row[1:6]]
        assert shown == pytest.approx(list(one["differences"].values()), abs=0.0051)
        at_the_endpoint = one["metric"] == "chrf" and one["over"] == "all"
        assert (f"{caption}/{pair}/first − second" in page.strong) == (one["primary"] and at_the_endpoint)


def test_one_seed_has_no_interval_and_no_p() -> None:
    page = page_of(made_study(seeds=[3]))
    assert set(page.column("Primary comparisons", "95\u00a0% interval").values()) == {"–"}
    assert set(page.column("Primary comparisons", "p, Holm").values()) == {"–"}
    assert "±" not in page.column("Table 1", "BLEU")["uniform"]
    assert "seed 3, on the recipe" in page.words
    assert "One seed gives no interval and no p" in page.words
    assert "±" not in page.words
    assert "Line: " not in page.words


def test_the_report_warns_about_few_seeds() -> None:
    assert "3 seeds are few" in page_of(made_study(seeds=[1, 2, 3])).words
    assert "seeds are few" not in page_of(made_study()).words


def test_without_primary_comparisons_all_are_exploratory() -> None:
    page = page_of(made_study(primary=[]))
    assert "No comparison was declared before the run" in page.words
    assert "Bold: primary" not in page.words
    assert not any(mark.endswith("/first − second") for mark in page.strong)


def test_two_arms_that_score_zero_allow_no_conclusion() -> None:
    results = made_study(primary=[["ccl-m-avg", "tau-5"]])
    for arm in ("ccl-m-avg", "tau-5"):
        results["arms"][arm]["chrf"]["all"] = 0.01
    for one in results["comparisons"]:
        one["sentence"] = "no difference detected; gains above 0.00 can be excluded"
    page = page_of(results)
    assert "can be excluded" not in page.words
    assert "ccl-m-avg and tau-5 both score 0.0 chrF: no conclusion is possible." in page.words
    results["arms"]["tau-5"]["chrf"]["all"] = 0.06
    assert "can be excluded" in page_of(results).words


def test_the_forest_plot_has_every_mean_and_interval_at_its_value() -> None:
    results = made_study()
    root = ElementTree.fromstring(forest_plot(Study(typed(results))))
    shown = [one for one in results["comparisons"] if one["metric"] == "chrf" and one["over"] == "all"]
    ordered = [one for one in shown if one["primary"]] + [one for one in shown if not one["primary"]]
    diamonds = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    centres = [float(d.split()[0][1:]) + 6 for d in diamonds]
    assert np.corrcoef(centres, [one["mean"] for one in ordered])[0, 1] == pytest.approx(1, abs=1e-4)
    lines = [one.attrib for one in root.iter(f"{SVG}line") if one.attrib["y1"] == one.attrib["y2"]]
    slope, start = np.polyfit([one["mean"] for one in ordered], centres, 1)
    for drawn, one in zip(lines, ordered, strict=True):
        assert float(drawn["x1"]) == pytest.approx(start + slope * one["low"], abs=0.5)
        assert float(drawn["x2"]) == pytest.approx(start + slope * one["high"], abs=0.5)
    dots = [float(one.attrib["cx"]) for one in root.iter(f"{SVG}circle")]
    assert dots == pytest.approx([start + slope * d for one in ordered for d in one["differences"].values()], abs=0.5)
    full = [path.attrib["class"] == "p-blue" for path in root.iter(f"{SVG}path")]
    assert full == [one["primary"] for one in ordered]
    assert "ccl-m-avg minus proportional (primary): " in (root.findtext(f"{SVG}desc") or "")


def test_thirty_arms_with_long_names_fit() -> None:
    arms = [f"an-arm-with-a-name-that-goes-on-for-rather-long-{i}" for i in range(30)]
    results = made_study(arms=arms, primary=[[arms[1], arms[0]]])
    assert len(page_of(results).column("Table 1", "BLEU")) == 31
    root = ElementTree.fromstring(forest_plot(Study(typed(results))))
    labels = [one.text or "" for one in root.iter(f"{SVG}text")]
    pairs = [label for label in labels if "…" in label]
    assert len(set(pairs)) == 29  # cut short, and yet told apart
    assert max(map(len, pairs)) <= 34
