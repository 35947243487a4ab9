"""The learning-rate schedules: their shapes, and their decays compared with those of transformers."""

from collections.abc import Callable

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from cclm.model import Schedule


def test_inverse_sqrt_rises_to_its_peak_and_halves_at_four_times_the_warmup() -> None:
    schedule = Schedule("inverse-sqrt", peak=2e-4, warmup=4000)
    rates = {step: schedule.rate(step) for step in (1, 2000, 4000, 16_000, 400_000)}
    # 1/4000, a half, all, sqrt(1/4) and sqrt(1/100) of the peak
    assert rates == pytest.approx({1: 5e-8, 2000: 1e-4, 4000: 2e-4, 16_000: 1e-4, 400_000: 2e-5})
    assert not schedule.anneals


@pytest.mark.parametrize("name", ["inverse-sqrt", "linear", "cosine", "wsd"])
def test_every_schedule_has_one_peak_at_the_end_of_warmup(name: str) -> None:
    rates = [Schedule(name, peak=1, warmup=50, steps=300, decay=60).rate(step) for step in range(1, 301)]
    assert rates[:50] == pytest.approx([step / 50 for step in range(1, 51)])
    assert rates[49:] == sorted(rates[49:], reverse=True)
    assert rates[49] == 1


def test_without_warmup_inverse_sqrt_is_constant() -> None:
    assert {Schedule("inverse-sqrt", peak=3e-4, warmup=0).rate(step) for step in (1, 10, 10**6)} == {3e-4}


@pytest.mark.parametrize(
    ("name", "theirs"), [("linear", get_linear_schedule_with_warmup), ("cosine", get_cosine_schedule_with_warmup)]
)
def test_decays_equal_those_of_transformers(
    name: str, theirs: Callable[..., torch.optim.lr_scheduler.LambdaLR]
) -> None:
    """transformers counts from 0 and reaches the peak one step after its warm-up."""
    schedule = theirs(torch.optim.SGD([torch.zeros(1)], lr=1.0), num_warmup_steps=49, num_training_steps=300)
    ours = Schedule(name, peak=1.0, warmup=50, steps=300)
    expected = [schedule.lr_lambdas[0](step - 1) for step in range(50, 301)]
    assert [ours.rate(step) for step in range(50, 301)] == pytest.approx(expected, abs=1e-12)


def test_wsd_is_constant_until_it_decays_linearly_over_the_last_steps() -> None:
    schedule = Schedule("wsd", peak=1.0, warmup=10, steps=100, decay=4)
    assert schedule.decay_start == 96
    assert {schedule.rate(step) for step in range(10, 97)} == {1.0}
    assert [schedule.rate(step) for step in range(97, 101)] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_a_longer_wsd_is_the_same_up_to_the_decay() -> None:
    short, long = (Schedule("wsd", peak=1.0, warmup=10, steps=steps, decay=20) for steps in (100, 200))
    assert [short.rate(step) for step in range(1, 81)] == [long.rate(step) for step in range(1, 81)]
    assert short.rate(81) < long.rate(81)


@pytest.mark.parametrize("name", ["linear", "cosine", "wsd"])
def test_a_training_that_is_stopped_early_anneals_from_where_it_is(name: str) -> None:
    schedule = Schedule(name, peak=1.0, warmup=10, steps=1000, decay=4)
    at_stop = schedule.rate(300)
    rates = [schedule.rate(step, stopped=(300, 304)) for step in range(300, 305)]
    assert rates == pytest.approx([at_stop * share for share in (1, 0.8, 0.6, 0.4, 0.2)])
    assert schedule.rate(299, stopped=(300, 304)) == schedule.rate(299)


@pytest.mark.parametrize("name", ["linear", "cosine", "wsd"])
def test_a_training_shorter_than_its_warmup_only_warms_up(name: str) -> None:
    schedule = Schedule(name, peak=1.0, warmup=100, steps=50, decay=10)
    assert [schedule.rate(step) for step in (1, 50)] == [0.01, 0.5]


def test_a_step_before_the_first_is_refused() -> None:
    with pytest.raises(ValueError, match="step must be at least 1; got 0"):
        Schedule("linear", peak=1, warmup=10).rate(0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"warmup": -1}, "warmup must be at least 0; got -1"),
        ({"decay": 0}, "decay must be at least 1 step; got 0"),
        ({"name": "triangular"}, "a schedule is one of inverse-sqrt, linear, cosine, wsd; got 'triangular'"),
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"name": "wsd", "peak": 1, "warmup": 10, **changed}
    with pytest.raises(ValueError, match=message):
        Schedule(**settings)  # type: ignore[arg-type]
