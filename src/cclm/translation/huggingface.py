"""A trained model as weights of M2M100, with stock tokenizers: for people who have transformers and not cclm.

FOLDER/
  config.json, model.safetensors     transformers.M2M100ForConditionalGeneration
  generation_config.json             beam search, without <unk> and source symbols
  tokenizers/NAME/                   one per task: tokenizer.json, and its generation_config.json
  subwords/                          the SentencePiece models, which translate.py uses
"""

import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cclm.data.cleaning import clean
from cclm.data.vocabulary import BOS, EOS, PAD, SPECIALS, UNK
from cclm.formats.export import Checked, Search
from cclm.training.building import shape_of
from cclm.training.tasks import Task
from cclm.translation.export import State, TrainedFor, dev_samples, own_pieces, trained
from cclm.translation.tokenizer import PairTokens, Table, segmented, tokenizer_of
from cclm.translation.translator import POSITIONS, SHORT, ExportError, Sample

TOLERANCE = 1e-4
"""The largest difference of a logit that is allowed."""
SENTENCES = 1000
"""Sentences per task on which a tokenizer is compared with SentencePiece."""
MAX_DIFFERENT = 0.01
"""The share of sentences that a tokenizer may segment differently. Two segmentations whose scores are equal but for
rounding are a matter of float32 (SentencePiece) or float64 (tokenizers); a share above this is an error of ours."""
ODD = ("</s> <s> <pad> <unk> <2eng>", "a\u00a0b\u3000c\tde", "\ufeff a\x00b\u200bc ", "▁a ▁ b▁", "ﬁ ½ ① Ａ ™️ …", "  ")
"""Text that a tokenizer may get wrong: reserved symbols as text, white space, control and compatibility characters."""
_ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_LAYER = {
    **{f"self_attention.{ours}": f"self_attn.{theirs}" for ours, theirs in _ATTENTION.items()},
    **{f"cross_attention.{ours}": f"encoder_attn.{theirs}" for ours, theirs in _ATTENTION.items()},
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
}


def write_model(state: State, model: TrainedFor, search: Search, folder: Path) -> None:
    """Writes weights, configuration, tokenizers and SentencePiece models."""
    from transformers import M2M100ForConditionalGeneration

    table = table_of(model)
    network = M2M100ForConditionalGeneration(_config(model, table))
    missing, unexpected = network.load_state_dict(weights(state, table), strict=False)
    if unexpected or set(missing) - set(network.all_tied_weights_keys):
        raise ExportError(f"weights that M2M100 does not have or lacks: {', '.join([*unexpected, *missing])}")
    network.generation_config = _generation(table, search, table.target_id(BOS), None)
    network.save_pretrained(folder)
    (folder / "subwords").mkdir()
    own = own_pieces(model) if search.restrict else {}
    for name, task in model.tasks.items():
        pair = model.pair(task)
        tokens, place = _pair_tokens(task, table), folder / "tokenizers" / name
        shutil.copyfile(model.prepared.folder / "models" / pair.subwords, folder / "subwords" / pair.subwords)
        tokenizer_of(folder / "subwords" / pair.subwords, table, tokens).save_pretrained(place)
        allowed = [table.target_id(model.target.ids[piece]) for piece in own[str(pair.start)]] if own else None
        _generation(table, search, tokens.start, allowed).save_pretrained(place)


def table_of(model: TrainedFor) -> Table:
    """The one table of both vocabularies."""
    reserved = len(SPECIALS) + len(model.target.tags)
    return Table(model.target.symbols, model.source.symbols, model.prepared.joint, reserved)


def weights(state: Mapping[str, Tensor], table: Table) -> dict[str, Tensor]:
    """Copies of our weights under M2M100's names."""
    target_VD = state["target_embedding.weight"][[table.target_id(row) for row in range(len(table.target))]]
    sides = [target_VD] if table.joint else [target_VD, state["source_embedding.weight"]]
    made = {"model.shared.weight": torch.cat(sides)}
    for name, tensor in state.items():
        side, _, rest = name.partition(".")
        if side in ("encoder", "decoder"):
            made[f"model.{side}.{_renamed(rest)}"] = tensor.clone()
    return made


def _renamed(name: str) -> str:
    """`layers.0.feed_forward.inner.weight` as `layers.0.fc1.weight`; the norm after all layers is `layer_norm`."""
    if not name.startswith("layers."):
        return name.replace("norm.", "layer_norm.")
    _, number, rest = name.split(".", 2)
    part, _, kind = rest.rpartition(".")
    return f"layers.{number}.{_LAYER[part]}.{kind}"


def _config(model: TrainedFor, table: Table) -> Any:
    from transformers import M2M100Config

    ours = shape_of(model.recipe, model.prepared)  # for a run that continues another, the sizes of that one
    return M2M100Config(
        vocab_size=len(table),
        d_model=ours.width,
        encoder_layers=ours.layers,
        decoder_layers=ours.layers,
        encoder_attention_heads=ours.heads,
        decoder_attention_heads=ours.heads,
        encoder_ffn_dim=ours.feed_forward,
        decoder_ffn_dim=ours.feed_forward,
        dropout=ours.dropout,
        attention_dropout=ours.attention_dropout,
        activation_dropout=ours.activation_dropout,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        max_position_embeddings=POSITIONS,
        scale_embedding=True,
        bos_token_id=table.target_id(BOS),
        pad_token_id=table.target_id(PAD),
        eos_token_id=EOS,
        decoder_start_token_id=table.target_id(BOS),
    )


