"""Bits per target token: by hand, and whatever stands in the labels."""

import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

import cclm
from cclm.integrations.bits import output_bits

# Two classes; logit differences of log(3) give probabilities of 3/4 and 1/4: log2(4/3) and 2 bits.
LIKELY, UNLIKELY = math.log2(4 / 3), 2.0
LOGITS = torch.tensor([[[math.log(3), 0.0]] * 3, [[math.log(3), 0.0]] * 3])


def test_the_mean_is_over_tokens_not_over_batches() -> None:
    long, short = torch.tensor([[0, 0, 0], [0, 0, -100]]), torch.tensor([[1, -100, -100], [-100, -100, -100]])
    assert cclm.bits_per_token([(LOGITS, long), (LOGITS, short)]) == pytest.approx((5 * LIKELY + UNLIKELY) / 6)


def test_a_decoder_only_model_predicts_the_next_label() -> None:
    labels = torch.tensor([[1, 0, 0], [1, 0, -100]])  # the first one is predicted by nothing
    assert cclm.bits_per_token([(LOGITS, labels)], shift=True) == pytest.approx(LIKELY)


def test_a_classifier_has_one_target_per_example() -> None:
    assert cclm.bits_per_token([(LOGITS[:, 0], torch.tensor([0, 1]))]) == pytest.approx((LIKELY + UNLIKELY) / 2)


def test_no_target_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="bits_per_token: no target token"):
        cclm.bits_per_token([(LOGITS, torch.full((2, 3), -100))])


def test_padding_in_the_labels_is_no_target_unless_it_ends_sentences() -> None:
    labels = torch.tensor([[0, 1, 1], [0, 0, 1]])
    config = SimpleNamespace(pad_token_id=1, eos_token_id=2, is_encoder_decoder=True)
    outputs = SimpleNamespace(logits=LOGITS)
    assert output_bits(outputs, {"labels": labels}, config)[:, 1].tolist() == [1, 2]
    config.eos_token_id = 1  # padded with the end of sentence: which of them is a target cannot be known
    assert output_bits(outputs, {"labels": labels}, config)[:, 1].tolist() == [3, 3]


def test_a_model_without_logits_is_refused() -> None:
    with pytest.raises(ValueError, match="the model returned no logits"):
        output_bits({"loss": 1.0}, {"labels": torch.tensor([[0]])}, SimpleNamespace())


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import cclm; cclm.bits_per_token([])", "cclm.bits_per_token needs torch: pip install 'ccl-m[train]'"),
        (
            "import cclm.integrations.transformers",
            "cclm.integrations.transformers needs torch: pip install 'ccl-m[hf]'",
        ),
    ],
)
def test_a_missing_extra_is_named(program: str, message: str) -> None:
    hidden = f"import sys; sys.modules['torch'] = None; {program}"  # as if it was not installed
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {message}"
