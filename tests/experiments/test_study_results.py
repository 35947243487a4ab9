"""What a study makes of its trials: the same bytes for a study that was finished long ago, and averages over seeds."""

from pathlib import Path

import pytest
from corpora import write_tsv
from small_study import RECIPE

from cclm.experiments.pipeline import Pipeline
from cclm.experiments.study_results import arm_on_average, comparisons, scored_groups
from cclm.formats.study import StudyResults, Trial
from cclm.recipe import load_recipe
from cclm.recipe.study import load_study

FINISHED = Path(__file__).parent.parent.parent / "docs" / "studies" / "phrasebook" / "results.json"


@pytest.fixture(scope="module")
def finished() -> StudyResults:
    return StudyResults.read(FINISHED)


def groups_of(results: StudyResults) -> dict[str, list[str]]:
    scores = results.trials[0].scores
    assert scores is not None
    return {"all": list(scores.languages), "hrl": results.data.high_resource, "lrl": results.data.low_resource}


def test_a_finished_study_comes_to_the_same_bytes(finished: StudyResults) -> None:
    groups = groups_of(finished)
    found = comparisons(load_study("phrasebook"), finished.trials, groups, Path("nowhere"))
    trials = {arm: [trial for trial in finished.trials if trial.arm == arm] for arm in finished.arms}
    made = {arm: arm_on_average(its, groups) for arm, its in trials.items()}
    again = finished.model_copy(update={"comparisons": found, "arms": made})
    assert again.text() == FINISHED.read_text(encoding="utf-8")


def test_more_scores_are_averaged_over_seeds_where_all_have_them(finished: StudyResults) -> None:
    groups = groups_of(finished)
    first, second, *_ = [one.plain() for one in finished.trials if one.arm == "proportional"]
    for trial, factor in ((first, 1), (second, 3)):
        for n, row in enumerate(trial["scores"]["languages"].values()):
            row |= {"off_target": 0.01 * n * factor, "mine": 1.0 * factor}
    del first["scores"]["languages"][groups["lrl"][0]]["off_target"]
    for row in first["scores"]["languages"].values():
        row["once"] = 1.0  # a scorer that saw one seed alone
    arm = arm_on_average([Trial.model_validate(first), Trial.model_validate(second)], groups)
    found = arm.plain()["more_scores"]
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
    pipeline = Pipeline(recipe)
    pipeline.walk(("prepare",))
    groups = scored_groups(recipe, pipeline.data)
    assert groups == {"all": ["tur"], "hrl": ["tur"], "lrl": []}
    scores = {"languages": {"tur": {"bleu": 9.0, "chrf": 30.0}}}
    trial = Trial.model_validate({"arm": "a", "seed": 1, "run": "runs/a.1", "state": "finished", "scores": scores})
    chrf = arm_on_average([trial], groups).plain()["chrf"]
    assert chrf == {"all": 30.0, "hrl": 30.0, "lrl": None, "worst": 30.0}
