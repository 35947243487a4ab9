"""Tiny models of Hugging Face's architectures and toy languages for them: nothing is downloaded."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    NllbTokenizer,
    PreTrainedModel,
    Seq2SeqTrainingArguments,
)

from cclm import AllAtOnce, Curriculum, InverseCompetence
from cclm.rng import key, uniform

PAD, EOS, VOCABULARY = 1, 2, 40
CODES = {"tur": 34, "rus": 35, "aze": 36}
"""The first token of a sentence is its language."""
SIZES = {"tur": 60, "rus": 50, "aze": 12}
BENCHMARK = {"tur": 2.0, "rus": 2.0, "aze": 3.0}


def sentence_pairs(lang: str, count: int) -> list[dict[str, list[int]]]:
    """A toy language: the translation is the sentence with every word moved by a number of the language's own."""
    shift = sum(map(ord, lang)) % 7
    pairs = []
    for number in range(count):
        draw = key(1, "sentence", lang, number)
        words = [4 + int(30 * uniform(draw, place)) for place in range(3 + int(6 * uniform(draw, 100)))]
        labels = [4 + (word + shift) % 30 for word in words]
        source = [CODES[lang], *words, EOS]
        pairs.append({"input_ids": source, "attention_mask": [1] * len(source), "labels": [*labels, EOS]})
    return pairs


def train_sets(sizes: dict[str, int] = SIZES) -> dict[str, list[dict[str, list[int]]]]:
    return {lang: sentence_pairs(lang, size) for lang, size in sizes.items()}


def dev_sets(sizes: dict[str, int] = SIZES, count: int = 7) -> dict[str, list[dict[str, list[int]]]]:
    return {lang: sentence_pairs(lang, size + count)[size:] for lang, size in sizes.items()}


def collate(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """A batch, padded on the right."""
    padding = {"input_ids": PAD, "attention_mask": 0, "labels": -100}
    return {name: padded([example[name] for example in examples], fill) for name, fill in padding.items()}


def collate_for_smoothing(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """The same with the decoder's input: with label smoothing, the Trainer hides the labels from the model."""
    return {**collate(examples), "decoder_input_ids": padded([[EOS, *each["labels"][:-1]] for each in examples], PAD)}


def padded(rows: list[list[int]], fill: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])


def languages(input_ids: torch.Tensor) -> list[str]:
    """The language of each sentence of a batch."""
    names = {code: lang for lang, code in CODES.items()}
    return [names[code] for code in input_ids[:, 0].tolist()]


def m2m100(dropout: float = 0.1) -> PreTrainedModel:
    torch.manual_seed(1)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = M2M100Config(
        vocab_size=VOCABULARY, d_model=32, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        dropout=dropout, attention_dropout=dropout, activation_dropout=0.0, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, pad_token_id=PAD, eos_token_id=EOS, bos_token_id=0, **shape,
    )  # fmt: skip
    return M2M100ForConditionalGeneration(config)


def nllb_tokenizer() -> NllbTokenizer:
    """NLLB's tokenizer with all its language codes, and letters for subwords."""
    letters = "▁abcdefghijklmnopqrstuvwxyzабвгдежзийклмнопрстуфхцчшщыьэюяіўçğışöüə."
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *letters]
    return NllbTokenizer(vocab={piece: place for place, piece in enumerate(pieces)}, merges=[])


def nllb(dropout: float = 0.1) -> PreTrainedModel:
    """NLLB's architecture is that of M2M100."""
    torch.manual_seed(1)
    shape = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = M2M100Config(
        vocab_size=len(nllb_tokenizer()), d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, dropout=dropout,
        max_position_embeddings=128, scale_embedding=True, **shape,
    )  # fmt: skip
    return M2M100ForConditionalGeneration(config)


def marian(dropout: float = 0.1) -> PreTrainedModel:
    torch.manual_seed(1)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = MarianConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=64,
        dropout=dropout, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD, forced_eos_token_id=EOS,
        **shape,
    )  # fmt: skip
    return MarianMTModel(config)


def arguments(folder: Path, **settings: Any) -> Seq2SeqTrainingArguments:
    """Small and quick, everything logged; settings replace these."""
    return Seq2SeqTrainingArguments(
        str(folder),
        **{
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 4,
            "learning_rate": 1e-2,
            "max_steps": 12,
            "eval_strategy": "steps",
            "eval_steps": 3,
            "save_strategy": "no",
            "logging_steps": 1,
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
            "dataloader_pin_memory": False,
        }
        | settings,
    )


def curriculum(**changes: Any) -> Curriculum:
    """One whose weights change in every round."""
    settings: dict[str, Any] = {"gate": AllAtOnce(), "sampler": InverseCompetence(exponent=8), "benchmark": BENCHMARK}
    settings |= {"sizes": SIZES} | changes
    return Curriculum(settings.pop("gate"), settings.pop("sampler"), **settings)
