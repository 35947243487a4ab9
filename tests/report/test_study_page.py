"""The other sections of a study's report: training, cost, failures, data; escaping of texts."""

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from made_run import EVIL
from made_study import HRLS, LRLS, made_study, typed
from read_page import finished, page_of

from cclm.report.study_claims import forest_plot
from cclm.report.study_page import study_markdown, study_page
from cclm.report.study_scores import Study


def test_the_page_has_draws_epochs_admissions_and_dev_losses() -> None:
    page = page_of(made_study())
    assert page.column("Micro-batches drawn", "bel")["tau-5"] == "711"
    assert page.column("Passes over the training data", "bel")["tau-5"] == "6.2"
    assert page.column("Admissions", "slk") == {
        f"{arm}, seed {seed}": "600"
        for arm in ("ccl-m-max", "ccl-m-avg", "gate-uniform", "gate-tau-5", "gate-proportional")
        for seed in (1, 2, 3, 4, 5)
    }
    assert "from the start: proportional, uniform, tau-5, multidds-s." in page.words
    assert page.column("Dev loss during training", "at 50\u00a0%")["proportional"] == "4.900"
    assert page.column("Dev loss during training", "at 100\u00a0%")["uniform"] == "–"
    assert "bitext" not in page.column("Dev loss during training", "at 50\u00a0%")


def test_an_lrl_that_was_not_admitted_is_marked_never() -> None:
    results = made_study()
    for trial in finished(results, "ccl-m-avg"):
        del trial["admissions"]["slk"]
    assert page_of(results).column("Admissions", "slk")["ccl-m-avg, seed 1"] == "never"


def test_the_cost_has_l_star_and_seconds_if_they_were_measured() -> None:
    results = made_study()
    page = page_of(results)
    # 4,915,200 tokens for the bitext models, 2,304,000 for a trial
    assert page.column("Cost", "cost of L*") == dict.fromkeys(results["study"]["arms"], "213\u00a0%") | {"bitext": "–"}
    assert "6,400 steps and 4.9 M target tokens" in page.words
    assert "seconds" not in page.tables["Cost of one trial, mean over seeds"][0]
    timed = page_of(results, seconds={"runs/uniform.1": 100.0, "runs/uniform.2": 300.0})
    assert timed.column("Cost", "seconds")["uniform"] == "200"
    assert timed.column("Cost", "seconds")["tau-5"] == "–"


def test_the_cost_of_l_star_is_that_of_the_method_and_of_the_arm() -> None:
    results = made_study()
    results["benchmark"] |= {"method": "multilingual", "tokens": 230_400, "arms": {"tau-5": 1_152_000, "uniform": None}}
    page = page_of(results)
    cost = page.column("Cost", "cost of L*")  # of 2,304,000 for a trial
    assert (cost["ccl-m-avg"], cost["tau-5"], cost["uniform"]) == ("10\u00a0%", "50\u00a0%", "–")
    assert "Training the multilingual model that gives L* took" in page.words
    assert "once for all arms but tau-5, uniform, which have their own L*" in page.words
    assert "L*: dev loss of a short multilingual training" in page.words


def test_the_page_has_data_sizes_losses_and_similarities() -> None:
    results = made_study()
    page = page_of(results)
    assert page.column("Dataset statistics", "train")["aze"] == "4,500"
    assert page.column("Dataset statistics", "L*")["bel"] == "7.100"
    assert page.column("Similarities", "aze") == {"tur": "0.60", "rus": "0.12", "por": "0.14", "ces": "0.16"}
    assert {f"Similarities/{hrl}/{lrl}" for hrl, lrl in zip(HRLS, LRLS, strict=True)} <= page.strong


def test_failed_trials_are_listed_with_their_reason() -> None:
    page = page_of(made_study(failed=[("uniform", 2), ("tau-5", 4)]))
    assert page.tables["Failed trials"][1:] == [
        ["uniform", "2", "runs/uniform.2", "loss is not finite at step 310"],
        ["tau-5", "4", "runs/tau-5.4", "loss is not finite at step 310"],
    ]
    assert page.column("Table 1", "seeds")["uniform"] == "4"
    assert "44 of 46 trials finished" in page.words
    assert "Failed trials" not in page_of(made_study()).tables


