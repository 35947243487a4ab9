"""`--dry-run`: what would be done and what it would cost; and nothing is touched."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from corpora import write_tsv
from small_recipe import prepared as prepared_of
from small_recipe import recipe
from trained_run import trained_run
from warm_commands import warm

from cclm.cli.dry_run import print_plan
from cclm.data.batches import Batches
from cclm.data.prepare import Plan, prepare
from cclm.errors import TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.cost import parameters
from cclm.experiments.pipeline import STAGES, Pipeline
from cclm.model.transformer import Transformer
from cclm.recipe.schema import Recipe
from cclm.report.pages import run_report
from cclm.training.building import shape_of
from cclm.training.provenance import losses_of_run
from cclm.training.tasks import tasks

BENCHMARK = ("prepare", "benchmark")
TRAIN = ("prepare", "graph", "benchmark", "train")


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "text", train=100)
    return tmp_path


def facts(settings: Recipe, capsys: pytest.CaptureFixture[str], stages: Sequence[str] = STAGES) -> dict[str, Any]:
    """What it says, as JSON; it has changed nothing."""
    before = snapshot(Path(settings.work).parent)
    capsys.readouterr()
    print_plan(settings, stages, as_json=True)
    assert snapshot(Path(settings.work).parent) == before
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def to_do(found: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in found["stages"] if stage["to_do"]]


def test_before_anything_is_there_full_batches_are_assumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = recipe(folder, "benchmark.max_steps=5", "training.accumulate=3")
    found = facts(settings, capsys)
    assert to_do(found) == ["prepare", "graph", "benchmark", "train", "translate", "score", "report"]
    # Four bitext models of 5 steps and one of 20; a step is 3 batches of 200 tokens.
    assert found["steps"] == 4 * 5 + 20
    assert found["target_tokens"] == (4 * 5 + 20) * 3 * 200
    assert found["benchmark_share"] == 0.5
    assert found["estimated"]
    both = recipe(folder, "data.direction=many-to-many", "vocabulary.joint=true", "benchmark.max_steps=5")
    assert facts(both, capsys, BENCHMARK)["steps"] == 8 * 5
    losses = dict.fromkeys(settings.data.languages, 5.0)
    (folder / "losses.json").write_text(json.dumps({"version": 1, "losses": losses}))
    given = recipe(folder, f"benchmark.file={folder / 'losses.json'}")
    assert facts(given, capsys, TRAIN)["benchmark_share"] == 0
    assert not (folder / "work").exists()


def test_prepared_the_tokens_are_those_of_real_batches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, data = recipe(folder), prepared_of(folder)
    means = []
    for task in tasks(settings.data, data).values():
        batches = Batches(data.corpus(task.language, "train"), task.direction, language=task.name, seed=1, budget=200)
        means.append(sum(batches.batch(i).target_tokens for i in range(len(batches))) / len(batches))
    found = facts(settings, capsys, TRAIN)
    assert to_do(found) == ["graph", "benchmark", "train"]
    cost = {stage["stage"]: stage["target_tokens"] for stage in found["stages"]}
    assert cost["benchmark"] == round(20 * sum(means))
    assert cost["train"] == round(20 * sum(means) / 4)
    assert found["benchmark_share"] == pytest.approx(0.8, abs=1e-3)
    assert to_do(facts(settings, capsys, BENCHMARK)) == ["benchmark"]


@pytest.mark.parametrize(
    "changes", [[], ["data.direction=one-to-many"], ["data.direction=many-to-many", "vocabulary.joint=true"]]
)
def test_parameters_are_those_of_the_model(folder: Path, changes: list[str]) -> None:
    settings = recipe(folder, *changes, "model.layers=2", "model.feed_forward=24")
    assert parameters(settings, None) > 0
    data = prepare(Plan(settings.data, settings.vocabulary), settings.prepared, workers=1)
    model = Transformer(shape_of(settings, data), 1)
    assert parameters(settings, data) == sum(weight.numel() for weight in model.parameters())
    assert parameters(settings, None) >= parameters(settings, data)  # the text supports no more pieces than asked for


@pytest.mark.slow
def test_of_a_run_that_is_there_the_rest_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = folder / "losses.json"
    table.write_text(json.dumps({"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}))
    changes = [f"benchmark.file={table}"]
    settings = recipe(folder, *changes)
    run = trained_run(folder, *changes)
    Pipeline(settings).walk(("prepare", "graph"))
    assert to_do(facts(settings, capsys)) == ["translate", "score", "report"]
    Evaluation(run).score()
    run_report(run)
    found = facts(settings, capsys)
    assert (to_do(found), found["steps"], found["benchmark_share"]) == ([], 0, None)
    longer = facts(recipe(folder, *changes, "training.max_steps=35"), capsys)
    assert to_do(longer) == ["train", "translate", "score", "report"]
    assert longer["steps"] == 15
    greedy = facts(recipe(folder, *changes, "translation.beam=1"), capsys)
    assert to_do(greedy) == ["translate", "score", "report"]
    with pytest.raises(TrainingError, match="was begun with other settings"):
        print_plan(recipe(folder, *changes, "model.width=32"), STAGES, as_json=True)


@pytest.mark.slow
def test_a_run_keeps_the_losses_that_it_was_begun_with(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, losses = trained_run(folder), dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)
    longer = recipe(folder, "training.max_steps=35")  # of the bitext models, too: but they are not trained again
    assert losses_of_run(run, longer) == losses
    assert to_do(facts(longer, capsys, TRAIN)) == ["graph", "train"]
    assert losses_of_run(run, recipe(folder, "benchmark.max_steps=7")) is None
    assert losses_of_run(run, recipe(folder, "benchmark.file=x.json")) is None
    (run / "made_from.json").write_text("{")
    assert losses_of_run(run, longer) is None
    with pytest.raises(TrainingError, match=r"made_from.json: damaged; give the run another name"):
        print_plan(longer, TRAIN, as_json=True)


def cclm(*arguments: str) -> str:
    done = warm(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_commands_tell_it_to_people_and_to_programs(tmp_path: Path) -> None:
    work = f"work={tmp_path}/work"
    told = cclm("run", "phrasebook", work, "--dry-run")
    assert "benchmark  would train: 8 bitext models, at most " in told
    assert "of them for L*" in told
    assert "parameters" in told
    assert list(json.loads(cclm("train", "phrasebook", work, "--dry-run", "--json"))) == list(
        json.loads(cclm("benchmark", "phrasebook", work, "--dry-run", "--json"))
    )
    assert list(tmp_path.iterdir()) == []
