"""The real places of a padded batch: what is where, and that rows and their gradients find their way."""

import torch
from toy_model import SOURCES, padded

from cclm.model import Places

PLACES = Places(padded(SOURCES))  # lengths 5, 2 and 4


def rows() -> torch.Tensor:
    return torch.arange(1.0, 34, dtype=torch.float64).view(11, 3).requires_grad_()


def test_rows_stand_for_the_real_places_sentence_after_sentence() -> None:
    assert PLACES.ids_N.tolist() == [4, 5, 6, 7, 2, 8, 2, 9, 10, 3, 2]
    assert PLACES.positions_N.tolist() == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3]
    assert PLACES.padding_BT.sum(dim=1).tolist() == [0, 3, 1]


def test_each_row_is_spread_to_its_place_and_zeros_to_padding() -> None:
    (spread,) = PLACES.spread(rows())
    assert spread.shape == (3, 5, 3)
    assert torch.equal(spread[1], torch.cat([rows()[5:7], torch.zeros(3, 3)]))
    assert torch.equal(PLACES.gather(spread), rows())


def test_gradients_are_those_of_indexing() -> None:
    real, weight = ~PLACES.padding_BT, torch.randn(3, 5, 3, dtype=torch.float64)
    ours, theirs = rows(), rows()
    (PLACES.spread(ours)[0] ** 2 * weight).sum().backward()
    (torch.zeros(3, 5, 3, dtype=torch.float64).index_put((real,), theirs) ** 2 * weight).sum().backward()
    assert torch.equal(ours.grad, theirs.grad)
    mine, yours = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    (PLACES.gather(mine) ** 3).sum().backward()
    (yours[real] ** 3).sum().backward()
    assert torch.equal(mine.grad, yours.grad)
    assert torch.autograd.gradgradcheck(PLACES.spread, rows())
    assert torch.autograd.gradgradcheck(PLACES.gather, mine)
