"""The score tables of a study: means, standard deviations, best values, footnotes, the paper's figures."""

import re

import numpy as np
import pytest
from made_study import HRLS, LRLS, PRIMARY, made_study, score, typed
from read_page import finished, page_of

from cclm.paper import tables
from cclm.report.study_scores import ARMS, SAMPLERS, Study, paper_figures


def test_table_1_has_mean_and_standard_deviation_of_every_arm() -> None:
    results = made_study()
    page = page_of(results)
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF")):
        found = page.column("Table 1", name)
        assert list(found) == [*results["study"]["arms"], "bitext"]
        for arm, shown in found.items():
            values = [score(trial, metric, "all", HRLS) for trial in finished(results, arm)]
            wanted = f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")
            assert shown.rstrip("†‡§") == wanted


@pytest.mark.parametrize(("column", "over"), [("LRLs", "lrl"), ("HRLs", "hrl"), ("worst language", "worst")])
def test_table_2_splits_the_languages(column: str, over: str) -> None:
    results = made_study()
    page = page_of(results)
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF")):
        shown = page.column(f"Table 2: low-resource and high-resource languages, {name}", column)["ccl-m-avg"]
        values = [score(trial, metric, over, HRLS) for trial in finished(results, "ccl-m-avg")]
        assert shown == f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def test_one_to_many_studies_have_table_3() -> None:
    results = made_study()
    results["data"]["direction"] = "one-to-many"
    assert any(caption.startswith("Table 3: ") for caption in page_of(results).tables)


def test_table_4_has_the_samplers_inside_the_curriculum_if_there_are_any() -> None:
    assert list(page_of(made_study()).column("Table 4", "BLEU")) == list(SAMPLERS)
    without = page_of(made_study(arms=["proportional", "ccl-m-avg"], primary=[]))
    assert not any(caption.startswith("Table 4") for caption in without.tables)


def test_the_best_of_each_column_is_bold() -> None:
    results = made_study()
    strong = page_of(results).strong
    means = {arm: row["bleu"]["all"] for arm, row in results["arms"].items()}
    best = max(means, key=lambda arm: means[arm])
    assert {mark for mark in strong if mark.startswith("Table 1") and mark.endswith("/BLEU")} == {
        f"Table 1: mean over all languages/{best}/BLEU"
    }


def test_only_significant_primary_comparisons_get_footnotes() -> None:
    results = made_study()
    primary = [one for one in results["comparisons"] if one["holm"] is not None]
    assert [[one["first"], one["second"]] for one in primary] == PRIMARY
    for one, p in zip(primary, (0.04, 0.05, 0.001), strict=True):
        one["holm"] = p
    primary[2]["mean"] = -1.0  # then the second is the better one
    page = page_of(results)
    signs = {arm: re.sub(r"[^†‡§]", "", shown) for arm, shown in page.column("Table 1", "chrF").items()}
    assert {arm: sign for arm, sign in signs.items() if sign} == {"ccl-m-avg": "†", "multidds-s": "§"}
    assert not any(re.search("[†‡§]", shown) for shown in page.column("Table 1", "BLEU").values())
    said = "† better than proportional; § better than ccl-m-avg in a primary comparison (Holm-adjusted p < 0.05)."
    assert said in page.words


def test_recipes_of_the_paper_get_columns_with_its_figures() -> None:
    page = page_of(made_study(recipe="ted8-related-m2o"))
    printed = tables()["table1_main"]
    for arm, row in ARMS.items():
        if arm in page.column("Table 1", "paper"):
            assert page.column("Table 1", "paper")[arm] == f"{printed[row]['m2o_related']:.2f}"
    assert page.column("Table 1", "paper")["gate-proportional"] == "27.21"
    assert page.column("BLEU of each language in the paper", "aze")["ccl-m-avg"] == "12.59"
    assert page.column("Dataset statistics", "train, paper")["bel"] == "4,510"
    assert page.column("Dataset statistics", "L*, paper")["aze"] == "7.870"
    assert page.column("Similarities", "aze")["tur"] == "0.60 (0.50)"
    (halves,) = [rows for caption, rows in page.tables.items() if caption.startswith("Table 2") and "BLEU" in caption]
    assert halves[0][1:5] == ["LRLs", "paper", "HRLs", "paper"]
    assert [row[2] for row in halves if row[0] == "bitext"] == ["10.45"]
    assert not any("paper" in caption for caption in page_of(made_study()).tables)


@pytest.mark.parametrize("recipe", ["ted8-diverse-o2m", "my/ted8-diverse-o2m.yaml"])
def test_recipes_of_the_paper_are_recognised_by_name_or_file(recipe: str) -> None:
    found = paper_figures(recipe)
    assert found is not None
    assert found.over("ccl-m-avg", "all") == 19.53
    assert found.over("ccl-m-avg", "lrl") == 13.82
    assert found.over("gate-uniform", "all") == 18.21
    assert found.over("cooldown", "all") is found.over("cooldown", "lrl") is None
    assert found.loss("kor") == 5.843
    assert found.of_language("uniform", "kor") == 5.95
    assert found.similarity("mkd", "bul") == 0.6
    assert paper_figures("phrasebook") is paper_figures("my-ted8") is None


def test_with_many_languages_the_tables_are_transposed() -> None:
    lrls = [f"l{i:02}" for i in range(20)]
    page = page_of(made_study(lrls=lrls, arms=["proportional", "ccl-m-avg"], primary=[]))
    assert page.tables["BLEU of each language"][0] == ["language", "proportional", "ccl-m-avg", "bitext"]
    assert len(page.tables["BLEU of each language"]) == 25


def test_tasks_have_the_side_of_their_language() -> None:
    results = made_study(arms=["uniform"], primary=[])
    results["data"]["direction"] = "many-to-many"
    for trial in results["trials"]:
        rows = trial["scores"]["languages"]
        trial["scores"]["languages"] = {f"{lang}-eng": rows[lang] for lang in rows} | {
            f"eng-{lang}": rows[lang] for lang in rows
        }
    study = Study(typed(results))
    assert study.languages[:8] == [f"{lang}-eng" for lang in LRLS] + [f"eng-{lang}" for lang in LRLS]
    wanted = [
        np.mean([trial["scores"]["languages"][f"eng-{lang}"]["bleu"] for lang in HRLS])
        for trial in finished(results, "uniform")
    ]
    assert study.by_seed("uniform", "bleu", "hrl") == pytest.approx(wanted)
    assert any(caption.startswith("Tables 2 and 3: ") for caption in page_of(results).tables)
