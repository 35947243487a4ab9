"""The `tune` section of a study: what may stand there, and the study that follows from a choice."""

import math
from pathlib import Path

import pytest
from small_study import write_study

from cclm.curriculum import Temperature
from cclm.errors import ConfigError
from cclm.experiments.tuning import lowest
from cclm.recipe.study import Study, load_study, plain

ARMS = """  bitext: {}
  placebo: {curriculum.gate: {name: step}}
after: {placebo: [ccl-m]}
"""
TUNE = """tune:
  arms:
    ccl-m: {curriculum.gate.threshold: [0.3, 0.2]}
    uniform: {curriculum.sampler.tau: [.inf, 1]}
"""


def study(folder: Path, *changes: str) -> Study:
    return load_study(str(write_study(folder, ARMS + TUNE)), changes)


def test_every_try_is_a_run_whose_name_no_trial_can_have(tmp_path: Path) -> None:
    tune = study(tmp_path).tune
    assert tune is not None
    names = ["ccl-m-threshold-0.3.0", "ccl-m-threshold-0.2.0", "uniform-tau-inf.0", "uniform-tau-1.0"]
    assert [tried.name for tried in tune.tries()] == names
    assert study(tmp_path, "tune=null").tune is None


def test_a_tuned_study_differs_in_the_chosen_keys_alone(tmp_path: Path) -> None:
    before = study(tmp_path)
    tuned = before.tuned({"ccl-m": 0.2, "uniform": 1})
    assert tuned.tune is None
    assert {arm for arm in before.arms if tuned.arms[arm] != before.arms[arm]} == {"ccl-m", "uniform"}
    old, new = before.recipe_of("ccl-m", 1), tuned.recipe_of("ccl-m", 1)
    assert (old.curriculum.gate.threshold, new.curriculum.gate.threshold) == (0.3, 0.2)  # type: ignore[union-attr]
    assert new.model_copy(update={"curriculum": old.curriculum}) == old
    assert tuned.recipe_of("uniform", 1).curriculum.sampler.build() == Temperature(1)
    assert before.arms["ccl-m"] == {}  # as it was


@pytest.mark.parametrize(
    "arm",
    [
        "{curriculum.gate.threshold: 0.9, curriculum.gate: {name: competence, threshold: 0.8}}",
        "{curriculum: {gate: {aggregate: max, threshold: 0.8}}}",
    ],
)
def test_the_chosen_value_holds_whatever_the_arm_says_of_it(tmp_path: Path, arm: str) -> None:
    tuned = study(tmp_path, f"arms.ccl-m={arm}").tuned({"ccl-m": 0.2})
    assert tuned.recipe_of("ccl-m", 1).curriculum.gate.threshold == 0.2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tune.seed=2", r"tune\.seed 2 is one of the seeds; choose another, so that values are not"),
        ("tune.arms={}", r"tune\.arms"),
        ("tune.arms.nobody={seed: [1, 2]}", r"tune\.arms: no arm 'nobody'; the arms are uniform, ccl-m"),
        (
            "tune.arms.bitext={seed: [1, 2]}",
            r"tune\.arms: bitext means the bitext models, which cannot be tuned; remove",
        ),
        ("tune.arms.placebo={curriculum.every: [5, 6]}", r"placebo depends on ccl-m and cannot be tuned; tune that"),
        ("tune.arms.ccl-m={}", r"tune must name one key for ccl-m, as in \{curriculum.*\}; got none"),
        ("tune.arms.ccl-m={curriculum.every: [5, 6], seed: [1, 2]}", r"one key for ccl-m.*got curriculum.every, seed"),
        (
            "tune.arms.ccl-m={curriculum.every: [5, 6, 7]}",
            r"must have the same number of values for each arm; ccl-m has 3, uniform has 2",
        ),
        ("tune.arms.ccl-m={curriculum.every: [5]}", r"tune must have at least two values for ccl-m"),
        (
            "tune.arms.ccl-m={curriculum.every: [5, 5]}",
            r"distinct values: two of them have the run name ccl-m-every-5\.0",
        ),
        (
            "tune.arms.ccl-m={vocabulary.pieces: [100, 200]}",
            r"vocabulary\.pieces decides the prepared data or L\*, which all values share.*an arm for each value",
        ),
        ("tune.arms.ccl-m={benchmark.max_steps: [5, 6]}", r"benchmark\.max_steps decides the prepared data or L\*"),
        ("tune.arms.ccl-m={curriculum.every: [5, 5.0]}", r"ccl-m: curriculum\.every: 5 and 5\.0 are the same run"),
        ("tune.arms.ccl-m={seed: [5, 6]}", r"ccl-m: seed: 5 and 6 are the same run; use distinct values"),
        (
            "tune.arms.ccl-m={curriculum.every: [5, [6]]}",
            r"must have numbers or strings as values for ccl-m, .*every; got \[6\]",
        ),
        (
            "tune.arms.ccl-m={curriculum.every: [5, 0]}",
            r"ccl-m: curriculum\.every cannot be 0: .*greater than or equal",
        ),
        ("tune.arms.uniform={curriculum.gate.threshold: [0.5, 1]}", r"uniform: .* cannot be 0\.5: .*unknown key"),
        ("tune.arms.ccl-m=5", r"tune\.arms\.ccl-m must be a section: keys and their values; got 5"),
        ("tune.sed=1", r"unknown key 'tune\.sed'; did you mean 'seed'\?"),
    ],
)
def test_a_tuning_that_cannot_be_is_refused(tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        study(tmp_path, change)


def test_of_equal_losses_the_first_is_taken() -> None:
    assert lowest([2.0, 1.5, 1.5, 3.0]) == 1


def test_infinity_is_written_as_in_yaml() -> None:
    assert plain({"tau": [[0, math.inf], (5, 1)], "name": "x"}) == {"tau": [[0, ".inf"], [5, 1]], "name": "x"}


@pytest.mark.slow
def test_the_papers_study_gives_tau_as_many_tries_as_every_threshold() -> None:
    paper = load_study("paper")
    assert paper.tune is not None
    assert {key for keys in paper.tune.arms.values() for key in keys} == {
        "curriculum.gate.threshold",
        "curriculum.sampler.tau",
    }
    assert len(paper.tune.tries()) == 36
    text = (Path(__file__).parent.parent.parent / "src" / "cclm" / "recipe" / "studies" / "paper.yaml").read_text()
    assert f"{len(paper.arms) * len(paper.seeds)} trials after {len(paper.tune.tries())} trainings" in text
