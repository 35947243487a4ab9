"""Averages of weights, compared with torch's own."""

from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from cclm.training.average import Average


def moved(model: nn.Linear, step: int) -> None:
    with torch.no_grad():
        model.weight.add_(torch.randn(3, 3, generator=torch.Generator().manual_seed(step)))


def test_the_exponential_average_equals_torchs_once_the_start_is_over() -> None:
    model = nn.Linear(3, 3)
    ours, theirs = Average(model, ema=0.9), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    theirs.update_parameters(model)  # the first call copies
    for step in range(100, 140):  # from step 81 on, 0.9 is below (1 + t) / (10 + t)
        moved(model, step)
        ours.add_step(step)
        theirs.update_parameters(model)
    torch.testing.assert_close(ours.state()["weight"], theirs.module.weight.data)


def test_the_first_weights_are_soon_forgotten() -> None:
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(100.0)
    average = Average(model, ema=0.999)
    with torch.no_grad():
        model.weight.fill_(0.0)
    for step in range(1, 31):
        average.add_step(step)
    # The product of (1 + t) / (10 + t) for t from 1 to 30: 10! * 31! / 40!
    assert average.state()["weight"].item() == pytest.approx(100 * 10 * 9 * 8 * 7 * 6 * 5 * 4 * 3 * 2 / (
        40 * 39 * 38 * 37 * 36 * 35 * 34 * 33 * 32), rel=1e-3)  # fmt: skip


def test_the_model_has_its_own_weights_again_afterwards_even_after_an_error() -> None:
    model = nn.Linear(3, 3)
    average, before = Average(model, ema=0.5), model.weight.detach().clone()
    moved(model, 1)
    after = model.weight.detach().clone()
    with suppress(KeyboardInterrupt), average.in_use():
        assert torch.equal(model.weight, before)
        raise KeyboardInterrupt
    assert torch.equal(model.weight, after)


def test_a_repeated_validation_counts_once() -> None:
    model = nn.Linear(3, 3)
    average = Average(model, last=2)
    for step in (10, 20, 20):
        moved(model, step)
        average.add_validation(step)
    assert {label for label in average.state() if label.startswith("weight@")} == {"weight@10", "weight@20"}
    restored = Average(nn.Linear(3, 3), last=2)
    restored.load_state(average.state())
    assert all(torch.equal(restored.state()[label], tensor) for label, tensor in average.state().items())
