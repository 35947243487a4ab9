"""results.json and sweep.json: an incomplete file is refused with the field and a remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
from made_study import made_study, made_sweep, typed

from cclm.errors import DataError
from cclm.formats.study import StudyResults
from cclm.formats.sweep import Sweep


def test_every_value_of_a_sweep_is_read(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps(made_sweep()))
    assert Sweep.read(tmp_path / "sweep.json").plain() == {k: v for k, v in made_sweep().items() if k != "version"}


def test_every_value_of_a_study_is_read(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(made_study()))
    read = StudyResults.read(tmp_path / "results.json").plain()
    assert read == {name: value for name, value in made_study().items() if name != "version"}


def test_a_study_with_failed_trials_and_an_arm_without_any_result_is_read() -> None:
    results = typed(made_study(seeds=[1], failed=[("uniform", 1)]))
    assert results.arms["uniform"].plain() == {"seeds": 0}
    assert [trial.arm for trial in results.trials if not trial.is_finished] == ["uniform"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("[]", "expected an object, got list"),
        ('{"version": 2}', "version 2; this program reads 1"),
        ('{"version": 1}', "recipe is missing"),
    ],
)
def test_a_damaged_or_newer_sweep_is_refused(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(DataError, match=f"sweep.json: .*{said}.*; run `cclm sweep` again"):
        Sweep.read(tmp_path / "sweep.json")


def spoilt(results: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The results with another value at this place, or without it."""
    *way, last = path.split("/")
    inner: Any = results
    for step in way:
        inner = inner[int(step) if step.isdecimal() else step]
    if value == "absent":
        del inner[last]
    else:
        inner[last] = value
    return results


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("study/seeds", 5, "study.seeds: expected a valid list, got 5"),
        ("study/seeds", [1, "two"], "study.seeds[1]: expected a valid integer, got 'two'"),
        ("study/name", 3, "study.name: expected a valid string, got 3"),
        ("comparisons/0/mean", float("nan"), "comparisons[0].mean: expected a finite number, got nan"),
        ("comparisons/0/primary", 1, "comparisons[0].primary: expected a valid boolean, got 1"),
        ("comparisons/0/sentence", "absent", "comparisons[0].sentence is missing"),
        ("data/sizes", [], "data.sizes: expected a valid dictionary, got []"),
        ("arms/uniform/bleu/all", "26", "arms.uniform.bleu.all: expected a valid number, got '26'"),
        ("trials/0/state", "asleep", "trials[0].state: expected 'finished' or 'failed', got 'asleep'"),
        (
            "trials/0/scores/languages/aze/bleu",
            None,
            "scores.languages.aze.bleu: expected a valid number, got None",
        ),
        ("trials/0/scores/languages/aze/chrf", "absent", "expected scores.languages.aze.chrf in a finished trial"),
        ("trials/0/scores", "absent", "trials[0]: expected scores in a finished trial"),
    ],
)
def test_a_value_of_another_shape_is_named_with_its_place(path: str, value: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(spoilt(made_study(), path, value)))
    with pytest.raises(DataError, match=r"results\.json: ") as refused:
        StudyResults.read(tmp_path / "results.json")
    assert said in str(refused.value)
    assert str(refused.value).endswith("run `cclm study` again: it rewrites the file from the runs")
