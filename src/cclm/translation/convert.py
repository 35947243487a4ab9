"""Writes our weights as a CTranslate2 model: names and shapes of every weight, positions, vocabularies."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec  # type: ignore[import-untyped]
from numpy.typing import NDArray

from cclm.atomic import atomic_folder
from cclm.translation.translator import POSITIONS, ExportError

# P positions, D model

Array = NDArray[Any]
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
"""The first symbols of every vocabulary."""
FIRST_POSITION = 2
"""The position of the first token, as in fairseq. CTranslate2's own table would begin with 1."""


def convert(
    state: Mapping[str, Array],
    *,
    heads: int,
    source_symbols: Sequence[str],
    target_symbols: Sequence[str],
    folder: Path,
    quantization: str | None = None,
) -> None:
    """Writes the CTranslate2 model of these weights into `folder` atomically, replacing a model that is there.

    A state without `source_embedding.weight` has one vocabulary for both sides. The model appends </s> to a source
    itself; the first symbol of a translation, <s> or a language tag, comes from the caller. `quantization` is one of
    CTranslate2's ("int8", "float16", ...). The weights in `state` are not modified.
    """
    _check_symbols("source", source_symbols)
    _check_symbols("target", target_symbols)
    # The steps of ctranslate2.converters. Importing that module takes seconds: it imports the checkpoint readers of
    # every other toolkit.
    spec = _specification(_Weights(state), heads, list(source_symbols), list(target_symbols))
    spec.validate()
    spec.optimize(quantization=quantization)
    with atomic_folder(folder, is_ours=lambda old: (old / "model.bin").is_file()) as staging:
        spec.save(str(staging))


def positions(width: int, rows: int = POSITIONS) -> NDArray[np.float32]:
    """(P, D): sines, then cosines, of frequencies that fall from 1 to 1/10000; row 0 belongs to the first token."""
    half = width // 2
    if width % 2 or half < 2:
        raise ExportError(f"sinusoidal positions need an even width of at least 4; got {width}")
    frequencies_D = np.exp(-np.log(10000.0) * np.arange(half) / (half - 1))
    angles_PD = np.arange(FIRST_POSITION, FIRST_POSITION + rows)[:, None] * frequencies_D
    return np.concatenate([np.sin(angles_PD), np.cos(angles_PD)], axis=1).astype(np.float32)


def _specification(weights: "_Weights", heads: int, source: list[str], target: list[str]) -> Any:
    """CTranslate2's specification of a pre-norm Transformer, filled with these weights."""
    target_VD = weights.take("target_embedding.weight")
    source_VD = weights.take("source_embedding.weight") if weights.have("source_embedding.weight") else target_VD
    if source_VD is target_VD and source != target:
        raise ExportError("there is one embedding for both sides, but source and target symbols differ")
    _check_embedding("source", source_VD, source, heads)
    _check_embedding("target", target_VD, target, heads)
    spec = TransformerSpec.from_config((weights.layers("encoder"), weights.layers("decoder")), heads, pre_norm=True)
    spec.encoder.embeddings[0].weight = source_VD
    spec.decoder.embeddings.weight = target_VD
    spec.decoder.projection.weight = target_VD  # tied: CTranslate2 writes it once, the other is an alias
    for name, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        side.position_encodings.encodings = positions(target_VD.shape[1])
        _set_norm(side.layer_norm, weights, f"{name}.norm")
        for i, layer in enumerate(side.layer):
            _set_layer(layer, weights, f"{name}.layers.{i}", cross=name == "decoder")
    weights.refuse_remaining()
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = None
    return spec


class _Weights:
    """The weights by name. Each must be taken exactly once, so that none is forgotten."""

    def __init__(self, state: Mapping[str, Array]) -> None:
        self._remaining = dict(state)

    def have(self, name: str) -> bool:
        return name in self._remaining

    def take(self, name: str) -> NDArray[np.float32]:
        """A copy of a weight: int8 conversion scales arrays in place, and these may belong to a model in training."""
        if name not in self._remaining:
            raise ExportError(f"no weight {name} in the state")
        return np.array(self._remaining.pop(name), dtype=np.float32, copy=True, order="C")

    def layers(self, side: str) -> int:
        matches = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in self._remaining)
        return max((int(match[1]) + 1 for match in matches if match), default=0)

    def refuse_remaining(self) -> None:
        if self._remaining:
            raise ExportError(f"weights that the model does not have: {', '.join(sorted(self._remaining))}")


def _set_layer(spec: Any, weights: _Weights, name: str, *, cross: bool) -> None:
    _set_norm(spec.self_attention.layer_norm, weights, f"{name}.self_attention_norm")
    _set_attention(spec.self_attention, weights, f"{name}.self_attention", [["query", "key", "value"], ["output"]])
    if cross:
        _set_norm(spec.attention.layer_norm, weights, f"{name}.cross_attention_norm")
        _set_attention(spec.attention, weights, f"{name}.cross_attention", [["query"], ["key", "value"], ["output"]])
    _set_norm(spec.ffn.layer_norm, weights, f"{name}.feed_forward_norm")
    _set_linear(spec.ffn.linear_0, weights, f"{name}.feed_forward.inner")
    _set_linear(spec.ffn.linear_1, weights, f"{name}.feed_forward.outer")


def _set_attention(spec: Any, weights: _Weights, name: str, fused: list[list[str]]) -> None:
    """CTranslate2 multiplies projections of the same input at once: their rows are stacked into one matrix."""
    for linear, parts in zip(spec.linear, fused, strict=True):
        _set_linear(linear, weights, *(f"{name}.{part}" for part in parts))


def _set_linear(spec: Any, weights: _Weights, *names: str) -> None:
    spec.weight = np.concatenate([weights.take(f"{name}.weight") for name in names])
    spec.bias = np.concatenate([weights.take(f"{name}.bias") for name in names])


def _set_norm(spec: Any, weights: _Weights, name: str) -> None:
    spec.gamma, spec.beta = weights.take(f"{name}.weight"), weights.take(f"{name}.bias")


def _check_embedding(side: str, embedding_VD: Array, symbols: list[str], heads: int) -> None:
    if len(embedding_VD) != len(symbols):
        raise ExportError(f"the {side} embedding has {len(embedding_VD)} rows for {len(symbols)} symbols")
    if heads < 1 or embedding_VD.shape[1] % heads:
        raise ExportError(f"a width of {embedding_VD.shape[1]} cannot be divided among {heads} heads")


def _check_symbols(side: str, symbols: Sequence[str]) -> None:
    if tuple(symbols[: len(SPECIALS)]) != SPECIALS:
        raise ExportError(f"{side} symbols must begin with {' '.join(SPECIALS)}; got {' '.join(symbols[:4])}")
    twice = [symbol for symbol, count in Counter(symbols).items() if count > 1]
    if twice:
        raise ExportError(f"{side} symbols must be distinct; repeated: {', '.join(map(repr, twice[:5]))}")
