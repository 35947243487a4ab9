"""Off-target rates and external scores in the report of a study."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_study import HRLS, LRLS, made_study
from read_page import page_of

from cclm.errors import DataError
from cclm.formats.study import StudyResults
from cclm.report.document import decimals_for
from cclm.report.study_page import study_markdown


def scored(**options: Any) -> dict[str, Any]:
    """Two arms with more scores and one without; one language has no rate, the references have a rate of 4 %."""
    results = made_study(arms=["proportional", "uniform", "ccl-m-avg"], primary=[], **options)
    for arm, share in (("proportional", 0.05), ("ccl-m-avg", 0.031)):
        known = [lang for lang in (*LRLS, *HRLS) if lang != "bel"]
        rate = {"all": share, "lrl": share + 0.01, "hrl": share - 0.01, "languages": dict.fromkeys(known, share)}
        erring = {"all": 0.04, "lrl": 0.04, "hrl": 0.04, "languages": dict.fromkeys(known, 0.04)}
        comet = {"all": -0.5, "lrl": None, "hrl": -0.25, "languages": dict.fromkeys((*LRLS, *HRLS), share * 20)}
        results["arms"][arm]["more_scores"] = {"off_target": rate, "off_target_references": erring, "comet": comet}
    return results


def test_off_target_rates_have_a_row_for_the_references() -> None:
    page = page_of(scored())
    found = page.column("Off-target rate", "mean")
    assert found == {"proportional": "5.0\u00a0%", "ccl-m-avg": "3.1\u00a0%", "the references": "4.0\u00a0%"}
    assert page.column("Off-target rate", "LRLs")["ccl-m-avg"] == "4.1\u00a0%"
    assert page.column("Off-target rate", "HRLs")["proportional"] == "4.0\u00a0%"
    assert set(page.column("Off-target rate", "bel").values()) == {"–"}
    assert page.column("Off-target rate", "ces")["ccl-m-avg"] == "3.1\u00a0%"
    best = {mark for mark in page.strong if mark.startswith("Off-target rate/")}
    assert best == {
        f"Off-target rate/ccl-m-avg/{place}" for place in ("mean", "LRLs", "HRLs", *LRLS, *HRLS) if place != "bel"
    }
    assert "Share of translations in the wrong language, mean over seeds" in page.words


def test_external_scores_have_four_digits_and_no_best_value() -> None:
    page = page_of(scored())
    assert page.column("comet", "mean") == {"proportional": "−0.500", "ccl-m-avg": "−0.500"}
    assert page.column("comet", "LRLs") == {"proportional": "–", "ccl-m-avg": "–"}
    assert page.column("comet", "aze") == {"proportional": "1.000", "ccl-m-avg": "0.620"}
    assert not any(mark.startswith("comet/") for mark in page.strong)
    assert (
        "Scores of the external scorer comet, mean over the sentences of each language, mean over seeds." in page.words
    )
    assert "mean over seeds." not in page_of(scored(seeds=[1])).words


@pytest.mark.parametrize(
    ("values", "digits"), [([0.7], 4), ([0.7, -1.0], 3), ([84.2], 2), ([12345.0], 0), ([1e-9], 6), ([0.0], 1), ([], 1)]
)
def test_decimals_show_four_digits_of_the_largest_value(values: list[float], digits: int) -> None:
    assert decimals_for(values) == digits


def test_a_study_without_them_has_no_such_tables() -> None:
    page = page_of(made_study())
    assert not any(caption in ("Off-target rate", "comet") for caption in page.tables)
    without = scored()
    for row in without["arms"].values():
        row.get("more_scores", {}).pop("off_target_references", None)
    assert "the references" not in page_of(without).column("Off-target rate", "mean")


def test_they_are_validated_and_part_of_the_markdown(tmp_path: Path) -> None:
    results = scored()
    (tmp_path / "results.json").write_text(json.dumps(results))
    told = study_markdown(StudyResults.read(tmp_path / "results.json"))
    assert "| the references | 4.0 % |" in told.replace("\u00a0", " ")
    results["arms"]["proportional"]["more_scores"]["comet"]["languages"]["aze"] = "much"
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(
        DataError, match=r"arms.proportional.more_scores.comet.languages.aze: expected a valid number, got 'much'"
    ):
        StudyResults.read(tmp_path / "results.json")
