"""The loss compared with torch's, and its unit."""

import math

import pytest
import torch
import torch.nn.functional as F
from toy_model import TARGET_OUTPUTS, padded

from cclm.model import bits, losses
from cclm.model.loss import half_losses, losses_in_chunks, packed_losses

TARGETS = torch.tensor([symbol for sentence in TARGET_OUTPUTS for symbol in sentence])


def logits(**options: torch.dtype) -> torch.Tensor:
    """Logits of the eleven real target tokens."""
    return torch.randn(11, 13, generator=torch.Generator().manual_seed(1)).mul(3).to(**options)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_the_smoothed_loss_and_its_gradient_equal_torchs(smoothing: float) -> None:
    ours, theirs = (logits(dtype=torch.float64).requires_grad_() for _ in range(2))
    loss = losses(ours, padded(TARGET_OUTPUTS), smoothing).smoothed
    expected = F.cross_entropy(theirs, TARGETS, label_smoothing=smoothing, reduction="sum")
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-10)


def test_the_gradient_does_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for numbers in (1, 40, 1 << 21):
        monkeypatch.setattr("cclm.model.loss.CHUNK", numbers)
        ours = logits().requires_grad_()
        (losses(ours, padded(TARGET_OUTPUTS), 0.1).smoothed / 11).backward()
        made.append(ours.grad)
    assert made[0] is not None
    assert all(torch.equal(made[0], other) for other in made[1:] if other is not None)


def test_a_second_backward_pass_is_refused() -> None:
    loss = losses(logits().requires_grad_(), padded(TARGET_OUTPUTS), 0.1).smoothed
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="can be computed only once"):
        loss.backward()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_nll_is_not_smoothed(smoothing: float) -> None:
    expected = F.cross_entropy(logits(), TARGETS, reduction="sum")
    torch.testing.assert_close(losses(logits(), padded(TARGET_OUTPUTS), smoothing).nll, expected)


def test_padding_is_not_counted_and_the_end_of_a_sentence_is() -> None:
    assert losses(logits(), padded(TARGET_OUTPUTS), 0.1).tokens == 3 + 6 + 2


def test_losses_of_batches_add_up() -> None:
    target = padded(TARGET_OUTPUTS)
    whole = losses(logits(), target, 0.1)
    rows = [losses(part, target[i : i + 1], 0.1) for i, part in enumerate(logits().split([3, 6, 2]))]
    for name in ("smoothed", "nll"):
        torch.testing.assert_close(getattr(whole, name), sum(getattr(row, name) for row in rows))
    assert [row.tokens for row in rows] == [3, 6, 2]


def test_uniform_logits_cost_log_v_with_and_without_smoothing() -> None:
    # Every symbol has probability 1/8, whatever the target: 3 bits per token.
    loss = losses(torch.zeros(2, 8), torch.tensor([[5, 2]]), 0.1)
    assert bits(loss.smoothed, loss.tokens) == pytest.approx(3)
    assert bits(loss.nll, loss.tokens) == pytest.approx(3)


def test_a_worked_example_of_smoothing() -> None:
    # Two symbols, p = (1/4, 3/4), target 1, e = 0.2: the target weighs 0.8 + 0.1, the other 0.1.
    loss = losses(torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[1]]), 0.2)
    assert loss.smoothed.item() == pytest.approx(0.9 * math.log(4 / 3) + 0.1 * math.log(4))
    assert loss.nll.item() == pytest.approx(math.log(4 / 3))


def test_half_precision_logits_are_summed_in_float32() -> None:
    half = logits(dtype=torch.bfloat16)
    loss, expected = losses(half, padded(TARGET_OUTPUTS), 0.1), losses(half.float(), padded(TARGET_OUTPUTS), 0.1)
    assert loss.smoothed.dtype == torch.float32
    torch.testing.assert_close((loss.smoothed, loss.nll), (expected.smoothed, expected.nll), rtol=1e-6, atol=0)


def test_overwriting_the_logits_changes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cclm.model.loss.CHUNK", 3 * 13)
    found = []
    for overwrite in (True, False):
        given = logits().requires_grad_()
        used = given * 1
        loss = packed_losses(used, TARGETS, 0.1, overwrite=overwrite)
        loss.smoothed.backward()
        assert torch.equal(used.detach(), given.detach()) != overwrite
        found.append((loss.smoothed.detach(), loss.nll, given.grad))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_outside_its_range_is_refused(smoothing: float) -> None:
    with pytest.raises(ValueError, match=f"label smoothing must be at least 0 and below 1; got {smoothing}"):
        losses(logits(), padded(TARGET_OUTPUTS), smoothing)


