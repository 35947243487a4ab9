"""The benchmark of training changes: the changes that it implements itself, and its table."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from unequal import ARMS, Bench, Muon, learn_twice, orthogonal, print_table

from cclm.data.batches import Batch
from cclm.model.loss import losses
from cclm.model.transformer import Shape, Transformer
from cclm.phrasebook import Phrasebook, generate, write
from cclm.training import session

SHAPE = Shape(
    source_symbols=20, target_symbols=20, layers=1, heads=2, width=8, feed_forward=16, dropout=0.0,
    attention_dropout=0.0, activation_dropout=0.0,
)  # fmt: skip
SOURCE = torch.arange(4, 16).view(3, 4)
TARGET = torch.arange(5, 17).view(3, 4)


def updated(model: Transformer, optimizer: Muon, times: int) -> dict[str, torch.Tensor]:
    """The parameters after a number of updates on one batch."""
    for _ in range(times):
        losses(model(SOURCE, TARGET), TARGET, smoothing=0.1).smoothed.backward()
        optimizer.step(0.01)
        optimizer.zero_grad()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 8, 24), (2, 24, 8)])
def test_updates_have_singular_values_near_one(shape: tuple[int, ...]) -> None:
    """0.7 to 1.2 is the range that Newton-Schulz with Muon's coefficients converges to."""
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonal(matrices, Muon.COEFFICIENTS, iterations=10))
    assert ((values > 0.65) & (values < 1.25)).all()


def test_muon_continues_from_its_saved_state_to_the_same_bytes() -> None:
    model = Transformer(SHAPE, seed=1)
    optimizer = Muon(model)
    updated(model, optimizer, 3)
    weights, state = {name: each.clone() for name, each in model.state_dict().items()}, optimizer.state()
    expected = updated(model, optimizer, 2)
    resumed = Transformer(SHAPE, seed=2)
    resumed.load_state_dict(weights)
    second = Muon(resumed)
    second.load_state(state)
    found = updated(resumed, second, 2)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_muon_takes_the_matrices_of_layers_and_leaves_the_rest_to_adam() -> None:
    state = Muon(Transformer(SHAPE, seed=1)).state()
    of_muon = {label.removesuffix(":momentum") for label in state if label.endswith(":momentum")}
    matrices = {
        name
        for name, parameter in Transformer(SHAPE, seed=1).named_parameters()
        if parameter.ndim == 2 and "embedding" not in name
    }
    assert of_muon == matrices
    assert "target_embedding.weight:exp_avg" in state
    assert not {f"{name}:exp_avg" for name in matrices} & set(state)


def test_r_drop_without_dropout_is_the_plain_loss() -> None:
    """Both predictions are the same then, and the divergence is zero."""
    model = Transformer(SHAPE, seed=1)
    settings = SimpleNamespace(label_smoothing=0.1)
    trainer = SimpleNamespace(parts=SimpleNamespace(recipe=SimpleNamespace(seed=1), model=model), _settings=settings)
    ids = SOURCE.numpy(), TARGET.numpy()
    batch = Batch(source=ids[0], target_input=ids[1], target_output=ids[1], indices=np.arange(3))
    found = learn_twice(trainer, 0, batch, 12, alpha=5.0)
    twice = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    expected = losses(model(SOURCE, TARGET), TARGET, smoothing=0.1)
    (expected.smoothed / 12).backward()
    assert found.tolist() == pytest.approx([expected.smoothed.item(), expected.nll.item()], rel=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(twice[name], parameter.grad, rtol=1e-4, atol=1e-6)


def test_the_table_has_means_over_seeds_and_their_spread(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("bleu_all", "bleu_hrl", "bleu_lrl", "chrf_all", "chrf_hrl", "chrf_lrl", "dev_loss")
    rows = [dict.fromkeys(names, value) | {"steps": 5000, "seconds": 180.0} for value in (30.0, 31.0, 32.0)]
    print_table({"base": rows, "linear": rows[:1]})
    base, linear = capsys.readouterr().out.splitlines()[-2:]
    assert base.split()[:5] == ["base", "3", "5,000", "180", "31.0"]
    assert "±1.0" in base
    assert linear.split()[4] == "30.0"
    assert "±" not in linear


def test_every_change_is_an_arm_of_its_own_and_part_of_all() -> None:
    together = ARMS["all"]
    for name in ("wsd", "average", "split pieces", "R-Drop", "dropout by passes", "Muon"):
        arm = ARMS[name]
        assert set(arm.settings) <= set(together.settings)
        assert (arm.r_drop, arm.by_passes, arm.muon) != (0.0, False, False) or arm.settings


@pytest.mark.slow
def test_a_training_with_all_changes_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Trainer", "Adam"):  # the benchmark replaces them in its own process
        monkeypatch.setattr(session, name, getattr(session, name))
    sizes = {"tur": (300, 10, 5), "aze": (60, 10, 5)}
    book = Phrasebook.load()
    write(book, generate(book, seed=5, sizes=sizes), tmp_path / "text")
    bench = Bench(tmp_path, None, 4, ("tur",), ("aze",))
    bench.prepare()
    for arm in ("base", "all"):
        bench.measure_ratio(arm)
        bench.train(arm, 1)
    assert bench.ratios()["all"] > 1
    found = bench.results()
    assert found["base"][0]["steps"] == 4
    assert found["all"][0]["steps"] < 4
    assert 0 <= found["all"][0]["bleu_lrl"] <= 100
