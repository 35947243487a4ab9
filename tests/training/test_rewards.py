"""The rewards of MultiDDS and MultiDDS-S: cosines of real gradients, against gradients worked out by hand."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from forks import Forks
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe

from cclm.data.batches import Batch, Batches
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import PAD
from cclm.model.transformer import Transformer
from cclm.rng import key, uniform
from cclm.training.building import shape_of
from cclm.training.device import device_of
from cclm.training.ranks import ALONE, Ranks
from cclm.training.rewards import Rewards, cosine
from cclm.training.session import train
from cclm.training.tasks import tasks
from cclm.training.validation import MeasurementSettings

SEED, STEP, SENTENCES, SMOOTHING = 7, 40, 3, 0.1
ACTOR = "curriculum.sampler={name: multidds-s, every: 1, learning_rate: 0.01, inner_steps: 20}"


class TwoParameters(torch.nn.Module):
    """Logits a x + b y: x is 1 for the symbol that went in before and 0 for others, y the number of each symbol."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Parameter(torch.tensor(0.7)), torch.nn.Parameter(torch.tensor(-0.3))
        self.symbols, self.passes = symbols, 0

    def forward(self, source: torch.Tensor, target_input: torch.Tensor, rows: None) -> torch.Tensor:
        self.passes += 1
        x = torch.nn.functional.one_hot(target_input[target_input != PAD], self.symbols).float()
        return self.a * x + self.b * torch.arange(self.symbols) / self.symbols


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rewards")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    torch.set_num_threads(1)
    return prepared(folder)


@pytest.fixture
def sets(folder: Path, data: Prepared) -> tuple[dict[str, Batches], dict[str, Batches]]:
    def batches(split: str) -> dict[str, Batches]:
        return {
            name: Batches(data.corpus(task.language, split), task.direction, language=name, seed=1, budget=200)
            for name, task in tasks(recipe(folder).data, data).items()
        }

    return batches("train"), batches("dev")


def rewards(
    sets: tuple[dict[str, Batches], dict[str, Batches]],
    *,
    once: bool = False,
    ranks: Ranks = ALONE,
    sentences: int = SENTENCES,
) -> Rewards:
    how = MeasurementSettings(SEED, SMOOTHING, device_of("cpu", "fp32"), poll=lambda: None, ranks=ranks)
    return Rewards(*sets, how, sentences=sentences, once=once)


def by_hand(model: TwoParameters, batches: Batches, *purpose: str) -> np.ndarray:
    """The gradient in (a, b) of the summed smoothed loss: sum over tokens of (q - p) times the features."""
    drawing = key(SEED, "reward", STEP, *purpose)
    numbers = [int(uniform(drawing, i) * batches.sentences) for i in range(SENTENCES)]
    batch: Batch = batches.of(np.array(numbers))
    symbols, a, b = model.symbols, model.a.item(), model.b.item()
    gradient = np.zeros(2)
    y = np.arange(symbols) / symbols
    for before, right in zip(batch.target_input.flatten(), batch.target_output.flatten(), strict=True):
        if right == PAD:
            continue
        x = (np.arange(symbols) == before).astype(float)
        q = np.exp(a * x + b * y)
        q /= q.sum()
        p = np.full(symbols, SMOOTHING / symbols)
        p[right] += 1 - SMOOTHING
        gradient += [(q - p) @ x, (q - p) @ y]
    return gradient