def test_a_reason_of_several_lines_is_shown_from_its_first_line_on() -> None:
    results = made_study(failed=[("uniform", 2)])
    failed = next(trial for trial in results["trials"] if trial["state"] == "failed")
    failed["why"] = "the run was begun with other settings:\n  training.max_steps: 10, now 20"
    why = page_of(results).column("Failed trials", "why")["uniform"]
    assert why.split() == failed["why"].split()
    assert "the run was begun with other settings: training.max" in study_markdown(typed(results)).replace("\\_", "_")


def test_an_arm_without_any_finished_trial_has_dashes() -> None:
    results = made_study(failed=[("uniform", seed) for seed in (1, 2, 3, 4, 5)])
    page = page_of(results)
    assert page.column("Table 1", "BLEU")["uniform"] == "–"
    del results["arms"]["uniform"]
    assert page_of(results).column("Table 1", "BLEU")["uniform"] == "–"


def test_a_study_without_finished_trials_has_a_page() -> None:
    results = made_study(arms=["uniform"], seeds=[1], failed=[("uniform", 1), ("bitext", 1)], primary=[["a", "b"]])
    page = page_of(results)
    assert "No trial has finished" in page.words
    assert "not possible with the trials that finished: a − b." in page.words
    assert "Too few trials finished to compare arms." in page.words


def evil_study() -> dict[str, Any]:
    """A study in which every text contains markup."""
    results = made_study(
        name=EVIL, recipe=EVIL, arms=[EVIL, "uniform"], primary=[["uniform", EVIL]], failed=[(EVIL, 1)], lrls=[EVIL]
    )
    results["study"]["arms"][EVIL] = {EVIL: EVIL}
    for trial in results["trials"]:
        trial["reason"], trial["why"] = EVIL, EVIL
    for one in results["comparisons"]:
        one["sentence"] = EVIL
        one["differences"] = {EVIL: 0.5, **one["differences"]}
    return results


def test_texts_from_the_results_are_escaped() -> None:
    page = page_of(evil_study())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.words.count(EVIL) > 20
    markdown = study_markdown(typed(evil_study()))
    assert "<script" not in markdown
    assert "<img" not in markdown
    ElementTree.fromstring(forest_plot(Study(typed(evil_study()))))


@pytest.mark.parametrize("huge", [1e308, -1e308, 1e-300])
def test_extreme_numbers_do_not_break_the_page(huge: float) -> None:
    results = made_study(tuned=True)
    for trial in results["trials"]:
        for i, row in enumerate(trial["scores"]["languages"].values()):
            row |= {"bleu": huge, "chrf": huge * (-1) ** i}
        trial |= {"macro": huge, "weighted": huge} if trial["arm"] != "bitext" else {}
    for arm in results["arms"].values():
        arm["bleu"] = arm["chrf"] = dict.fromkeys(("all", "hrl", "lrl", "worst"), huge)
        arm["more_scores"] = {"mine": {"all": huge, "languages": dict.fromkeys((*LRLS, *HRLS), huge)}}
    for i, one in enumerate(results["comparisons"]):
        one |= {"mean": huge, "low": -1e308, "high": 1e308, "differences": {"1": huge, "2": huge * (-1) ** i}}
    page = page_of(results)
    assert len(page.column("Table 1", "BLEU")["uniform"]) < 30
    ElementTree.fromstring(forest_plot(Study(typed(results))))


def test_markdown_has_the_same_tables_as_the_page() -> None:
    results = made_study()
    text, page = study_markdown(typed(results)), page_of(results)
    assert re.findall(r"^### (.*)$", text, flags=re.MULTILINE) == [
        caption.replace("*", r"\*") for caption in page.tables
    ]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ccl-m-avg |")]
    shown = [row for rows_ in page.tables.values() for row in rows_ if row[0] == "ccl-m-avg"]
    bare = [[re.sub(r"[*\\]", "", cell) for cell in row] for row in rows]
    assert bare == [[cell.replace("\u00a0", " ") for cell in row] for row in shown]
    assert "forest.svg" not in text
    assert "](pictures/forest.svg)" in study_markdown(typed(results), pictures="pictures")


def test_equal_results_give_identical_pages() -> None:
    assert study_page(typed(made_study())) == study_page(typed(made_study()))