def test_bits_are_the_mean_over_tokens_divided_by_ln_2() -> None:
    # 10 tokens, each of probability 1/8: 10 ln 8 nats, 3 bits per token.
    assert bits(10 * math.log(8), 10) == pytest.approx(3)
    assert bits(torch.tensor(10 * math.log(8)), torch.tensor(10)) == pytest.approx(3)


def test_a_mean_over_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="bits needs at least 1 token; got 0"):
        bits(0.0, torch.tensor(0))


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_chunks_give_the_same_losses_and_gradients_as_all_logits_at_once(rows: int) -> None:
    generator = torch.Generator().manual_seed(2)
    start = [torch.randn(size, generator=generator, dtype=torch.float64) for size in ((11, 5), (13, 5))]
    gradients = []
    for in_chunks in (True, False):
        states, weight = (tensor.clone().requires_grad_() for tensor in start)
        if in_chunks:
            found = losses_in_chunks(lambda some, by=weight: F.linear(some, by), states, TARGETS, 0.1, rows=rows)
        else:
            found = losses(F.linear(states, weight), padded(TARGET_OUTPUTS), 0.1)
        (found.smoothed / 3).backward()
        gradients.append((found.smoothed.detach(), found.nll.detach(), states.grad, weight.grad))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def states_and_weight(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """States of the eleven real target tokens and an output matrix, which bfloat16 represents exactly."""
    generator = torch.Generator().manual_seed(3)
    states, weight = (torch.randn(size, generator=generator).bfloat16().to(dtype) for size in ((11, 5), (13, 5)))
    return states.requires_grad_(), weight.requires_grad_()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("with_bias", [False, True])
def test_projected_in_half_precision_losses_and_gradients_are_those_of_float64_rounded(
    smoothing: float, with_bias: bool
) -> None:
    bias = torch.linspace(-2, 2, 13, dtype=torch.float64).bfloat16() if with_bias else None
    states, weight = states_and_weight(torch.float64)
    exact = losses(F.linear(states, weight, None if bias is None else bias.double()), padded(TARGET_OUTPUTS), smoothing)
    (exact.smoothed * 0.3).backward()
    ours = states_and_weight()
    found = half_losses(*ours, bias, TARGETS, smoothing, torch.bfloat16)
    (found.smoothed * 0.3).backward()
    assert found.tokens == exact.tokens
    assert found.nll.item() == pytest.approx(exact.nll.item(), rel=2**-8)
    assert found.smoothed.item() == pytest.approx(exact.smoothed.item(), rel=2**-8)
    for half, full in zip(ours, (states, weight), strict=True):
        assert half.grad is not None
        assert full.grad is not None
        assert half.grad.dtype == torch.float32
        torch.testing.assert_close(half.grad.double(), full.grad, rtol=2**-6, atol=2**-7)


def test_in_half_precision_the_gradient_of_a_nearly_certain_target_is_not_rounded_away() -> None:
    # p = 0.9 + 1e-4 at the target, where half precision would round it to 0.8984, and the gradient is p - 0.9.
    odds = math.log(0.9001 / 0.0999)
    states, weight = torch.tensor([[1.0]]), torch.tensor([[odds], [0.0]]).bfloat16().float()
    expected = 1 / (1 + math.exp(-weight[0].item())) - 0.9
    weight.requires_grad_()
    half_losses(states, weight, None, torch.tensor([0]), 0.1, torch.bfloat16).smoothed.backward()
    # Both symbols also get the smoothing's half of 0.1.
    assert weight.grad is not None
    assert weight.grad[0].item() + 0.05 == pytest.approx(expected, rel=2**-8)


@pytest.mark.parametrize("rows", [1, 4, 100])
def test_rows_at_once_change_no_loss_in_half_precision(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def computed() -> list[torch.Tensor]:
        ours = states_and_weight()
        found = half_losses(*ours, None, TARGETS, 0.1, torch.bfloat16)
        found.smoothed.backward()
        return [found.smoothed.detach(), found.nll, *(tensor.grad for tensor in ours if tensor.grad is not None)]

    expected = computed()
    monkeypatch.setattr("cclm.model.loss.FEWEST_ROWS", rows)
    monkeypatch.setattr("cclm.model.loss.HALF_LOGITS", 1)
    for some, all_at_once in zip(computed(), expected, strict=True):
        torch.testing.assert_close(some, all_at_once, rtol=2**-6, atol=2**-6)


def test_losses_in_half_precision_need_no_gradient() -> None:
    states, weight = states_and_weight()
    with torch.no_grad():
        found = half_losses(states, weight, None, TARGETS, 0.1, torch.bfloat16)
    learning = half_losses(states, weight.detach(), None, TARGETS, 0.1, torch.bfloat16)
    assert torch.equal(found.nll, learning.nll)
    learning.smoothed.backward()
    assert states.grad is not None
    with pytest.raises(RuntimeError, match="can be computed only once"):
        learning.smoothed.backward()
