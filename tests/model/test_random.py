"""Dropout masks from a pool: rate, scale, and reproducibility with torch's global generator."""

import math

import pytest
import torch

from cclm.model.random import POOL, dropout, mask


def seeded(x: torch.Tensor, rate: float, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return dropout(x, rate)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_share_that_is_dropped_and_the_scale_of_the_rest(rate: float) -> None:
    size = 200_000
    dropped = seeded(torch.ones(size), rate, 1)
    share = (dropped == 0).double().mean().item()
    assert share == pytest.approx(rate, abs=4 * math.sqrt(rate * (1 - rate) / size))
    torch.testing.assert_close(dropped[dropped != 0], torch.full_like(dropped[dropped != 0], 1 / (1 - rate)))


def test_two_masks_are_as_independent_as_two_draws() -> None:
    first, second = (seeded(torch.ones(100_000), 0.5, seed) != 0 for seed in (1, 2))
    # Kept in both: a quarter of the elements, within 4 standard deviations of as many independent draws.
    both = (first & second).double().mean().item()
    assert both == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 100_000))


def test_the_global_seed_decides_and_every_mask_differs() -> None:
    x = torch.ones(1000)
    assert torch.equal(seeded(x, 0.5, 1), seeded(x, 0.5, 1))
    assert not torch.equal(seeded(x, 0.5, 1), seeded(x, 0.5, 2))
    torch.manual_seed(1)
    assert not torch.equal(dropout(x, 0.5), dropout(x, 0.5))


def test_the_gradient_passes_the_same_mask() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = seeded(x, 0.3, 1)
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_a_mask_is_a_view_of_the_pool() -> None:
    torch.manual_seed(1)
    pieces = [mask(torch.Size((100, 10)), 0.3, torch.float32) for _ in range(2)]
    assert pieces[0].untyped_storage().data_ptr() == pieces[1].untyped_storage().data_ptr()


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False)])
def test_nothing_is_dropped_at_rate_zero_or_in_evaluation(rate: float, training: bool) -> None:
    x = torch.ones(10)
    assert dropout(x, rate, training) is x


def test_tensors_too_large_for_the_pool_use_torchs_dropout() -> None:
    x = torch.ones(POOL // 2 + 1)
    torch.manual_seed(1)
    expected = torch.nn.functional.dropout(x, 0.5)
    assert torch.equal(seeded(x, 0.5, 1), expected)