def angle(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


def test_the_rewards_of_multidds_s_are_those_worked_out_by_hand(
    sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared
) -> None:
    model = TwoParameters(len(data.pivot))
    found = rewards(sets).separate(model, STEP, ["por", "aze"])  # type: ignore[arg-type]
    train_sets, dev_sets = sets
    for lang in ("por", "aze"):
        for of_dev in dev_sets:
            mine = by_hand(model, train_sets[lang], "train", lang, of_dev)  # fresh sentences for every pair
            theirs = by_hand(model, dev_sets[of_dev], "dev", of_dev)
            assert found[lang][of_dev] == pytest.approx(angle(mine, theirs), abs=1e-4)
    assert model.passes == 4 + 2 * 4
    assert set(found) == {"por", "aze"}


def test_the_reward_of_multidds_is_one_cosine_with_the_summed_dev_gradients(
    sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared
) -> None:
    model = TwoParameters(len(data.pivot))
    found = rewards(sets).summed(model, STEP, ["por", "aze"], scale=1024.0)  # type: ignore[arg-type]
    train_sets, dev_sets = sets
    for lang in ("por", "aze"):
        theirs = sum(by_hand(model, batches, "dev", name, lang) for name, batches in dev_sets.items())
        mine = by_hand(model, train_sets[lang], "train", lang, "all")
        assert found[lang] == pytest.approx(angle(mine, np.asarray(theirs)), abs=1e-4)
    assert model.passes == 2 * (1 + 4)


def test_once_takes_a_gradient_a_language(sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared) -> None:
    model = TwoParameters(len(data.pivot))
    names = list(sets[0])
    found = rewards(sets, once=True).separate(model, STEP, names)  # type: ignore[arg-type]
    assert model.passes == 2 * len(names)
    train_sets, dev_sets = sets
    expected = angle(
        by_hand(model, train_sets["glg"], "train", "glg", "once"), by_hand(model, dev_sets["tur"], "dev", "tur")
    )
    assert found["glg"]["tur"] == pytest.approx(expected, abs=1e-4)
    rewards(sets, once=True).summed(model, STEP, names)  # type: ignore[arg-type]
    assert model.passes == 2 * len(names) + 2 * len(names)


def test_the_model_is_left_as_it_was(
    folder: Path, sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared
) -> None:
    model = Transformer(shape_of(recipe(folder), data), 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = rewards(sets).separate(model, STEP, list(sets[0]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training  # dropout is on
    assert found == rewards(sets).separate(model, STEP, list(sets[0]))
    assert found != rewards(sets).separate(model, STEP + 1, list(sets[0]))


class Half(Ranks):
    """One of two ranks, by itself: what the other would add is missing."""

    def sum(self, rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
        return rows


def test_ranks_share_the_work(
    folder: Path, sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared
) -> None:
    model = Transformer(shape_of(recipe(folder), data), 1)
    names = list(sets[0])
    halves = [rewards(sets, ranks=Half(rank, 2)) for rank in (0, 1)]
    alone = rewards(sets)
    parts = [half.separate(model, STEP, names) for half in halves]
    assert {a: {b: parts[0][a][b] + parts[1][a][b] for b in names} for a in names} == alone.separate(model, STEP, names)
    assert all(0.0 in parts[0][name].values() for name in names)
    sums = [half.summed(model, STEP, names) for half in halves]
    assert {name: sums[0][name] + sums[1][name] for name in names} == alone.summed(model, STEP, names)


def test_long_sentences_are_left_out_but_for_the_first(
    sets: tuple[dict[str, Batches], dict[str, Batches]], data: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cclm.training.rewards.MOST_TOKENS", 1)
    model = TwoParameters(len(data.pivot))
    found = rewards(sets).separate(model, STEP, ["por"])  # type: ignore[arg-type]
    monkeypatch.setattr("cclm.training.rewards.MOST_TOKENS", 10**6)
    assert found != rewards(sets).separate(model, STEP, ["por"])  # type: ignore[arg-type]
    one = rewards(sets, sentences=1).separate(model, STEP, ["por"])["por"]  # type: ignore[arg-type]
    assert found["por"] == pytest.approx(one)


def test_the_cosine_with_a_gradient_of_zero_is_zero() -> None:
    device = device_of("cpu", "fp32")
    assert cosine([torch.zeros(3)], [torch.ones(3)], device) == 0
    assert cosine([torch.ones(2), torch.ones(1)], [torch.ones(2), -torch.ones(1)], device) == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["multidds", "multidds-s"])
def test_a_training_goes_by_its_rewards(folder: Path, data: Prepared, name: str) -> None:
    actor = ACTOR.replace("multidds-s", name)
    settings = recipe(folder, "curriculum.gate={name: all}", actor.replace("every: 1", "every: 2"))
    run = folder / name
    train(settings, data, GRAPH, BENCHMARK, run)
    signal = "gradient_cosine" if name == "multidds-s" else "summed_gradient_cosine"
    probes = events(run, "probe")
    assert [signal in probe for probe in probes] == [False, True, False, True]
    sizes = {lang: data.sizes[lang]["train"] for lang in data.sizes}
    proportional = {lang: size / sum(sizes.values()) for lang, size in sizes.items()}
    assert probes[0]["weights"] == pytest.approx(proportional, abs=5e-3)
    assert probes[1]["weights"] != pytest.approx(proportional, abs=5e-3)
    assert probes[2]["weights"] == probes[1]["weights"]


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Forks]:
    made = Forks(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_killed_among_its_rewards_a_training_goes_on_to_the_same_bytes(
    folder: Path, data: Prepared, forks: Forks
) -> None:
    table = folder / "table.json"
    table.write_text(json.dumps({"version": 1, "losses": BENCHMARK}))
    path = folder / "recipe.json"
    changes = ("curriculum.gate={name: all}", ACTOR, f"benchmark.file={table}")
    path.write_text(recipe(folder, *changes).model_dump_json())
    assert forks.run("train", str(path), "name=whole").code == 0
    assert forks.run("train", str(path), "name=killed", CCLM_FAULT_AT="reward,50,SIGKILL").code == -9
    assert forks.run("train", str(path), "name=killed").code == 0
    work = folder / "work" / "runs"
    for file in (
        "log.jsonl",
        "checkpoints/step-00000020/model.safetensors",
        "checkpoints/step-00000020/curriculum.json",
    ):
        assert (work / "killed" / file).read_bytes() == (work / "whole" / file).read_bytes(), file
