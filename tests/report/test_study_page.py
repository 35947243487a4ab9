"""The report of a study: every table there, its numbers those of the trials, its marks those of the statistics."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from made_run import EVIL
from made_study import HRLS, LRLS, PRIMARY, made_study, score

from cclm.paper import tables
from cclm.report.forest import forest
from cclm.report.paper_figures import ARMS, SAMPLERS, paper_figures
from cclm.report.study import Study
from cclm.report.study_page import study_markdown, study_page

SVG = "{http://www.w3.org/2000/svg}"


class Page(HTMLParser):
    """The tables of a page by caption, as rows of texts, and its words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.strong: set[str] = set()
        self.words = self.tag = self.caption = ""
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.tag = tag
        if tag == "h3":
            self.caption = ""
        elif tag == "tr":
            self.tables.setdefault(self.caption, []).append([])
        elif tag in ("td", "th"):
            self.tables[self.caption][-1].append("")
            self.best = "strong" in (dict(attrs).get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "sup":
            self.tag = "td"
        elif tag in ("td", "th"):
            if self.best:
                rows = self.tables[self.caption]
                self.strong.add(f"{self.caption}/{rows[-1][0]}/{rows[0][len(rows[-1]) - 1]}")
            self.tag = ""
        else:
            self.tag = ""

    def handle_data(self, data: str) -> None:
        self.words += data if self.tag not in ("style", "title") else ""
        if self.tag == "h3":
            self.caption += data
        elif self.tag in ("td", "th", "sup"):
            self.tables[self.caption][-1][-1] += data

    def column(self, caption: str, name: str) -> dict[str, str]:
        """One column of a table, by the name of the row."""
        (table,) = [rows for title, rows in self.tables.items() if title.startswith(caption)]
        place = table[0].index(name)
        return {row[0]: row[place] for row in table[1:]}


def page_of(results: dict[str, Any], **options: Any) -> Page:
    return Page(study_page(results, **options))


def finished(results: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    return [trial for trial in results["trials"] if trial["arm"] == arm and trial["state"] == "finished"]


def test_table_1_has_the_mean_and_the_spread_over_seeds_of_every_arm() -> None:
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


def test_into_many_languages_the_table_is_the_papers_third() -> None:
    results = made_study()
    results["data"]["direction"] = "one-to-many"
    assert any(caption.startswith("Table 3: ") for caption in page_of(results).tables)


def test_table_4_has_the_samplers_inside_the_curriculum_and_only_where_there_are_some() -> None:
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


def test_signs_stand_only_where_an_adjusted_primary_comparison_licenses_them() -> None:
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
    said = "† better than proportional; § better than ccl-m-avg, by a primary comparison (Holm-adjusted p < 0.05)."
    assert said in page.words


def test_primary_comparisons_come_first_with_their_sentence_and_adjusted_p() -> None:
    results = made_study()
    page = page_of(results)
    for first, second in PRIMARY:
        one = next(c for c in results["comparisons"] if [c["first"], c["second"]] == [first, second])
        assert f"{one['sentence']}." in page.words
        shown = page.column("Primary comparisons", "p, Holm")[f"{first} − {second}"]
        assert shown == (f"{one['holm']:.3f}" if one["holm"] >= 0.001 else "< 0.001")
        assert page.column("Primary comparisons", "chrF")[f"{first} − {second}"] == f"{one['mean']:+.2f}"


def test_every_difference_of_every_seed_is_listed() -> None:
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


def test_draws_epochs_admissions_and_losses_on_the_way_are_there() -> None:
    page = page_of(made_study())
    assert page.column("Micro-batches drawn", "bel")["tau-5"] == "711"
    assert page.column("Passes over the training data", "bel")["tau-5"] == "6.2"
    assert page.column("Admissions", "slk") == {
        f"{arm}, seed {seed}": "600"
        for arm in ("ccl-m-max", "ccl-m-avg", "gate-uniform", "gate-tau-5", "gate-proportional")
        for seed in (1, 2, 3, 4, 5)
    }
    assert "from the start in proportional, uniform, tau-5, multidds-s." in page.words
    assert page.column("Dev loss on the way", "at 50\u00a0%")["proportional"] == "4.900"
    assert page.column("Dev loss on the way", "at 100\u00a0%")["uniform"] == "–"
    assert "bitext" not in page.column("Dev loss on the way", "at 50\u00a0%")


def test_an_lrl_that_was_never_admitted_is_said_to_be_so() -> None:
    results = made_study()
    for trial in finished(results, "ccl-m-avg"):
        del trial["admissions"]["slk"]
    assert page_of(results).column("Admissions", "slk")["ccl-m-avg, seed 1"] == "never"


def test_the_cost_counts_l_star_and_seconds_only_where_somebody_took_the_time() -> None:
    results = made_study()
    page = page_of(results)
    # 4,915,200 tokens for the bitext models, 2,304,000 for a trial
    assert page.column("Cost", "L* beside it") == dict.fromkeys(results["study"]["arms"], "213\u00a0%") | {
        "bitext": "–"
    }
    assert "6,400 steps and 4.9 M target tokens" in page.words
    assert "seconds" not in page.tables["Cost of one trial, mean over seeds"][0]
    timed = page_of(results, seconds={"runs/uniform.1": 100.0, "runs/uniform.2": 300.0})
    assert timed.column("Cost", "seconds")["uniform"] == "200"
    assert timed.column("Cost", "seconds")["tau-5"] == "–"


def test_data_losses_and_similarities_are_there() -> None:
    results = made_study()
    page = page_of(results)
    assert page.column("Dataset statistics", "train")["aze"] == "4,500"
    assert page.column("Dataset statistics", "L*")["bel"] == "7.100"
    assert page.column("Similarities", "aze") == {"tur": "0.60", "rus": "0.12", "por": "0.14", "ces": "0.16"}
    assert {f"Similarities/{hrl}/{lrl}" for hrl, lrl in zip(HRLS, LRLS, strict=True)} <= page.strong


def test_the_papers_numbers_stand_beside_ours_where_the_recipe_is_the_papers() -> None:
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
def test_a_recipe_of_the_papers_is_known_by_its_name_or_its_file(recipe: str) -> None:
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


def test_one_seed_has_no_interval_and_no_p() -> None:
    page = page_of(made_study(seeds=[3]))
    assert set(page.column("Primary comparisons", "95\u00a0% interval").values()) == {"–"}
    assert set(page.column("Primary comparisons", "p, Holm").values()) == {"–"}
    assert "±" not in page.column("Table 1", "BLEU")["uniform"]
    assert "seed 3, on the recipe" in page.words
    assert "One seed gives no interval and no p" in page.words
    assert "±" not in page.words
    assert "Line: " not in page.words


def test_few_seeds_are_said_to_be_few() -> None:
    assert "3 seeds are few" in page_of(made_study(seeds=[1, 2, 3])).words
    assert "seeds are few" not in page_of(made_study()).words


def test_failed_trials_are_named_with_their_reason() -> None:
    page = page_of(made_study(failed=[("uniform", 2), ("tau-5", 4)]))
    assert page.tables["Failed trials"][1:] == [
        ["uniform", "2", "runs/uniform.2", "loss is not finite at step 310"],
        ["tau-5", "4", "runs/tau-5.4", "loss is not finite at step 310"],
    ]
    assert page.column("Table 1", "seeds")["uniform"] == "4"
    assert "44 of 46 trials finished" in page.words
    assert "Failed trials" not in page_of(made_study()).tables


def test_an_arm_without_any_finished_trial_has_dashes() -> None:
    results = made_study(failed=[("uniform", seed) for seed in (1, 2, 3, 4, 5)])
    page = page_of(results)
    assert page.column("Table 1", "BLEU")["uniform"] == "–"
    del results["arms"]["uniform"]
    assert page_of(results).column("Table 1", "BLEU")["uniform"] == "–"


def test_a_study_of_which_nothing_finished_still_has_a_page() -> None:
    results = made_study(arms=["uniform"], seeds=[1], failed=[("uniform", 1), ("bitext", 1)], primary=[["a", "b"]])
    page = page_of(results)
    assert "No trial has finished" in page.words
    assert "not to be had from the trials that finished: a − b." in page.words
    assert "Nothing to compare" in page.words


def test_without_primary_comparisons_all_are_exploratory() -> None:
    page = page_of(made_study(primary=[]))
    assert "No comparison was declared before the run" in page.words
    assert "Bold: primary" not in page.words
    assert not any(mark.endswith("/first − second") for mark in page.strong)


def test_the_forest_plot_puts_every_mean_and_interval_where_it_belongs() -> None:
    results = made_study()
    root = ElementTree.fromstring(forest(Study(results)))
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
    root = ElementTree.fromstring(forest(Study(results)))
    labels = [one.text or "" for one in root.iter(f"{SVG}text")]
    pairs = [label for label in labels if "…" in label]
    assert len(set(pairs)) == 29  # cut short, and yet told apart
    assert max(map(len, pairs)) <= 34


def test_more_languages_than_a_page_is_wide_go_down_it() -> None:
    lrls = [f"l{i:02}" for i in range(20)]
    page = page_of(made_study(lrls=lrls, arms=["proportional", "ccl-m-avg"], primary=[]))
    assert page.tables["BLEU of each language"][0] == ["language", "proportional", "ccl-m-avg", "bitext"]
    assert len(page.tables["BLEU of each language"]) == 25


def test_tasks_between_a_language_and_the_pivot_are_on_the_side_of_their_language() -> None:
    results = made_study(arms=["uniform"], primary=[])
    results["data"]["direction"] = "many-to-many"
    for trial in results["trials"]:
        rows = trial["scores"]["languages"]
        trial["scores"]["languages"] = {f"{lang}-eng": rows[lang] for lang in rows} | {
            f"eng-{lang}": rows[lang] for lang in rows
        }
    study = Study(results)
    assert study.languages[:8] == [f"{lang}-eng" for lang in LRLS] + [f"eng-{lang}" for lang in LRLS]
    wanted = [
        np.mean([trial["scores"]["languages"][f"eng-{lang}"]["bleu"] for lang in HRLS])
        for trial in finished(results, "uniform")
    ]
    assert study.by_seed("uniform", "bleu", "hrl") == pytest.approx(wanted)
    assert any(caption.startswith("Tables 2 and 3: ") for caption in page_of(results).tables)


def evil_study() -> dict[str, Any]:
    """A study in which every text tries to become markup."""
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


def test_nothing_that_the_results_say_becomes_markup() -> None:
    page = page_of(evil_study())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.words.count(EVIL) > 20
    markdown = study_markdown(evil_study())
    assert "<script" not in markdown
    assert "<img" not in markdown
    ElementTree.fromstring(forest(Study(evil_study())))


def test_markdown_says_the_same_as_the_page() -> None:
    results = made_study()
    text, page = study_markdown(results), page_of(results)
    assert re.findall(r"^### (.*)$", text, flags=re.MULTILINE) == [
        caption.replace("*", r"\*") for caption in page.tables
    ]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ccl-m-avg |")]
    shown = [row for rows_ in page.tables.values() for row in rows_ if row[0] == "ccl-m-avg"]
    bare = [[re.sub(r"[*\\]", "", cell) for cell in row] for row in rows]
    assert bare == [[cell.replace("\u00a0", " ") for cell in row] for row in shown]
    assert "forest.svg" not in text
    assert "](pictures/forest.svg)" in study_markdown(results, pictures="pictures")


def test_the_page_is_equal_to_the_byte_for_equal_results() -> None:
    assert study_page(made_study()) == study_page(made_study())
