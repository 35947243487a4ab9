"""What a study and a sweep left on disk: read when it is whole, refused with place and way out when it is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_study import made_study, made_sweep

from cclm.report.study_files import read_study, read_sweep

READERS: dict[str, tuple[str, Callable[..., Any], Callable[[Path], dict[str, Any]]]] = {
    "study": ("results.json", made_study, read_study),
    "sweep": ("sweep.json", made_sweep, read_sweep),
}


@pytest.mark.parametrize("what", READERS)
def test_what_was_written_is_read(what: str, tmp_path: Path) -> None:
    name, made, read = READERS[what]
    (tmp_path / name).write_text(json.dumps(made()))
    assert read(tmp_path) == made()


def test_a_study_with_failed_trials_and_an_arm_without_any_result_is_read(tmp_path: Path) -> None:
    made = made_study(seeds=[1], failed=[("uniform", 1)])
    (tmp_path / "results.json").write_text(json.dumps(made))
    assert read_study(tmp_path)["arms"]["uniform"] == {"seeds": 0}


@pytest.mark.parametrize("what", READERS)
def test_a_folder_without_the_file_is_refused(what: str, tmp_path: Path) -> None:
    name, _, read = READERS[what]
    with pytest.raises(ValueError, match=rf"no {what} here: .* has no {name}; run `cclm {what}` first"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("[]", "expected an object, got list"),
        ("{}", "version None; this program reads 1"),
        ('{"version": 2}', "version 2; this program reads 1"),
        ('{"version": 1}', ": nothing there"),
    ],
)
@pytest.mark.parametrize("what", READERS)
def test_a_damaged_or_newer_file_is_refused(what: str, content: str, said: str, tmp_path: Path) -> None:
    name, _, read = READERS[what]
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}: .*{said}.* run `cclm {what}` again"):
        read(tmp_path)


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
        ("study/seeds", 5, "study.seeds: expected a list, got 5"),
        ("study/seeds", [1, "two"], "study.seeds[1]: expected a whole number, got 'two'"),
        ("study/name", 3, "study.name: expected a text, got 3"),
        ("comparisons/0/mean", float("nan"), "comparisons[0].mean: expected a finite number, got nan"),
        ("comparisons/0/primary", 1, "comparisons[0].primary: expected true or false, got 1"),
        ("comparisons/0/sentence", "absent", "comparisons[0].sentence: nothing there"),
        ("data/sizes", [], "data.sizes: expected an object, got []"),
        ("arms/uniform/bleu/all", "26", "arms.uniform.bleu.all: expected a finite number or null, got '26'"),
        ("trials/0/state", "asleep", "trials[0].state: expected 'finished' or 'failed', got 'asleep'"),
        ("trials/0/scores/languages/aze/bleu", None, "trials[0].scores.languages.aze.bleu: expected a finite number"),
        ("trials/0/scores", "absent", "trials[0].scores: nothing there"),
    ],
)
def test_a_value_of_another_shape_is_named_with_its_place(path: str, value: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(spoilt(made_study(), path, value)))
    with pytest.raises(ValueError, match=r"results\.json: ") as refused:
        read_study(tmp_path)
    assert said in str(refused.value)
    assert str(refused.value).endswith("run `cclm study` again: it makes the file anew from the runs")
