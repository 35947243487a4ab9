"""The bounded probe in a training: the losses it measures, its state, and which probe a run has."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe

from cclm.curriculum.bounded_probe import BoundedProbe
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.recipe.methods import ProbeSection
from cclm.training.building import model_of
from cclm.training.dev_probe import DevProbe
from cclm.training.dev_sentences import mixed_batches, probe_batch_tokens, sentence_losses
from cclm.training.device import Device
from cclm.training.provenance import with_probe
from cclm.training.session import train
from cclm.training.tasks import tasks
from cclm.training.validation import Evaluator, MeasurementSettings

BOUNDED = ("curriculum.dev_sample=null", "curriculum.probe.share=0.1")
CPU = Device(torch.device("cpu"), "fp32")
HOW = MeasurementSettings(1, 0.1, CPU, lambda: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("probe")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    return prepared(folder)


@pytest.fixture(scope="module")
def dev(folder: Path, data: Prepared) -> dict[str, Batches]:
    return {
        name: Batches(data.corpus(task.language, "dev"), task.direction, language=name, seed=1, budget=200)
        for name, task in tasks(recipe(folder).data, data).items()
    }


def test_sentences_of_several_languages_in_one_batch_have_the_losses_that_each_has_alone(
    folder: Path, data: Prepared, dev: dict[str, Batches]
) -> None:
    """The oracle is torch's own cross-entropy, one sentence at a time."""
    model = model_of(recipe(folder), data).eval()
    chosen = {name: np.array([0, 3, 4, 7 + i]) for i, name in enumerate(dev)}
    batches = list(mixed_batches(dev, chosen, 120))
    assert len(batches) < sum(map(len, chosen.values())) / 2
    found = np.zeros((sum(map(len, chosen.values())), 2))
    for mixed in batches:
        assert mixed.batch.source.size <= 120
        found[mixed.rows] = sentence_losses(CPU, model, mixed.batch, 0.1)
    expected = []
    for name, indices in chosen.items():
        for index in indices:
            alone = dev[name].of(np.array([index]))
            source, target_input, target, _ = CPU.inputs(alone)
            with torch.no_grad():
                logits = model(source, target_input)
            sums = [F.cross_entropy(logits, target, reduction="sum", label_smoothing=s) for s in (0.1, 0.0)]
            expected.append([float(each) / math.log(2) for each in sums])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_all_sentences_give_the_losses_of_a_validation(folder: Path, data: Prepared, dev: dict[str, Batches]) -> None:
    model = model_of(recipe(folder), data)
    probe = dev_probe(dev)
    expected = Evaluator(dev, HOW).validate(model)
    found = probe.measure_all(model)
    for name, loss in expected.items():
        assert found.dev_losses[name].smoothed == pytest.approx(loss.smoothed, rel=1e-5)
        assert found.dev_losses[name].nll == pytest.approx(loss.nll, rel=1e-5)
    first = probe.measure(model, 5, 100, {})
    assert first.dev_loss == pytest.approx({name: loss.smoothed for name, loss in expected.items()}, rel=1e-5)
    assert set((first.dev_loss_se or {}).values()) == {0.0}


def test_a_round_of_too_few_tokens_for_any_sentence_keeps_the_losses(
    folder: Path, data: Prepared, dev: dict[str, Batches]
) -> None:
    model, probe = model_of(recipe(folder), data), dev_probe(dev)
    first = probe.measure(model, 5, 100, {})
    probe.memory = first.memory
    found = probe.measure(model, 10, 1, {})
    assert found.dev_loss == pytest.approx(first.dev_loss)


def dev_probe(dev: dict[str, Batches]) -> DevProbe:
    bounded = BoundedProbe({name: batches.target_tokens for name, batches in dev.items()})
    return DevProbe(dev, HOW, bounded, share=0.1, budget=200)


def test_its_state_is_restored_and_one_of_other_dev_sets_is_refused(
    folder: Path, data: Prepared, dev: dict[str, Batches]
) -> None:
    model, probe, other = model_of(recipe(folder), data), dev_probe(dev), dev_probe(dev)
    memory = probe.measure(model, 5, 400, {"tur": 1.0}).memory
    assert memory
    assert probe.memory.unknown  # measuring changes nothing
    probe.memory = memory
    other.load_state(probe.state())
    one, two = (each.measure(model, 10, 4000, {"tur": 1.0}) for each in (probe, other))
    assert one.dev_loss == two.dev_loss
    assert one.dev_loss_se == two.dev_loss_se
    other.load_state({})
    assert other.memory.unknown
    with pytest.raises(ValueError, match=r"3 dev sentences of tur; its dev set has \d+"):
        other.load_state({**probe.state(), "losses/tur": np.zeros(3)})


def test_batches_are_larger_than_in_training_only_where_their_logits_are_small() -> None:
    assert probe_batch_tokens(512, 1000) == 8 * 512
    assert probe_batch_tokens(4800, 32_000) == 4800
    assert probe_batch_tokens(1024, 8_000) == (1 << 25) // 8_000


def test_a_run_keeps_its_probe_where_the_recipe_leaves_it_open(folder: Path, data: Prepared) -> None:
    unset = recipe(folder, "curriculum.dev_sample=null", "training.max_steps=6")
    assert with_probe(folder / "none", unset).curriculum.probe == ProbeSection()
    for name, changes in {"old": (), "new": BOUNDED}.items():
        own = recipe(folder, "training.max_steps=6", *changes)
        train(own, data, GRAPH, BENCHMARK, folder / name)
        assert with_probe(folder / name, unset).curriculum == own.curriculum
        longer = recipe(folder, "curriculum.dev_sample=null", "training.max_steps=10")
        train(longer, data, GRAPH, BENCHMARK, folder / name)
        assert [event["step"] for event in events(folder / name, "probe")] == [5, 10]
    probes = events(folder / "new", "probe")
    assert all({"dev_loss_se", "competence_se"} <= probe.keys() for probe in probes)
    assert not any("dev_loss_se" in probe for probe in events(folder / "old", "probe"))
    with pytest.raises(
        TrainingError, match=r"curriculum.dev_sample: None -> 8\n  curriculum.probe: {'share': 0.1} -> N"
    ):
        train(recipe(folder, "training.max_steps=10"), data, GRAPH, BENCHMARK, folder / "new")


def test_settings_of_a_run_that_cannot_be_read_are_reported(folder: Path) -> None:
    run = folder / "damaged"
    run.mkdir()
    made = {"version": 1, "recipe": {"training": {}}, "data": "", "benchmark": None}
    (run / "made_from.json").write_text(json.dumps(made))
    with pytest.raises(TrainingError, match=r"made_from.json: damaged; give the run another name"):
        with_probe(run, recipe(folder, "curriculum.dev_sample=null"))
