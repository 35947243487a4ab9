"""Runs that differ in the gate alone share their beginning, and come out as if each had been trained by itself."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe

from cclm.data.prepared import Prepared
from cclm.errors import TrainingError
from cclm.recipe.schema import Recipe
from cclm.training.lock import Lock
from cclm.training.run_inputs import origin_of
from cclm.training.session import Options, train

COMPARED = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json")
GATES = [(aggregate, threshold) for aggregate in ("max", "avg") for threshold in (0.2, 0.3, 0.31, 0.4, 9.0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("followers")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    return prepared(folder)


def gated(folder: Path, *changes: str) -> dict[str, Recipe]:
    """A recipe for every gate, by name."""
    made = {}
    for aggregate, threshold in GATES:
        name = f"{aggregate}-{threshold}"
        gate = f"curriculum.gate={{name: competence, aggregate: {aggregate}, threshold: {threshold}}}"
        made[name] = recipe(folder, f"name={name}", gate, "training.patience=2", *changes)
    return made


def train_tree(gates: dict[str, Recipe], data: Prepared, runs: Path) -> int:
    """Trains all of them into `runs`, the first leading; gives how many steps that took."""
    trained, steps = set(), 0
    while waiting := [name for name in gates if name not in trained and (not trained or (runs / name).exists())]:
        name = waiting[-1] if trained else waiting[0]  # those who left last go on first: nobody may depend on the order
        others = {other: settings for other, settings in gates.items() if other != name}
        train(gates[name], data, GRAPH, BENCHMARK, runs / name, Options(forks=others))
        trained.add(name)
        origin = origin_of(runs / name)
        if not (origin and origin.same):
            steps += events(runs / name, "stopped")[0]["step"] - ((origin and origin.step) or 0)
    assert trained == set(gates)
    return steps


def result(run: Path) -> dict[str, bytes]:
    """Everything that must be equal to the byte, of every checkpoint that is kept."""
    found = {
        f"{path.name}/{file}": (path / file).read_bytes()
        for path in run.glob("checkpoints/step-*")
        for file in (*COMPARED, "average.safetensors", "probe.safetensors")
        if (path / file).exists()
    }
    pointers = {name: (run / "checkpoints" / name).read_bytes() for name in ("latest", "best")}
    return found | pointers | {"log": (run / "log.jsonl").read_bytes()}


@pytest.mark.slow
def test_leaves_are_equal_to_independent_runs_to_the_byte(folder: Path, data: Prepared) -> None:
    gates = gated(folder, "training.max_steps=58")  # an end between two validations
    compare(gates, data, folder / "many")
    runs = folder / "many" / "tree"
    admitted = {name: [(e["step"], e["language"]) for e in events(runs / name, "admitted")] for name in gates}
    assert len({json.dumps(steps) for steps in admitted.values()}) >= 4  # gates that open at different times


@pytest.mark.slow
def test_so_are_those_with_a_bounded_probe(folder: Path, data: Prepared) -> None:
    """They measure the same sentences as long as they share a training, whatever their thresholds are."""
    bounded = ("curriculum.dev_sample=null", "curriculum.probe.share=0.1", "training.max_steps=40")
    gates = {name: each for name, each in gated(folder, *bounded).items() if name in ("avg-0.3", "max-0.4", "avg-9.0")}
    compare(gates, data, folder / "bounded")
    runs = folder / "bounded" / "tree"
    assert len({json.dumps([e["step"] for e in events(runs / name, "admitted")]) for name in gates}) == 3
    assert list((runs / "max-0.4").glob("checkpoints/step-*/probe.safetensors"))


@pytest.mark.slow
def test_so_are_those_with_a_second_phase(folder: Path, data: Prepared) -> None:
    wild = ("training.max_steps=100", "training.learning_rate=0.2", "training.patience=1")
    gates = {
        name: settings for name, settings in gated(folder, *wild).items() if name in ("max-9.0", "avg-9.0", "avg-0.2")
    }
    compare(gates, data, folder / "phases")
    assert all(events(folder / "phases" / "tree" / name, "phase") for name in ("max-9.0", "avg-9.0"))


@pytest.mark.slow
def test_so_are_those_with_a_schedule_that_anneals_averages_and_split_pieces(folder: Path, data: Prepared) -> None:
    options = ("schedule=wsd", "decay=9", "average={last: 2}", "split_pieces={}", "max_steps=58")
    gates = gated(folder, *(f"training.{option}" for option in options))
    compare({name: gates[name] for name in ("avg-0.3", "avg-0.4", "max-9.0", "avg-9.0")}, data, folder / "options")
    assert list((folder / "options" / "tree" / "avg-9.0").glob("checkpoints/step-00000049/average.safetensors"))


def compare(gates: dict[str, Recipe], data: Prepared, folder: Path) -> None:
    trained = train_tree(gates, data, folder / "tree")
    for name, settings in gates.items():
        train(settings, data, GRAPH, BENCHMARK, folder / "alone" / name)
        assert result(folder / "tree" / name) == result(folder / "alone" / name), name
    assert trained < sum(events(folder / "tree" / name, "stopped")[0]["step"] for name in gates)


def test_a_run_that_never_parts_is_the_same_training(folder: Path, data: Prepared) -> None:
    gates = {name: settings for name, settings in gated(folder).items() if name in ("max-9.0", "avg-9.0")}
    assert train_tree(gates, data, folder / "same") == 20
    origin = origin_of(folder / "same" / "avg-9.0")
    assert origin is not None
    assert (origin.run, origin.step, origin.same) == ("max-9.0", None, True)
    assert origin_of(folder / "same" / "max-9.0") is None
    for name in gates:
        assert {path.name for path in (folder / "same" / name).iterdir()} >= {"made_from.json", "config.yaml"}


@pytest.mark.slow
def test_a_leader_whose_forks_were_settled_by_another_process_is_done(folder: Path, data: Prepared) -> None:
    """A job that was told of forks before they were settled finds their run directories, and their logs removed."""
    gates = gated(folder, "training.max_steps=20")
    leader, fork = gates["max-9.0"], gates["avg-9.0"]
    runs = folder / "settled"
    reason = train(leader, data, GRAPH, BENCHMARK, runs / "max-9.0", Options(forks={"avg-9.0": fork}))
    before = result(runs / "max-9.0"), result(runs / "avg-9.0")
    assert train(leader, data, GRAPH, BENCHMARK, runs / "max-9.0", Options(forks={"avg-9.0": fork})) == reason
    assert (result(runs / "max-9.0"), result(runs / "avg-9.0")) == before


def test_a_file_system_without_hard_links_gets_copies(
    folder: Path, data: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    gates = {name: each for name, each in gated(folder, "training.max_steps=4").items() if name.endswith("-9.0")}
    train_tree(gates, data, folder / "copied")
    weights = [path.read_bytes() for path in sorted((folder / "copied").glob("*/checkpoints/*/model.safetensors"))]
    assert len(weights) == 2
    assert weights[0] == weights[1]


def test_a_run_that_another_process_has_begun_is_not_replaced(folder: Path, data: Prepared) -> None:
    gates, runs = gated(folder, "training.max_steps=4"), folder / "begun"
    with Lock(runs / "avg-9.0"):
        (runs / "avg-9.0" / "log.jsonl").write_text("mine")
        with pytest.raises(TrainingError, match=r"avg-9.0 belongs to process \d+ on"):
            train(
                gates["max-9.0"], data, GRAPH, BENCHMARK, runs / "max-9.0", Options(forks={"avg-9.0": gates["avg-9.0"]})
            )
        assert (runs / "avg-9.0" / "log.jsonl").read_text() == "mine"
