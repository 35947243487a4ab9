"""What a study makes of its trials: the same bytes for a study that was finished long ago, and averages over seeds."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpora import write_tsv
from small_study import RECIPE

from cclm.experiments.prepare import prepared_data
from cclm.experiments.study_comparisons import comparisons
from cclm.experiments.study_results import arm_on_average, scored_groups
from cclm.recipe import load_recipe
from cclm.recipe.study import load_study

FINISHED = Path(__file__).parent.parent.parent / "docs" / "studies" / "phrasebook" / "results.json"


@pytest.fixture(scope="module")
def finished() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FINISHED.read_text())
    return content


def groups_of(results: dict[str, Any]) -> dict[str, list[str]]:
    hrls, lrls = results["data"]["high_resource"], results["data"]["low_resource"]
    languages = list(results["trials"][0]["scores"]["languages"])
    return {"all": languages, "hrl": hrls, "lrl": lrls}


def test_a_finished_study_comes_to_the_same_bytes(finished: dict[str, Any]) -> None:
    study, groups = load_study("phrasebook"), groups_of(finished)
    found = comparisons(study, finished["trials"], groups, Path("nowhere"))
    assert json.dumps(found) == json.dumps(finished["comparisons"])
    trials = {arm: [trial for trial in finished["trials"] if trial["arm"] == arm] for arm in finished["arms"]}
    made = {arm: arm_on_average(its, groups) for arm, its in trials.items()}
    assert json.dumps(made) == json.dumps(finished["arms"])


def test_more_scores_are_averaged_over_seeds_where_all_have_them(finished: dict[str, Any]) -> None:
    groups = groups_of(finished)
    first, second, *_ = json.loads(json.dumps([one for one in finished["trials"] if one["arm"] == "proportional"]))
    for trial, factor in ((first, 1), (second, 3)):
        for n, row in enumerate(trial["scores"]["languages"].values()):
            row |= {"off_target": 0.01 * n * factor, "mine": 1.0 * factor}
    del first["scores"]["languages"][groups["lrl"][0]]["off_target"]
    for row in first["scores"]["languages"].values():
        row["once"] = 1.0  # a scorer that saw one seed alone
    found = arm_on_average([first, second], groups)["more_scores"]
    assert set(found) == {"off_target", "mine"}
    assert found["mine"] == {"all": 2.0, "hrl": 2.0, "lrl": 2.0, "languages": dict.fromkeys(groups["all"], 2.0)}
    there = {lang: 0.02 * n for n, lang in enumerate(groups["all"]) if lang != groups["lrl"][0]}
    assert found["off_target"]["languages"] == pytest.approx(there)
    for group, names in groups.items():
        inside = [there[lang] for lang in names if lang in there]
        assert found["off_target"][group] == pytest.approx(sum(inside) / len(inside))


def test_a_language_without_a_test_set_is_in_no_average(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    (tmp_path / "text" / "aze.test.tsv").unlink()
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(folder=tmp_path))
    recipe = load_recipe(str(tmp_path / "recipe.yaml"))
    groups = scored_groups(recipe, prepared_data(recipe))
    assert groups == {"all": ["tur"], "hrl": ["tur"], "lrl": []}
    trial = {"state": "finished", "scores": {"languages": {"tur": {"bleu": 9.0, "chrf": 30.0}}}}
    assert arm_on_average([trial], groups)["chrf"] == {"all": 30.0, "hrl": 30.0, "lrl": None, "worst": 30.0}
