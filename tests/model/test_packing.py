"""Packing and unpacking a padded batch: the layout, and the gradients."""

import pytest
import torch
from toy_model import SOURCES, TARGET_INPUTS, padded, shape, stirred

from cclm.model import Packing, Transformer
from cclm.model.packing import rounded_up

PACKING = Packing(padded(SOURCES))  # lengths 5, 2 and 4


def rows() -> torch.Tensor:
    return torch.arange(1.0, 34, dtype=torch.float64).view(11, 3).requires_grad_()


def test_packed_rows_are_the_real_tokens_sentence_after_sentence() -> None:
    assert PACKING.ids_N.tolist() == [4, 5, 6, 7, 2, 8, 2, 9, 10, 3, 2]
    table = torch.arange(5.0)[:, None].expand(5, 3)
    assert PACKING.add_positions(torch.zeros(11, 3), table)[:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3]
    assert PACKING.padding_BT.sum(dim=1).tolist() == [0, 3, 1]


def test_unpacking_restores_the_positions_with_zeros_for_padding() -> None:
    (unpacked,) = PACKING.unpack(rows())
    assert unpacked.shape == (3, 5, 3)
    assert torch.equal(unpacked[1], torch.cat([rows()[5:7], torch.zeros(3, 3)]))
    assert torch.equal(PACKING.pack(unpacked), rows())


def test_gradients_are_those_of_indexing() -> None:
    real, weight = ~PACKING.padding_BT, torch.randn(3, 5, 3, dtype=torch.float64)
    packed, indexed = rows(), rows()
    (PACKING.unpack(packed)[0] ** 2 * weight).sum().backward()
    (torch.zeros(3, 5, 3, dtype=torch.float64).index_put((real,), indexed) ** 2 * weight).sum().backward()
    assert torch.equal(packed.grad, indexed.grad)
    padded_input, indexed_input = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    (PACKING.pack(padded_input) ** 3).sum().backward()
    (indexed_input[real] ** 3).sum().backward()
    assert torch.equal(padded_input.grad, indexed_input.grad)
    assert torch.autograd.gradgradcheck(PACKING.unpack, rows())
    assert torch.autograd.gradgradcheck(PACKING.pack, padded_input)


def test_kept_padding_is_moved_nowhere() -> None:
    kept = Packing(padded(SOURCES), keep_padding=True)
    everything = torch.arange(45.0).view(15, 3)
    (unpacked,) = kept.unpack(everything)
    assert unpacked.shape == (3, 5, 3)
    assert unpacked.data_ptr() == everything.data_ptr()
    assert torch.equal(kept.pack(unpacked), everything)
    assert kept.ids_N.view(3, 5).tolist() == padded(SOURCES).tolist()
    table = torch.arange(5.0)[:, None].expand(5, 3)
    assert kept.add_positions(torch.zeros(15, 3), table)[:, 0].tolist() == 3 * [0, 1, 2, 3, 4]


def test_the_bias_hides_padding_and_its_rows_are_aligned() -> None:
    bias = PACKING.bias(torch.float64)
    assert bias.shape == (3, 1, 1, 5)
    assert bias.exp()[:, 0, 0].tolist() == (~PACKING.padding_BT).double().tolist()
    assert [stride % 8 for stride in bias.stride()] == [0, 0, 0, 1]
    assert PACKING.bias(torch.float64) is bias


def test_in_half_precision_on_a_cpu_the_number_of_tokens_is_a_multiple() -> None:
    for ids in (torch.tensor([[5] * 20, [6] * 10 + [0] * 10, [7] * 15 + [0] * 5]), torch.full((3, 15), 8)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            packing = Packing(ids)
        assert packing.tokens == 45
        assert packing.ids_N.tolist() == ids[ids != 0].tolist() + [0] * 19  # 64
        (there,) = packing.unpack(packing.ids_N[:, None].float())
        assert torch.equal(there[..., 0], ids.float())
        assert packing.pack(there)[:, 0].tolist() == packing.ids_N.tolist()
        table = torch.arange(ids.shape[1])[:, None].float()
        real = packing.add_positions(torch.zeros(64, 1), table)[:45]
        assert torch.equal(real, packing.pack(table.expand(len(ids), -1, 1))[:45])


@pytest.mark.parametrize(
    ("rows", "computed"), [(1, 32), (32, 32), (33, 64), (2047, 2048), (2049, 2112), (4095, 4096), (4097, 4224)]
)
def test_numbers_of_rows_are_rounded_up_by_three_percent_at_most_or_to_32(rows: int, computed: int) -> None:
    assert rounded_up(rows) == computed


def test_padding_among_the_tokens_changes_no_logit_and_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for multiple in (1, 4):  # 11 tokens on either side
        monkeypatch.setattr("cclm.model.packing.MULTIPLE", multiple)
        model = stirred(Transformer(shape(), seed=1))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(padded(SOURCES), padded(TARGET_INPUTS))
        logits.float().square().sum().backward()
        found.append((logits.float(), *(parameter.grad for parameter in model.parameters())))
    for without, filled in zip(*found, strict=True):
        torch.testing.assert_close(filled, without, rtol=2**-6, atol=2**-6)
