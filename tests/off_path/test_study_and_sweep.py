"""Studies and sweeps in an order, and on recipes, that the paper does not have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from off_path.cli import STATIC, cclm, contents, copy_of, done, write_text

pytestmark = pytest.mark.slow
UNGATED = "curriculum.gate: {name: all}, curriculum.sampler: {name: temperature}"
SHORT = ["changes.benchmark.max_steps=1"]
STUDY = """version: 1
name: mini
recipe: recipe.yaml
changes: {benchmark.file: table.json, training.max_steps: 5}
seeds: [1, 2]
primary: [[ccl-m, proportional]]
endpoint: bleu
arms:
  proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 1}}
  ccl-m: {}
"""


def write_study(folder: Path) -> None:
    """Text, recipe, study, and a table in place of bitext models."""
    write_text(folder)
    (folder / "mini.yaml").write_text(STUDY)
    (folder / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 5.0, "aze": 5.0}}))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of which nothing is done."""
    folder = tmp_path_factory.mktemp("untrained")
    write_study(folder)
    return folder


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study of two arms and two seeds that is done, and what it printed in the end."""
    folder = tmp_path_factory.mktemp("studied")
    write_study(folder)
    return folder, done(folder, "study", "mini.yaml").stdout


@pytest.fixture
def folder(untrained: Path, tmp_path: Path) -> Path:
    """A copy of the study of which nothing is done."""
    return copy_of(untrained, tmp_path)


@pytest.fixture
def finished(studied: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the study that is done."""
    return copy_of(studied[0], tmp_path)


def results(folder: Path) -> dict[str, Any]:
    """results.json of the study."""
    content: dict[str, Any] = json.loads((folder / "work" / "studies" / "mini" / "results.json").read_text())
    return content


def test_a_sweep_goes_on_after_the_benchmark_was_extended(folder: Path) -> None:
    """Twenty steps of L* where there were ten: the sweep is done with the longer one."""
    done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=5")
    grid = ["--threshold", "0.3", "--aggregate", "max"]
    done(folder, "sweep", "recipe.yaml", "benchmark.max_steps=10", "training.max_steps=5", *grid)


def test_a_study_goes_on_after_its_runs_were_extended(finished: Path) -> None:
    """More steps for every trial: the same command trains the rest of them."""
    done(finished, "study", "mini.yaml", "changes.training.max_steps=10")
    assert {trial["steps"] for trial in results(finished)["trials"]} == {10}


def test_a_study_without_low_resource_languages_is_done(folder: Path) -> None:
    """There is no graph where there is nobody to admit, and arms with the gate `all` need none."""
    one_kind = ["changes.data.high_resource=[tur, aze]", "changes.data.low_resource=[]", "seeds=[1]", "primary=[]"]
    gate = "changes.curriculum.gate={name: all}"
    done(folder, "study", "mini.yaml", *one_kind, gate, "arms={one: {curriculum.sampler: {name: temperature, tau: 1}}}")


def test_two_models_without_a_point_of_bleu_exclude_no_gain(studied: tuple[Path, str]) -> None:
    """Scores that are all zero say nothing about a difference: no gain is said to be excluded."""
    folder = studied[0]
    assert all(trial["scores"]["means"]["all"] < 0.05 for trial in results(folder)["trials"])  # shown as 0.0
    report = (folder / "work" / "studies" / "mini" / "report.md").read_text()
    assert "can be excluded" not in report


def test_bounds_of_a_score_are_not_negative(finished: Path) -> None:
    """One sentence of twenty is translated, by a hand: BLEU lies between bounds of which neither is below 0."""
    run = finished / "work" / "runs" / "ccl-m.1"
    references = (run / "translations" / "test.tur-eng.reference.txt").read_text().splitlines()
    lines = [references[0], *("?" for _ in references[1:])]
    (run / "translations" / "test.tur-eng.txt").write_text("\n".join(lines) + "\n")
    score = json.loads(done(finished, "score", "work/runs/ccl-m.1", "--json").stdout)["languages"]["tur"]
    assert 0 <= score["bleu_low"] < score["bleu"] < score["bleu_high"]


def test_the_tokens_of_a_short_training_are_counted(studied: tuple[Path, str]) -> None:
    """Train events sum up 50 steps each; ten steps of at most 200 tokens are tokens too."""
    assert all(0 < trial["tokens"] <= 10 * 200 for trial in results(studied[0])["trials"])


