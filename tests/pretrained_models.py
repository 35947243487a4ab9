"""Tiny models of the families that training can start from, with SentencePiece tokenizers; nothing is downloaded."""

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from corpora import HRLS, LRLS, sentences
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    NllbTokenizer,
)

FAMILIES = ("nllb", "m2m100", "mbart50", "marian")
CODES = {
    "nllb": {"tur": "tur_Latn", "por": "por_Latn", "aze": "azj_Latn", "glg": "glg_Latn", "eng": "eng_Latn"},
    "m2m100": {"tur": "tr", "por": "pt", "aze": "az", "glg": "gl", "eng": "en"},
    "mbart50": {"tur": "tr_TR", "por": "pt_XX", "aze": "az_AZ", "glg": "gl_ES", "eng": "en_XX"},
}
SHAPE: dict[str, Any] = {
    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128, "dropout": 0.1,
    "attention_dropout": 0.1, "activation_dropout": 0.0, "init_std": 0.1,
}  # fmt: skip


def pairs(count: int, start: int = 0) -> dict[str, list[tuple[str, str]]]:
    """(English, other) sentences of every language."""
    return {lang: sentences(lang, start + 5000 * i, count) for i, lang in enumerate((*HRLS, *LRLS))}


def subwords(folder: Path, kind: str, texts: Sequence[str]) -> Path:
    """A SentencePiece model, as the real tokenizers have one.

    A unigram model considers only strings that several words have: every word occurs with an ending, too.
    """
    words = sorted({word for text in texts for word in text.split()})
    texts = [*texts, *(f"{word}a {word}e" for word in words if word.isalpha() for _ in range(20))]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / kind), vocab_size=400, hard_vocab_limit=False,
        model_type=kind, minloglevel=2,
    )  # fmt: skip
    return folder / f"{kind}.model"


def tokenizer(family: str, folder: Path, texts: Sequence[str]) -> Any:
    """The tokenizer of a family, made from a SentencePiece model of these texts."""
    made = folder.with_name(f"{folder.name}-subwords")
    made.mkdir(parents=True)
    model = subwords(made, "bpe" if family == "nllb" else "unigram", texts)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    names = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size())]
    if family in ("nllb", "mbart50"):
        shutil.copy(model, made / "sentencepiece.bpe.model")
        if family == "mbart50":
            return MBart50Tokenizer.from_pretrained(made)
        NllbTokenizer.from_pretrained(made).save_pretrained(made)
        # Loaded from SentencePiece alone, the tokenizer has no language codes; the real one's tokenizer.json has them.
        learnt = json.loads((made / "tokenizer.json").read_text(encoding="utf-8"))["model"]
        return NllbTokenizer(vocab=learnt["vocab"], merges=[tuple(merge) for merge in learnt["merges"]])
    special = ["<s>", "<pad>", "</s>", "<unk>"] if family == "m2m100" else ["</s>", "<unk>"]
    vocabulary = [*special, *names] + (["<pad>"] if family == "marian" else [])
    (made / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(vocabulary)}), encoding="utf-8")
    if family == "m2m100":
        return M2M100Tokenizer(str(made / "vocab.json"), str(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about sacremoses
        return MarianTokenizer(str(model), str(model), str(made / "vocab.json"))


def untrained(family: str, symbols: int) -> Any:
    """The model of a family with random parameters."""
    torch.manual_seed(1)
    if family == "marian":
        pad = symbols - 1
        config = MarianConfig(
            vocab_size=symbols, decoder_vocab_size=symbols, pad_token_id=pad, eos_token_id=0, bos_token_id=None,
            decoder_start_token_id=pad, forced_eos_token_id=0, activation_function="swish", scale_embedding=True,
            **SHAPE,
        )  # fmt: skip
        model = MarianMTModel(config)
        model.generation_config.bad_words_ids = [[pad]]
        return model
    ids = {"vocab_size": symbols, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2}
    if family == "mbart50":
        config = MBartConfig(
            **ids, **SHAPE, tokenizer_class="MBart50Tokenizer", scale_embedding=True, activation_function="gelu"
        )
        return MBartForConditionalGeneration(config)
    config = M2M100Config(**ids, **SHAPE, scale_embedding=True, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    return M2M100ForConditionalGeneration(config)


def batch(tok: Any, family: str, source: Sequence[str], target: Sequence[str], lang: str) -> dict[str, torch.Tensor]:
    """Sentences as transformers wants them, with the labels that its own loss is computed from."""
    if family in CODES:
        tok.src_lang, tok.tgt_lang = CODES[family][lang], CODES[family]["eng"]
    made = tok(list(source), text_target=list(target), return_tensors="pt", padding=True)
    labels = made["labels"].masked_fill(made["labels"] == tok.pad_token_id, -100)
    return {"input_ids": made["input_ids"], "attention_mask": made["attention_mask"], "labels": labels}


def save(family: str, folder: Path, *, steps: int = 250) -> Path:
    """A model of a family in a folder as the hub has it, trained a little so that its output is not noise."""
    texts = pairs(400)
    tok = tokenizer(family, folder, [side for found in texts.values() for pair in found for side in pair])
    model = untrained(family, len(tok) + (108 if family == "m2m100" else 0))  # 100 codes and 8 made-up words
    learn(model, tok, family, texts, steps)
    tok.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def learn(model: Any, tok: Any, family: str, texts: dict[str, list[tuple[str, str]]], steps: int) -> None:
    """Plain training with transformers' own loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    languages = list(texts)
    for step in range(steps):
        lang = languages[step % len(languages)]
        chosen = [texts[lang][(17 * step + 31 * i) % len(texts[lang])] for i in range(24)]
        made = batch(tok, family, [pair[1] for pair in chosen], [pair[0] for pair in chosen], lang)
        model(**made).loss.backward()
        if family == "marian":  # its decoder starts from the embedding of padding, which must stay zero
            model.get_input_embeddings().weight.grad[tok.pad_token_id] = 0
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def loaded(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, as transformers loads them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
