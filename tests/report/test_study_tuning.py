"""The section on tuning in a study's report: every try, the choice, its rule and its cost."""

import json
from pathlib import Path

import pytest
from made_run import EVIL
from made_study import made_study, typed
from read_page import page_of

from cclm.errors import DataError
from cclm.formats.study import StudyResults
from cclm.report.study_page import study_markdown

HEAD = ["arm", "key", "value", "macro dev loss", "weighted", "outcome"]


def test_every_try_is_listed_with_its_losses_and_the_choice() -> None:
    page = page_of(made_study(tuned=True))
    assert page.tables["Tuning"] == [
        HEAD,
        ["ccl-m-avg", "curriculum.threshold", "0.7", "4.310", "3.690", ""],
        ["ccl-m-avg", "curriculum.threshold", "0.85", "4.200", "3.800", "chosen"],
        ["ccl-m-avg", "curriculum.threshold", "1.0", "4.250", "3.750", ""],
        ["tau-5", "curriculum.tau", "1", "4.400", "3.600", ""],
        ["tau-5", "curriculum.tau", "5", "5.000", "3.000", ""],
        ["tau-5", "curriculum.tau", ".inf", "–", "–", "failed: loss is not finite at step 310"],
    ]
    assert {"Tuning/ccl-m-avg/value", "Tuning/ccl-m-avg/macro dev loss"} <= page.strong
    assert "Tuning/tau-5/value" not in page.strong


def test_the_rule_of_the_choice_and_the_cost_are_stated() -> None:
    page = page_of(made_study(tuned=True))
    assert "The choice used only dev data and seed 0, which is not used in any comparison." in page.words
    assert "a loss weighted by dev sentences would favour methods that draw HRLs most often" in page.words
    assert "Tuning took 6 trainings, 15,000 steps and 10.0 M target tokens" in page.words


def test_only_studies_that_tune_have_the_section() -> None:
    text = study_markdown(typed(made_study(tuned=True)))
    assert "## Tuning" in text
    assert "| ccl-m-avg | curriculum.threshold | **0.85** | **4.200** | 3.800 | chosen |" in text
    assert "tuned" not in study_markdown(typed(made_study()))
    assert "Tuning" not in page_of(made_study()).tables


def test_texts_from_the_tuning_are_escaped() -> None:
    results = made_study(tuned=True)
    arms = results["tuning"]["arms"]
    arms[EVIL] = {"key": EVIL, "tries": [{"value": EVIL, "run": EVIL, "chosen": True, "why": EVIL}]}
    page = page_of(results)
    assert "script" not in page.tags
    assert page.words.count(EVIL) == 4
    assert "<script" not in study_markdown(typed(results))


def test_invalid_tuning_results_are_refused(tmp_path: Path) -> None:
    results = made_study(tuned=True)
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert StudyResults.read(tmp_path / "results.json") == typed(results)
    results["tuning"]["arms"]["tau-5"]["tries"][1]["macro"] = "low"
    (tmp_path / "results.json").write_text(json.dumps(results))
    with pytest.raises(DataError, match=r"tuning\.arms\.tau-5\.tries\[1\]\.macro: expected a valid number, got 'low'"):
        StudyResults.read(tmp_path / "results.json")
