"""A study with one seed, whose comparisons are a bootstrap of sentences: tables, forest plot, caveats."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from made_study import HRLS, LRLS, made_study, typed
from read_page import page_of

from cclm.formats.study import StudyResults
from cclm.report.study_claims import forest_plot
from cclm.report.study_page import study_markdown
from cclm.report.study_scores import Study

SVG = "{http://www.w3.org/2000/svg}"


def one_seed() -> dict[str, Any]:
    """A study like `made_study`, with intervals half a point wide and p alternating between 0.001, 0.02 and 0.5."""
    results = made_study(seeds=[3])
    for i, one in enumerate(results["comparisons"]):
        p = (0.001, 0.02, 0.5)[i % 3]
        one |= {"low": one["mean"] - 0.25, "high": one["mean"] + 0.25, "p": p, "resamples": 2000}
        one["holm"] = 0.003 if one["primary"] and one["over"] == "all" and one["metric"] == "chrf" else None
        if one["over"] == "all":
            row = {"baseline": 20.0, "low": -0.1, "high": 0.9, "p_sacrebleu": 0.1}
            shares = zip([*LRLS, *HRLS], (0.004, 0.03, 0.4) * 3, strict=False)
            one["languages"] = {lang: {**row, "system": 20.4, "difference": 0.4, "p": p} for lang, p in shares}
    return results


def test_intervals_and_p_are_marked_as_a_bootstrap() -> None:
    results = one_seed()
    page = page_of(results)
    shown = page.column("Primary comparisons", "95\u00a0% interval")
    for one in results["comparisons"]:
        pair = f"{one['first']} − {one['second']}"
        if one["holm"]:
            wanted = f"{one['low']:+.2f} to {one['high']:+.2f}".replace("-", "−")
            assert shown[pair] == wanted
            assert page.column("Primary comparisons", "p, Holm")[pair] == "0.003"
    assert "The study has one seed: intervals and p come from a paired bootstrap of its test sentences" in page.words
    assert "but not whether one method is better" in page.words
    assert "Line: 95\u00a0% interval of a paired bootstrap of the test sentences of one seed." in page.words
    assert "paired t-test" not in page.words
    assert "paired by seed" not in page.words
    assert "Diamond: the difference, filled if" in page.words


def test_captions_of_one_seed_do_not_mention_means_over_seeds() -> None:
    page = page_of(one_seed())
    assert "over seeds" not in " ".join(page.tables)
    assert "Cost of one trial" in page.tables


def test_one_seed_gives_no_footnotes() -> None:
    assert not re.search("[†‡§]", page_of(one_seed()).words)


def test_the_forest_plot_has_the_intervals() -> None:
    results = one_seed()
    root = ElementTree.fromstring(forest_plot(Study(typed(results))))
    lines = [one for one in root.iter(f"{SVG}line") if one.attrib["y1"] == one.attrib["y2"]]
    shown = [one for one in results["comparisons"] if one["metric"] == "chrf" and one["over"] == "all"]
    assert len(lines) == len(shown)
    widths = {round(float(line.attrib["x2"]) - float(line.attrib["x1"]), 0) for line in lines}
    assert len(widths) == 1
    assert (root.findtext(f"{SVG}title") or "").endswith("first − second (one seed, test sentences resampled)")


def test_each_language_has_its_difference_and_its_mark() -> None:
    page = page_of(one_seed())
    for metric in ("chrF", "BLEU"):
        caption = f"{metric} of each language, first − second"
        marks = ("+0.40**", "+0.40*", "+0.40")
        for i, lang in enumerate([*LRLS, *HRLS]):
            assert set(page.column(caption, lang).values()) == {marks[i % 3]}
    assert not any("of each language, first" in caption for caption in page_of(made_study()).tables)


def test_the_results_file_gives_the_same_markdown(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(one_seed()))
    told = study_markdown(StudyResults.read(tmp_path / "results.json"))
    assert "### chrF of each language, first − second" in told
    assert r"+0.40\*\*" in told
