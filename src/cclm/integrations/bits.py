"""Bits per target token: the loss that competence is measured by, whatever a trainer's own loss averages over.

B examples, T target tokens, V vocabulary
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

IGNORED = -100
"""The label of positions that are no target, as in PyTorch and Hugging Face."""


def bits_per_token(batches: Iterable[tuple[Tensor, Tensor]], *, shift: bool = False) -> float:
    """The mean loss over all target tokens of all batches, in bits; each batch is (logits, labels).

    `shift=True` is for decoder-only models, whose logits at a position predict the next label. Positions with label
    -100 are no targets.
    """
    bits = tokens = 0.0
    for logits, labels in batches:
        row_bits, row_tokens = target_bits(logits, labels, shift=shift).double().sum(dim=0).tolist()
        bits, tokens = bits + row_bits, tokens + row_tokens
    if not tokens:
        raise ValueError(f"bits_per_token: no target token; every label is {IGNORED}, or there is no batch")
    return bits / tokens


def target_bits(logits_BTV: Tensor, labels_BT: Tensor, *, shift: bool) -> Tensor:
    """Bits and number of target tokens per example: B x 2."""
    labels_BT = labels_BT.to(logits_BTV.device)
    if shift:
        logits_BTV, labels_BT = logits_BTV[:, :-1], labels_BT[:, 1:]
    nats = torch.nn.functional.cross_entropy(
        logits_BTV.reshape(-1, logits_BTV.shape[-1]).float(),
        labels_BT.reshape(-1),
        ignore_index=IGNORED,
        reduction="none",
    )
    bits_B = nats.reshape(len(labels_BT), -1).sum(dim=1) / math.log(2)
    tokens_B = (labels_BT != IGNORED).reshape(len(labels_BT), -1).sum(dim=1)
    return torch.stack([bits_B, tokens_B.float()], dim=1)


def output_bits(outputs: Any, inputs: Any, config: Any) -> Tensor:
    """The same for what a Hugging Face model returned for these inputs: B x 2.

    Padding is no target, even where a collator left it in the labels. TRL's fused output layer returns the
    log-probabilities of the labels in place of logits.
    """
    log_probs, mask = _part(outputs, "log_probs"), _part(outputs, "label_mask")
    if log_probs is not None and mask is not None:
        bits = -log_probs.float().reshape(len(mask), -1).sum(dim=1) / math.log(2)
        return torch.stack([bits, mask.reshape(len(mask), -1).sum(dim=1).float()], dim=1)
    logits = _part(outputs, "logits")
    if logits is None:
        raise ValueError("the model returned no logits, so that bits per token are unknown: is use_liger_kernel set?")
    labels, pad = inputs["labels"], getattr(config, "pad_token_id", None)
    if pad is not None and pad != getattr(config, "eos_token_id", None):
        labels = labels.masked_fill(labels == pad, IGNORED)
    return target_bits(logits, labels, shift=not getattr(config, "is_encoder_decoder", False))


def _part(outputs: Any, name: str) -> Any:
    return outputs.get(name) if isinstance(outputs, dict) else getattr(outputs, name, None)
