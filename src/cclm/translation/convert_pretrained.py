"""Writes a trained model of Hugging Face's as a CTranslate2 model, with CTranslate2's own converter for its family."""

import json
from pathlib import Path
from typing import Any

import torch

from cclm.atomic import atomic_folder
from cclm.data.prepared import Prepared
from cclm.data.pretrained import PretrainedFolder
from cclm.formats.base import parse_json
from cclm.model.interface import TranslationModel
from cclm.model.pretrained import Pretrained
from cclm.translation.translator import ADVICE, POSITIONS


def convert_pretrained(trained: TranslationModel, prepared: Prepared, folder: Path, quantization: str | None) -> None:
    """Writes the CTranslate2 model into `folder` atomically. The model appends </s> to a source itself, as ours do."""
    from ctranslate2.converters import TransformersConverter  # type: ignore[import-untyped]  # takes seconds

    assert isinstance(trained, Pretrained)
    model: Any = trained.merged()
    symbols = list(prepared.other.symbols)
    if model.config.model_type == "marian":
        symbols = _with_padding_last(model, symbols, trained.pad)
    model.config.vocab_size = len(symbols)
    if model.config.model_type == "mbart":
        # Keys that the hub's models have and that transformers no longer knows. Without the class of the tokenizer the
        # converter takes the model for an mBART-25.
        model.config.tokenizer_class = "MBart50Tokenizer"
        model.config.normalize_before = model.config.normalize_embedding = True

    class Converter(TransformersConverter):  # type: ignore[misc]
        """Takes the model and the symbols from memory."""

        def load_model(self, *_: object, **__: object) -> Any:
            return model

        def load_tokenizer(self, *_: object, **__: object) -> Any:
            return _Symbols(symbols)

    with atomic_folder(folder, is_ours=lambda old: (old / "model.bin").is_file()) as staging:
        Converter(str(prepared.folder / "models" / "tokenizer")).convert(
            str(staging), quantization=quantization, force=True
        )
        path = staging / "config.json"
        settings = parse_json(path.read_bytes(), str(path), ADVICE)
        assert isinstance(settings, dict)
        path.write_text(json.dumps({**settings, "add_source_eos": True}, indent=2) + "\n", encoding="utf-8")


def positions_of(prepared: Prepared) -> int:
    """The longest sentence that the model takes, by its configuration."""
    config = PretrainedFolder.read(prepared.folder / "models" / "tokenizer").config
    return min(POSITIONS, int(config.get("max_position_embeddings", POSITIONS)))


@torch.no_grad()
def _with_padding_last(model: Any, symbols: list[str], pad: int) -> list[str]:
    """Moves the row of padding to the end: the converter removes the last row of a Marian model, whatever it is."""
    order = [*(i for i in range(len(symbols)) if i != pad), pad]
    layers = (model.get_input_embeddings(), model.model.encoder.embed_tokens, model.model.decoder.embed_tokens)
    for weight in {id(layer.weight): layer.weight for layer in (*layers, model.get_output_embeddings())}.values():
        weight.copy_(weight[order])
    model.final_logits_bias.copy_(model.final_logits_bias[:, order])
    return [*(symbols[i] for i in order[:-1]), "<pad>"]


class _Symbols:
    """What the converter asks of a tokenizer. The symbols are ours to give: transformers' tokenizers do not count new
    language codes, or count them twice."""

    bos_token, eos_token, unk_token = "<s>", "</s>", "<unk>"
    num_madeup_words = 0

    def __init__(self, symbols: list[str]) -> None:
        self._symbols = symbols
        self.special_tokens_map: dict[str, list[str]] = {}
        self.unk_token_id = symbols.index(self.unk_token)

    def get_vocab(self) -> dict[str, int]:
        return {symbol: i for i, symbol in enumerate(self._symbols)}

    def convert_ids_to_tokens(self, number: int) -> str:
        return self._symbols[number]