def _generation(table: Table, search: Search, start: int, allowed: list[int] | None) -> Any:
    """The settings of `generate` that search as CTranslate2 does: the same beam, candidates and probabilities.

    `allowed` are the rows of a target language's pieces; as in CTranslate2, special symbols stay possible beside them.
    """
    from transformers import GenerationConfig

    suppressed = {UNK, *table.source_rows}
    if allowed is not None:
        suppressed |= set(range(len(table.target))) - {*allowed, start, *map(table.target_id, (PAD, BOS, EOS))}
    return GenerationConfig(  # type: ignore[no-untyped-call]
        bos_token_id=table.target_id(BOS),
        pad_token_id=table.target_id(PAD),
        eos_token_id=EOS,
        decoder_start_token_id=start,
        num_beams=search.beam,
        length_penalty=search.length_penalty,
        early_stopping=search.beam > 1,
        max_new_tokens=2 * SHORT,
        suppress_tokens=sorted(suppressed),
        renormalize_logits=True,
    )


def _pair_tokens(task: Task, table: Table) -> PairTokens:
    tag, start = task.direction.source_tag, task.direction.target_tag
    return PairTokens(
        tag=None if tag is None else table.source_id(tag),
        start=table.target_id(BOS if start is None else start),
    )


# --- verification -----------------------------------------------------------------------------------------------------


def check(state: State, model: TrainedFor, folder: Path) -> Checked:
    """Loads the folder with transformers, as its users will, and compares it with the trained model; ExportError."""
    samples = dev_samples(model)
    largest = _largest_difference(state, model, folder, samples)
    if not largest <= TOLERANCE:
        raise ExportError(f"its logits are not the trained model's: they differ by up to {largest:.2g}")
    different = {name: _different_segmentations(model, task, folder, name) for name, task in model.tasks.items()}
    return Checked(samples=len(samples), largest_difference=largest, different_segmentations=different)


@torch.no_grad()
def _largest_difference(state: State, model: TrainedFor, folder: Path, samples: list[Sample]) -> float:
    """Over the logits of all target symbols after every token of the samples."""
    from transformers import AutoModelForSeq2SeqLM

    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    ours, table = trained(model, state), table_of(model)
    columns = [table.target_id(number) for number in range(len(table.target))]
    source_ids = {symbol: i for i, symbol in enumerate(model.source.symbols)}
    target_ids = {symbol: i for i, symbol in enumerate(model.target.symbols)}
    largest = torch.zeros(())
    for source, target in samples:
        from_ids, to_ids = [*(source_ids[s] for s in source), EOS], [target_ids[s] for s in target]
        expected = ours(torch.tensor([from_ids]), torch.tensor([to_ids]))
        found = theirs(
            input_ids=torch.tensor([list(map(table.source_id, from_ids))]),
            decoder_input_ids=torch.tensor([list(map(table.target_id, to_ids))]),
        ).logits[0][:, columns]
        largest = torch.maximum(largest, (found - expected).abs().max())  # unlike max(), it propagates NaN
    return float(largest)


def _different_segmentations(model: TrainedFor, task: Task, folder: Path, name: str) -> tuple[int, int]:
    """The number of sentences that the tokenizer segments in another way than SentencePiece, and of those compared."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, subfolder=f"tokenizers/{name}", local_files_only=True)
    table, tokens = table_of(model), _pair_tokens(task, table_of(model))
    texts = [*ODD, *islice(sentences(model, task), SENTENCES)]
    segmenter = model.prepared.segmenter(task.source)
    rows = [table.source_id(i) for i in model.source.table(segmenter).tolist()]
    before = [] if tokens.tag is None else [tokens.tag]
    expected = [
        [*before, *(rows[piece] for piece in pieces), table.source_id(EOS)]
        for pieces in segmenter.encode([clean(text)[0] for text in texts])
    ]
    found = segmented(tokenizer, texts)
    different = [text for text, a, b in zip(texts, found, expected, strict=True) if a != b]
    if len(different) > MAX_DIFFERENT * len(texts):
        raise ExportError(
            f"the tokenizer of {name} segments {len(different)} of {len(texts)} sentences in another way than"
            f" SentencePiece, as {different[0]!r:.60}"
        )
    return len(different), len(texts)


def sentences(model: TrainedFor, task: Task) -> Iterator[str]:
    """Dev and test sources of a task, and the first of them with their marks as characters of their own."""
    for split in ("dev", "test"):
        if split in model.prepared.sizes[task.language]:
            pairs = model.prepared.text(task.language, split, model.recipe.data)
            texts = [other if task.direction.to_pivot else pivot for pivot, other in pairs]
            yield from (unicodedata.normalize("NFD", text) for text in texts[:20])
            yield from texts