def test_a_study_prints_its_result(studied: tuple[Path, str]) -> None:
    """The arms with their scores and what the primary comparison came to; the page comes last."""
    told = studied[1]
    assert re.search(r"^ccl-m\b.*\d\.\d", told, re.MULTILINE)
    assert re.search(r"^proportional\b.*\d\.\d", told, re.MULTILINE)
    assert told.splitlines()[-1] == "work/studies/mini/report.html"


def test_a_failed_trial_is_told_whole(finished: Path) -> None:
    """What was begun with other settings is told with its first line, which says so, and the setting below it."""
    result = cclm(finished, "study", "mini.yaml", "changes.curriculum.every=4")
    assert result.returncode == 1
    assert "curriculum.every" in result.stderr
    assert "was begun with other settings" in result.stderr


def test_two_studies_may_have_an_arm_of_the_same_name(finished: Path) -> None:
    """Their trials are runs of their own: both studies are done, and the first is as it was."""
    before = contents(finished / "work" / "studies" / "mini")
    arms = "arms={proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 5}}}"
    done(finished, "study", "mini.yaml", "name=second", arms, "primary=[]", "seeds=[1]")
    assert contents(finished / "work" / "studies" / "mini") == before


def test_a_finished_study_done_again_changes_nothing(finished: Path) -> None:
    """Everything is there: no training begins, no file changes."""
    before = contents(finished)
    done(finished, "study", "mini.yaml")
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("command", "losses"),
    [
        (["study", "mini.yaml"], "a table of your own\n"),
        (["sweep", "recipe.yaml"], "2 bitext models, 200% of one training\n"),
        (["study", "mini.yaml", "changes.benchmark.file=null", "changes.benchmark.method=multilingual", *SHORT],
         "1 multilingual model, 20% of one training\n"),
        (["sweep", "recipe.yaml", "benchmark={method: multilingual}"], "1 multilingual model, 10% of one training\n"),
    ],
    ids=["study", "sweep", "study-multilingual", "sweep-multilingual"],
)  # fmt: skip
def test_a_study_and_a_sweep_have_a_dry_run(folder: Path, command: list[str], losses: str) -> None:
    """How many trainings, steps and tokens it would take, and what of that is for L*; nothing is made."""
    before = contents(folder)
    told = done(folder, *command, "--dry-run").stdout
    assert re.search(r"\b(4|12) (trainings|trials|runs)\b", told)
    assert f"benchmark  {losses}" in told
    assert contents(folder) == before


def test_arms_of_a_study_may_have_reference_losses_of_their_own(folder: Path) -> None:
    trained = "benchmark: {method: multilingual, file: null, max_steps: 2}"
    short = f"  short: {{{trained}, curriculum.sampler: {{name: size-and-competence}}}}\n"
    none = f"  none: {{benchmark: {{method: none, file: null}}, {UNGATED}}}\n"
    (folder / "mini.yaml").write_text(STUDY.replace("[1, 2]", "[1]") + short + none)
    done(folder, "study", "mini.yaml")
    found = results(folder)
    assert found["benchmark"]["arms"].keys() == {"short", "none"}
    assert found["benchmark"]["arms"]["short"] > 0
    assert found["benchmark"]["arms"]["none"] is None
    (table,) = (folder / "work" / "cache" / "benchmark").glob("*/benchmark.json")
    made = {arm: json.loads((folder / f"work/runs/{arm}.1/made_from.json").read_text()) for arm in ("short", "ccl-m")}
    assert made["short"]["benchmark"] == json.loads(table.read_text())["losses"]
    assert made["ccl-m"]["benchmark"] == {"tur": 5.0, "aze": 5.0}
    again = done(folder, "study", "mini.yaml").stderr
    assert "step 5" not in again  # nothing is trained again


def test_a_static_method_trains_no_bitext_models(folder: Path) -> None:
    """Nothing needs L* there: the run is done without it, and its page has no competence."""
    done(folder, "run", "recipe.yaml", "training.max_steps=5", *STATIC)
    assert not (folder / "work" / "benchmark.json").exists()
    assert not (folder / "work" / "runs" / "bitext").exists()
