"""A small model and padded toy sentences, for the tests of the model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cclm.model import Shape, Transformer

SETTINGS: dict[str, Any] = {
    "source_symbols": 11,
    "target_symbols": 13,
    "layers": 2,
    "heads": 2,
    "width": 8,
    "feed_forward": 12,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}


def shape(**changes: Any) -> Shape:
    return Shape(**(SETTINGS | changes))


def stirred(model: Transformer, seed: int = 0) -> Transformer:
    """The model with every parameter, biases and norms too, moved off its initial value: nothing hides in zeros."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * 0.3
    return model


def padded(sentences: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, sentences))
    return torch.tensor([[*sentence, *[0] * (longest - len(sentence))] for sentence in sentences])


SOURCES = [[4, 5, 6, 7, 2], [8, 2], [9, 10, 3, 2]]
TARGET_INPUTS = [[1, 4, 5], [1, 6, 7, 8, 9, 12], [1, 10]]
TARGET_OUTPUTS = [[4, 5, 2], [6, 7, 8, 9, 12, 2], [10, 2]]
