"""The loop: the second phase, every method and direction, losses that are not finite."""

from pathlib import Path

import pytest
import torch
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe

from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.formats.run import NotFinite
from cclm.training.session import train
from cclm.training.tasks import tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trainer")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    torch.set_num_threads(1)
    return prepared(folder)


def test_patience_used_up_with_candidates_left_begins_the_second_phase(folder: Path, data: Prepared) -> None:
    settings = recipe(
        folder, "curriculum.gate.threshold=99", "training.patience=1", "training.max_steps=30",
        "training.validate_every=1", "training.learning_rate=1e-30", "curriculum.every=2",
    )  # fmt: skip
    run = folder / "phases"
    assert train(settings, data, GRAPH, BENCHMARK, run) == "no better in 1 validations"
    kinds = [event["event"] for event in events(run)]
    assert kinds.count("phase") == 1
    phase = next(event for event in events(run) if event["event"] == "phase")
    assert phase["admitted"] == ["aze", "glg"]
    after = next(e for e in events(run) if e["event"] == "probe" and e["step"] > phase["step"])
    assert set(after["weights"]) == {"tur", "por", "aze", "glg"}


@pytest.mark.parametrize("sampler", ["{name: temperature, tau: 1}", "{name: chi-square}"])
def test_static_and_loss_driven_methods_train_in_the_same_loop(folder: Path, data: Prepared, sampler: str) -> None:
    settings = recipe(folder, "curriculum.gate={name: all}", f"curriculum.sampler={sampler}")
    run = folder / f"method-{len(sampler)}"
    assert train(settings, data, GRAPH, BENCHMARK, run) == "all steps are done"
    probes = [event for event in events(run) if event["event"] == "probe"]
    assert len(probes) == 4
    assert all(set(event["competence"]) == {"tur", "por", "aze", "glg"} for event in probes)


def test_one_to_many_trains(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "data.direction=one-to-many")
    assert train(settings, data, GRAPH, BENCHMARK, folder / "o2m") == "all steps are done"


def test_many_to_many_trains_with_one_vocabulary(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "data.direction=many-to-many", "vocabulary.joint=true", f"work={folder}/joint")
    joint = prepare(Plan(settings.data, settings.vocabulary), settings.prepared, workers=1)
    losses = dict.fromkeys(tasks(settings.data, joint), 4.0)
    assert train(settings, joint, GRAPH, losses, folder / "m2m") == "all steps are done"
    with pytest.raises(ConfigError, match=r"many-to-many needs vocabulary\.joint: true"):
        recipe(folder, "data.direction=many-to-many")


def test_bf16_trains(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "training.precision=bf16")
    assert train(settings, data, GRAPH, BENCHMARK, folder / "bf16") == "all steps are done"


def test_a_loss_that_is_not_finite_is_never_applied(folder: Path, data: Prepared) -> None:
    # A learning rate of 1e30 makes the weights overflow at once; from then on no step is taken.
    settings = recipe(folder, "training.learning_rate=1e30", "training.warmup=0", "training.max_steps=500")
    with pytest.raises(TrainingError, match=r"loss or gradient not finite in 10 steps in a row.*not-finite\.json"):
        train(settings, data, GRAPH, BENCHMARK, folder / "nan")
    batches = NotFinite.read(folder / "nan" / "not-finite.json").batches
    assert len({batch.step for batch in batches}) == 10
    assert {batch.language for batch in batches} <= {"tur", "por", "aze", "glg"}
    assert [batch.number for batch in batches] == list(range(batches[0].number, batches[0].number + 10))


def test_loss_falls(folder: Path, data: Prepared) -> None:
    run = folder / "falls"
    train(recipe(folder, "training.max_steps=60"), data, GRAPH, BENCHMARK, run)
    macro = [event["macro"] for event in events(run) if event["event"] == "validation"]
    assert macro[-1] < macro[0] - 0.5


def test_a_reference_loss_far_worse_than_the_model_is_warned_of_once(
    folder: Path, data: Prepared, capfd: pytest.CaptureFixture[str]
) -> None:
    train(recipe(folder), data, GRAPH, BENCHMARK | {"aze": 30.0}, folder / "useless")
    told = [line for line in capfd.readouterr().err.splitlines() if "warning" in line]
    assert len(told) == 1  # though there are four probes
    assert "competence of aze" in told[0]
    assert "L* of 30.00 bits per token" in told[0]
