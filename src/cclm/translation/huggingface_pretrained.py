"""A run that started from a model of Hugging Face's, as a folder of the same family: for transformers alone.

FOLDER/
  config.json, model.safetensors     the class that the model had, with the trained weights; adapters are merged
  generation_config.json             beam search as in CTranslate2, without <unk>
  tokenizer.json, vocab.json, ...    the model's own tokenizer; it knows new language codes where its class can
"""

import json
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from cclm.data.cleaning import clean
from cclm.data.model_tokenizer import ModelTokenizer, quiet
from cclm.formats.base import parse_json
from cclm.formats.export import Checked, Search
from cclm.model.pretrained import Pretrained
from cclm.training.tasks import Task
from cclm.translation.export import TrainedFor, dev_samples
from cclm.translation.huggingface import MAX_DIFFERENT, SENTENCES, TOLERANCE, sentences
from cclm.translation.translator import ADVICE, SHORT, ExportError, Sample

TOKENIZER = "tokenizer"
"""The folder of the model's tokenizer among the subwords."""


def special_symbols(model: TrainedFor) -> dict[str, int]:
    """The symbols that are not text, special ones and language codes, new codes among them, with their ids."""
    tokenizer = ModelTokenizer(model.prepared.folder / "models" / TOKENIZER)
    assert model.layout is not None
    return tokenizer.special | {symbol: model.target.symbols.index(symbol) for symbol in model.layout.new}


def write_pretrained(trained: Pretrained, model: TrainedFor, search: Search, folder: Path) -> None:
    """Writes weights, configuration, search and tokenizer with `save_pretrained`."""
    network: Any = trained.merged()
    network.generation_config = _generation(network.generation_config, model, search)
    network.save_pretrained(folder)
    _write_tokenizer(model, folder)


def _generation(before: Any, model: TrainedFor, search: Search) -> Any:
    """The settings of `generate` that search as CTranslate2 does; others, as the family needs them, stay."""
    assert model.layout is not None
    forced_end = before.forced_eos_token_id is not None  # in mBART-50 and Marian, </s> is the last symbol at the limit
    targets = {task.direction.target_tag for task in model.tasks.values() if task.direction.marks.predicts_tag}
    before.update(
        num_beams=search.beam,
        length_penalty=search.length_penalty,
        early_stopping=search.beam > 1,
        max_length=None,
        max_new_tokens=longest_of(model) + forced_end,
        suppress_tokens=[model.layout.unknown],
        renormalize_logits=True,
        forced_bos_token_id=next(iter(targets)) if len(targets) == 1 else None,
    )
    return before


def longest_of(model: TrainedFor) -> int:
    """The longest translation, in subwords: the code and </s> included, it must fit the model's positions."""
    return min(2 * SHORT, model.positions - 1)


def _write_tokenizer(model: TrainedFor, folder: Path) -> None:
    """The tokenizer as it was; with new codes, it is written again where its class can know them by name."""
    assert model.layout is not None
    source, new = model.prepared.folder / "models" / TOKENIZER, list(model.layout.new)
    for path in source.iterdir():
        if path.name not in ("config.json", "generation_config.json"):
            shutil.copyfile(path, folder / path.name)
    kind = ModelTokenizer(source).kind
    if new and kind == "marian":
        path = folder / "vocab.json"
        known = parse_json(path.read_bytes(), str(path), ADVICE)
        assert isinstance(known, dict)
        rows = known | {symbol: model.target.symbols.index(symbol) for symbol in new}
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    elif new and kind != "m2m_100":  # M2M100's gives a code that is added the id of another
        from transformers import AddedToken, AutoTokenizer

        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(source, local_files_only=True)
        # Rows that have no symbol come before the new ones. Unless they get one, the ids of the codes would be theirs.
        symbols = model.target.symbols[len(tokenizer) :]
        tokenizer.add_tokens([AddedToken(symbol, special=True, normalized=False) for symbol in symbols])
        tokenizer.save_pretrained(folder)


def code_names(model: TrainedFor) -> dict[str, str]:
    """What `src_lang` of the exported tokenizer is called per language; languages that it cannot name are left out."""
    assert model.layout is not None
    kind = ModelTokenizer(model.prepared.folder / "models" / TOKENIZER).kind
    codes = {lang: model.target.symbols[row] for lang, row in model.target.tags.items()}
    if kind == "m2m_100":
        return {lang: code.strip("_") for lang, code in codes.items() if code not in model.layout.new}
    return {} if kind == "marian" else codes


# --- verification -----------------------------------------------------------------------------------------------------


def check_pretrained(trained: Pretrained, model: TrainedFor, folder: Path) -> Checked:
    """Loads the folder with transformers, as its users will, and compares it with the trained model; ExportError."""
    samples = dev_samples(model)
    largest = _largest_difference(trained, model, folder, samples)
    if not largest <= TOLERANCE:
        raise ExportError(f"its logits are not the trained model's: they differ by up to {largest:.2g}")
    different = {name: _different_segmentations(model, task, folder, name) for name, task in model.tasks.items()}
    return Checked(samples=len(samples), largest_difference=largest, different_segmentations=different)


@torch.no_grad()
def _largest_difference(trained: Pretrained, model: TrainedFor, folder: Path, samples: list[Sample]) -> float:
    """Over the logits of all symbols after every token of the samples."""
    from transformers import AutoModelForSeq2SeqLM

    assert model.layout is not None
    theirs = AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True).eval()
    ids = {symbol: i for i, symbol in enumerate(model.target.symbols)}
    largest = torch.zeros(())
    for source, target in samples:
        from_ids = torch.tensor([[*(ids[symbol] for symbol in source), model.layout.end]])
        to_ids = torch.tensor([[model.layout.start, *(ids[symbol] for symbol in target)]])
        found = theirs(input_ids=from_ids, decoder_input_ids=to_ids).logits[0]
        largest = torch.maximum(largest, (found - trained(from_ids, to_ids)).abs().max())  # it propagates NaN
    return float(largest)


def _different_segmentations(model: TrainedFor, task: Task, folder: Path, name: str) -> tuple[int, int]:
    """The number of sentences that the exported tokenizer turns into other ids than training had, and of all."""
    from transformers import AutoTokenizer

    assert model.layout is not None
    pair, codes, tag = model.pair(task), code_names(model), task.direction.source_tag
    with quiet():
        tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if task.source in codes:
        tokenizer.src_lang = codes[task.source]
    texts = [clean(text)[0] for text in islice(sentences(model, task), SENTENCES)]
    before = f"{pair.tag} " if pair.tag and not pair.own_tag else ""
    found: list[list[int]] = tokenizer([before + text for text in texts], truncation=False, verbose=False)["input_ids"]
    if tag is not None and pair.own_tag and task.source not in codes:
        found = [[tag, *row[1:]] for row in found]
    own = ModelTokenizer(model.prepared.folder / "models" / TOKENIZER).encode(texts)
    first = [] if tag is None else [tag]
    expected = [[*first, *row, model.layout.end] for row in own]
    different = [text for text, a, b in zip(texts, found, expected, strict=True) if a != b]
    if len(different) > MAX_DIFFERENT * len(texts):
        raise ExportError(
            f"the tokenizer gives {len(different)} of {len(texts)} sentences of {name} other ids than in training,"
            f" as {different[0]!r:.60}"
        )
    return len(different), len(texts)
