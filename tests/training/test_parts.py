"""The parts of a training: tasks, metrics, checkpoints, logs, the second phase, numbers that are not."""

import json
from pathlib import Path

import pytest
import torch
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe
from worked_example import LOSS

from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.paper import tables
from cclm.training import checkpoint as checkpoints
from cclm.training.dev_loss import DevLoss
from cclm.training.log import Log, differences
from cclm.training.session import train
from cclm.training.stopping import better, metric_over, validated
from cclm.training.tasks import task_graph, tasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    torch.set_num_threads(1)
    return prepared(folder)


def test_the_papers_selection_metric() -> None:
    # The worked losses weighted by the paper's dev sets: 4.9190; their plain mean is 5.8504.
    sizes = {lang: counts["dev"] for lang, counts in tables()["statistics"]["related"].items()}
    found = {lang: DevLoss(loss, loss - 1) for lang, loss in LOSS.items()}
    assert round(metric_over("weighted", found, sizes), 4) == 4.9190
    assert round(metric_over("macro", found, sizes), 4) == 5.8504
    assert metric_over("worst", found, sizes) == 8.50
    facts = validated(found, sizes)
    assert facts["worst"] == {"language": "aze", "loss": 8.5}
    assert facts["nll"]["tur"] == pytest.approx(3.844)


def test_a_loss_is_better_when_lower_and_bleu_when_higher() -> None:
    assert better("macro", 2.0, None)
    assert better("macro", 2.0, 2.5)
    assert not better("macro", 2.5, 2.5)
    assert better("bleu", 2.5, 2.0)
    assert not better("bleu", 2.0, 2.5)
    assert not better("bleu", float("nan"), 2.5)
    assert not better("macro", float("nan"), None)


def test_into_one_language_there_are_no_tags_and_out_of_it_the_targets_on_both_sides(
    folder: Path, data: Prepared
) -> None:
    into = tasks(recipe(folder).data, data)["aze"]
    assert (into.source, into.target, into.direction.to_pivot) == ("aze", "eng", True)
    assert (into.direction.source_tag, into.direction.target_tag) == (None, None)
    out_of = tasks(recipe(folder, "data.direction=one-to-many").data, data)["aze"]
    assert (out_of.source, out_of.target, out_of.direction.to_pivot) == ("eng", "aze", False)
    assert out_of.direction.source_tag == data.pivot.tag_id("aze")
    assert out_of.direction.target_tag == data.other.tag_id("aze")


def test_many_to_many_has_two_tasks_a_language(folder: Path, data: Prepared) -> None:
    both = tasks(recipe(folder, "data.direction=many-to-many", "vocabulary.joint=true").data, data)
    assert list(both)[:2] == ["tur-eng", "eng-tur"]
    assert both["tur-eng"].direction.target_tag == data.pivot.tag_id("eng")
    graph = task_graph(GRAPH, both)
    assert graph.high_resource == ("tur-eng", "eng-tur", "por-eng", "eng-por")
    assert graph.similarity["eng-glg"]["por-eng"] == 0.6


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


def test_many_to_many_trains_with_one_vocabulary(folder: Path) -> None:
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
    with pytest.raises(TrainingError, match="loss or gradient not finite in 10 steps in a row"):
        train(settings, data, GRAPH, BENCHMARK, folder / "nan")


def test_loss_falls(folder: Path, data: Prepared) -> None:
    run = folder / "falls"
    train(recipe(folder, "training.max_steps=60"), data, GRAPH, BENCHMARK, run)
    macro = [event["macro"] for event in events(run) if event["event"] == "validation"]
    assert macro[-1] < macro[0] - 0.5


def checkpoint(value: float) -> checkpoints.Checkpoint:
    tensor = {"weight": torch.full((3,), value)}
    return checkpoints.Checkpoint(tensor, dict(tensor), {"round": 1}, {"step": int(value)})


def test_the_newest_whole_checkpoint_is_taken(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoints.save(tmp_path, checkpoint(step), step=step, best=1)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000001", "step-00000002", "step-00000003",
    ]  # fmt: skip
    told: list[str] = []
    (tmp_path / "step-00000003" / "manifest.json").write_text("{")
    (tmp_path / "step-00000002" / "optimizer.safetensors").unlink()
    found = checkpoints.load_newest(tmp_path, told.append)
    assert found is not None
    assert found.progress == {"step": 1}
    assert len(told) == 2
    assert "manifest.json is missing or damaged; falling back" in told[0]
    assert "optimizer.safetensors is missing; falling back" in told[1]
    with pytest.raises(TrainingError, match=r"manifest\.json is missing or damaged"):
        checkpoints.load(tmp_path / "step-00000003")


def test_old_checkpoints_go_but_never_the_best(tmp_path: Path) -> None:
    for step in range(1, 7):
        checkpoints.save(tmp_path, checkpoint(step), step=step, best=2 if step > 1 else None)
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000002", "step-00000005", "step-00000006",
    ]  # fmt: skip
    assert (tmp_path / "best").read_text() == "step-00000002\n"
    assert (tmp_path / "latest").read_text() == "step-00000006\n"


def test_a_checkpoint_of_another_version_is_not_loaded(tmp_path: Path) -> None:
    path = checkpoints.save(tmp_path, checkpoint(1), step=1, best=None)
    manifest = json.loads((path / "manifest.json").read_text()) | {"version": 9}
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TrainingError, match="version 9; this program reads 1"):
        checkpoints.load(path)


def test_a_place_that_cannot_be_written_to_leaves_the_old_checkpoint_alone(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, checkpoint(1), step=1, best=None)
    (tmp_path / "step-00000002").write_text("a file where the folder should be")
    with pytest.raises(TrainingError, match="step-00000002: could not be saved"):
        checkpoints.save(tmp_path, checkpoint(2), step=2, best=None)
    assert checkpoints.damage(tmp_path / "step-00000001") is None
    assert list(tmp_path.glob(".*")) == []


def test_a_log_goes_on_from_a_known_length(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write("train", 1, loss=2.0)
    kept = log.sync()
    log.write("train", 2, loss=1.0)
    log.close()
    again = Log(tmp_path / "log.jsonl", kept)
    again.write("train", 2, loss=1.5)
    again.close()
    assert [event["loss"] for event in events(tmp_path)] == [2.0, 1.5]


def test_a_number_that_is_none_is_null_in_the_log(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.write("validation", 1, dev_loss={"aze": float("nan"), "tur": 4.0})
    log.close()
    assert events(tmp_path)[0]["dev_loss"] == {"aze": None, "tur": 4.0}


def test_differences_are_named_by_their_path() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": 3}
    now = {"a": {"b": 1, "c": 5}, "e": 4}
    assert differences(before, now) == ["a.c: 2 -> 5", "d: 3 -> None", "e: None -> 4"]


def test_a_device_that_is_not_there_is_refused_before_training_starts(folder: Path, data: Prepared) -> None:
    with pytest.raises(TrainingError, match=r"training\.device 'toaster' cannot be used here"):
        train(recipe(folder, "training.device=toaster"), data, GRAPH, BENCHMARK, folder / "never")
    assert not (folder / "never" / "log.jsonl").exists()


def test_a_device_can_be_left_to_the_machine(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "training.device=auto", "training.max_steps=2", "training.validate_every=2")
    assert train(settings, data, GRAPH, BENCHMARK, folder / "auto") == "all steps are done"
