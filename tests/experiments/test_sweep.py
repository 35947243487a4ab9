"""A sweep: every threshold trained, shared beginnings once; the choice by weighted dev loss."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command import assert_done, assert_refused, cclm
from small_recipe import events
from small_study import write_study

from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.sweep import grid_recipes, sweep
from cclm.formats.run import read_settings
from cclm.recipe import Recipe, load_recipe
from cclm.report.pages import write_sweep

pytestmark = pytest.mark.slow
THRESHOLDS = (0.2, 0.4, 9.0, 10.0)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("sweep")
    write_study(folder)
    return load_recipe(str(folder / "recipe.yaml"))


@pytest.fixture(scope="module")
def swept(settings: Recipe) -> dict[str, Any]:
    page = sweep(settings, THRESHOLDS, ("max", "avg"))
    assert page == Path(settings.work) / "sweeps" / "small" / "report.html"
    content: dict[str, Any] = json.loads(page.with_name("sweep.json").read_text())
    return content


def run_of(settings: Recipe, leaf: dict[str, Any]) -> Path:
    return Path(settings.work) / str(leaf["run"])


def test_every_leaf_is_a_finished_run(settings: Recipe, swept: dict[str, Any]) -> None:
    assert [(leaf["aggregate"], leaf["threshold"]) for leaf in swept["leaves"]] == [
        (aggregate, threshold) for aggregate in ("max", "avg") for threshold in THRESHOLDS
    ]
    for leaf in swept["leaves"]:
        run = run_of(settings, leaf)
        gate = read_settings(run / "config.yaml")["curriculum"]["gate"]
        assert (gate["aggregate"], gate["threshold"]) == (leaf["aggregate"], leaf["threshold"])
        validations = {event["step"]: event["weighted"] for event in events(run, "validation")}
        assert leaf["weighted"] == min(validations.values())
        assert leaf["admissions"] == {event["language"]: event["step"] for event in events(run, "admitted")}
    best = min(swept["leaves"], key=lambda leaf: leaf["weighted"])
    assert swept["chosen"] == {name: best[name] for name in ("threshold", "aggregate")}


def test_no_step_is_trained_twice(settings: Recipe, swept: dict[str, Any]) -> None:
    """With one HRL, max and avg are the same; 9 and 10 never open."""
    steps = swept["steps"]
    assert steps["trained"] == steps["fewest"]
    assert steps["independent"] == 60 * 8
    opened = sorted({leaf["admissions"].get("aze", 60) for leaf in swept["leaves"]})
    assert steps["trained"] == 60 + sum(60 - step for step in opened[:-1])
    apart = [leaf for leaf in swept["leaves"] if leaf["same_as"] is None]
    assert len(apart) == len(opened)
    for leaf in swept["leaves"]:
        assert (run_of(settings, leaf) / "scores.json").exists() == (leaf["same_as"] is None)
        assert leaf["bleu"] is not None


def test_done_again_nothing_is_trained(settings: Recipe, swept: dict[str, Any]) -> None:
    runs = Path(settings.work) / "runs"
    stamps = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    page = sweep(settings, THRESHOLDS, ("max", "avg"))
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()} == stamps
    assert write_sweep(page.parent) == page
    assert (page.parent / "figure-2.svg").read_text().startswith("<svg")


def test_a_rival_is_drawn_across(settings: Recipe, swept: dict[str, Any]) -> None:
    rival = run_of(settings, swept["leaves"][0])
    page = sweep(settings, THRESHOLDS, ("max", "avg"), rival=rival)
    found = json.loads(page.with_name("sweep.json").read_text())["rival"]
    assert found["name"] == "small-max-0.2"
    assert found["bleu"] == Evaluation(rival).score().means.all
    assert found["weighted"] == swept["leaves"][0]["weighted"]


def test_a_threshold_that_is_added_is_trained_by_itself(settings: Recipe, swept: dict[str, Any]) -> None:
    page = sweep(settings, (*THRESHOLDS, 0.3), ("max",))
    found = json.loads(page.with_name("sweep.json").read_text())
    assert found["leaves"][:4] == swept["leaves"][:4]
    assert found["leaves"][4]["steps"] == 60
    assert not (run_of(settings, found["leaves"][4]) / "origin.json").exists()


def test_a_leaf_that_fails_is_named(settings: Recipe, swept: dict[str, Any]) -> None:
    (Path(settings.work) / "runs" / "small-avg-0.5").write_text("a file where a folder should be")
    with pytest.raises(
        TrainingError,
        match=r"1 of 1 runs failed or were not started; run the same command to continue with them\n  small-avg-0.5: ",
    ):
        sweep(settings, (0.5,), ("avg",))


def test_no_other_leaf_takes_the_place_of_one_that_was_killed(
    settings: Recipe, swept: dict[str, Any], tmp_path: Path
) -> None:
    """After a kill of the training process alone, the command ends; started again, it makes the same tree."""
    write_study(tmp_path)
    work = Path(settings.work)
    shutil.copytree(work / "cache" / "benchmark", tmp_path / "work" / "cache" / "benchmark", symlinks=True)
    grid = [f"--threshold={threshold:g}" for threshold in THRESHOLDS]
    killed = cclm(
        "sweep", "recipe.yaml", *grid, folder=tmp_path, environment={"CCLM_FAULT_AT": "save:after_rename,2,SIGKILL"}
    )
    assert_refused(killed, "small-max-0.2: killed by SIGKILL", "small-max-10: not started", codes=[1])
    begun = [path.name for path in (tmp_path / "work" / "runs").iterdir()]
    assert "small-max-0.2" in begun
    assert "small-max-10" not in begun  # it shares the training of small-max-0.2 or of small-max-9
    assert_done(cclm("sweep", "recipe.yaml", *grid, folder=tmp_path))
    found = json.loads((tmp_path / "work" / "sweeps" / "small" / "sweep.json").read_text())
    assert found["leaves"] == swept["leaves"]
    assert found["steps"] == swept["steps"]


@pytest.mark.parametrize(("thresholds", "aggregates"), [((), ("avg",)), ((0.5, 0.5), ("avg",)), ((0.5,), ())])
def test_a_grid_without_sense_is_refused(settings: Recipe, thresholds: Any, aggregates: Any) -> None:
    with pytest.raises(ConfigError, match="at least one value each, and no value twice"):
        sweep(settings, thresholds, aggregates)


def test_leaves_keep_the_confidence_of_the_recipes_gate(tmp_path: Path) -> None:
    wanted = load_recipe("phrasebook", [f"work={tmp_path}", "curriculum.gate.confidence=2"])
    other = load_recipe("phrasebook", [f"work={tmp_path}", "curriculum.gate={name: all}"])
    assert [each.curriculum.gate.confidence for each in grid_recipes(wanted, [0.5], ["avg"])] == [2.0]  # type: ignore[union-attr]
    assert [each.curriculum.gate.confidence for each in grid_recipes(other, [0.5], ["avg"])] == [0.0]  # type: ignore[union-attr]
