"""The loss compared with torch's, and its unit."""

import math

import pytest
import torch
import torch.nn.functional as F
from toy_model import TARGET_OUTPUTS, padded

from cclm.model import bits, losses
from cclm.model.loss import losses_in_chunks, packed_losses

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


@pytest.mark.parametrize("overwrite", [True, False])
def test_the_gradient_of_half_precision_logits_is_that_of_float32_rounded(overwrite: bool) -> None:
    half = logits(dtype=torch.bfloat16)
    expected = half.float().requires_grad_()
    (packed_losses(expected, TARGETS, 0.1).smoothed * 0.3).backward()
    ours = half.clone().requires_grad_()
    (packed_losses(ours * 1, TARGETS, 0.1, overwrite=overwrite).smoothed * 0.3).backward()
    assert ours.grad is not None
    assert expected.grad is not None
    torch.testing.assert_close(ours.grad.float(), expected.grad, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_overwriting_the_logits_changes_no_number(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cclm.model.loss.CHUNK", 3 * 13)
    found = []
    for overwrite in (True, False):
        given = logits(dtype=dtype).requires_grad_()
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
