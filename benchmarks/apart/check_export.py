"""Checks an export in an environment without cclm; `benchmarks/exports.py` starts it there. Prints one line per claim.

    python check_export.py CTRANSLATE2 HUGGINGFACE EXPECTED.npz TEXT.json

EXPECTED.npz has logits of the trained model; TEXT.json has sentences by language, and 100 sentences by pair.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import sentencepiece
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

PAD, BOS, EOS = 0, 1, 2
LONGEST = 100
"""Symbols of a translation at most, for both: weak models repeat themselves without end."""


class Exports:
    """Both exports of one run, and the table of the one for Hugging Face as we say that it is."""

    def __init__(self, fast: Path, hub: Path) -> None:
        self.fast, self.hub = fast, hub
        self.pairs = json.loads((hub / "cclm.json").read_text())["pairs"]
        self.search = json.loads((hub / "cclm.json").read_text())["search"]
        joint = (fast / "model" / "shared_vocabulary.json").exists()
        names = ["shared"] * 2 if joint else ["source", "target"]
        self.source, self.target = (json.loads((fast / "model" / f"{n}_vocabulary.json").read_text()) for n in names)
        self.offset = None if joint else len(self.target)
        self.translator = ctranslate2.Translator(str(fast / "model"))
        self.model = AutoModelForSeq2SeqLM.from_pretrained(hub).eval()

    def target_row(self, number: int) -> int:
        return {PAD: BOS, BOS: PAD}.get(number, number)

    def source_row(self, number: int) -> int:
        return self.target_row(number) if self.offset is None else self.offset + number

    def tokenizer(self, pair: dict[str, str]) -> Any:
        return AutoTokenizer.from_pretrained(self.hub, subfolder=pair["tokenizer"])

    def subwords(self, pair: dict[str, str]) -> Any:
        return sentencepiece.SentencePieceProcessor(model_file=str(self.hub / "subwords" / pair["subwords"]))


def main() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    fast, hub, expected, texts = map(Path, sys.argv[1:])
    assert importlib.util.find_spec("cclm") is None, "cclm is installed here"
    exports, sentences = Exports(fast, hub), json.loads(texts.read_text())
    check_logits(exports, np.load(expected))
    check_tokenizers(exports, sentences["languages"])
    chosen = sentences["pairs"]
    for beam in (1, exports.search["beam"]):
        compare_searches(exports, chosen, beam)


@torch.no_grad()
def check_logits(exports: Exports, expected: Any) -> None:
    """EXPECTED.npz: source_I and target_I (ids of ours), logits_I (tokens, target symbols)."""
    columns = [exports.target_row(i) for i in range(len(exports.target))]
    largest, count = 0.0, len(expected.files) // 3
    for i in range(count):
        found = exports.model(
            input_ids=torch.tensor([[exports.source_row(j) for j in expected[f"source_{i}"].tolist()]]),
            decoder_input_ids=torch.tensor([[exports.target_row(j) for j in expected[f"target_{i}"].tolist()]]),
        ).logits[0][:, columns]
        largest = max(largest, float(np.abs(found.numpy() - expected[f"logits_{i}"]).max()))
    print(f"logits: largest difference {largest:.1e} over {count} sentences", flush=True)
    assert largest <= 1e-4


def check_tokenizers(exports: Exports, by_language: dict[str, dict[str, list[str]]]) -> None:
    """Every tokenizer against SentencePiece and the vocabulary, on every kind of text in its language."""
    ids = {symbol: i for i, symbol in enumerate(exports.source)}
    totals: dict[str, list[int]] = {}
    for pair in exports.pairs:
        tokenizer, subwords = exports.tokenizer(pair), exports.subwords(pair)
        pieces = ["<unk>" if subwords.is_unknown(i) else subwords.id_to_piece(i) for i in range(len(subwords))]
        before = [ids[pair["tag"]]] if pair["tag"] else []
        for kind, texts in by_language.get(pair["source"], {}).items():
            wrong = []
            for text, found in zip(texts, tokenizer(texts)["input_ids"], strict=True):
                numbers = [*before, *(ids[pieces[i]] for i in subwords.encode(cleaned(text))), EOS]
                if found != [exports.source_row(number) for number in numbers]:
                    wrong.append(text)
            total = totals.setdefault(kind, [0, 0])
            total[0], total[1] = total[0] + len(texts) - len(wrong), total[1] + len(texts)
            for text in wrong[:3]:
                print(f"  segmented differently: {pair['tokenizer']} {kind}: {text!r:.100}")
    for kind, (same, compared) in totals.items():
        print(f"tokenizers, {kind}: {same:,} of {compared:,} segmentations are identical", flush=True)


def cleaned(text: str) -> str:
    """What cclm does to text before SentencePiece."""
    text = re.sub("[\ufeff\ud800-\udfff\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", text.strip())
    return re.sub("[\t-\r\x1c-\x1f\x85\u2028\u2029]", " ", text).strip()


@torch.no_grad()
def compare_searches(exports: Exports, chosen: dict[str, list[str]], beam: int) -> None:
    """`generate` against CTranslate2 on the chosen sentences, symbol by symbol."""
    same = compared = 0
    different = []
    options = {"beam_size": beam, "length_penalty": exports.search["length_penalty"], "max_decoding_length": LONGEST,
               "min_decoding_length": 0, "max_input_length": 0, "disable_unk": True, "return_scores": True,
               "use_vmap": exports.search["restrict"]}  # fmt: skip
    for pair in exports.pairs:
        texts = chosen.get(f"{pair['source']}-{pair['target']}", [])
        if not texts:
            continue
        tokenizer = exports.tokenizer(pair)
        search = GenerationConfig.from_pretrained(exports.hub / pair["tokenizer"], num_beams=beam)
        search.early_stopping, search.max_new_tokens = beam > 1, LONGEST
        scored = {"return_dict_in_generate": True, "output_scores": True}
        output = exports.model.generate(
            **tokenizer(texts, padding=True, return_tensors="pt"), generation_config=search, **scored
        )
        rows = tokenizer(texts)["input_ids"]
        numbers = [[row - (exports.offset or 0) for row in sentence[:-1]] for sentence in rows]
        sources = [[exports.source[number] for number in sentence] for sentence in numbers]
        results = exports.translator.translate_batch(sources, [[pair["start"]]] * len(sources), **options)
        for text, ours, theirs, result in zip(texts, output.sequences, scores_of(output, beam), results, strict=True):
            symbols = [exports.target[exports.target_row(i)] for i in ours.tolist()[1:]]
            symbols = symbols[: symbols.index("</s>")] if "</s>" in symbols else symbols
            compared += 1
            if symbols == result.hypotheses[0]:
                same += 1
            else:
                different.append((text, symbols, theirs, result.hypotheses[0], result.scores[0]))
    print(f"generate with beam {beam} against CTranslate2: {same} of {compared} translations are equal", flush=True)
    for text, ours, our_score, fast, fast_score in different:
        print(f"  {text!r:.80}\n    generate    {our_score:.6f} {''.join(ours)!r:.120}")
        print(f"    CTranslate2 {fast_score:.6f} {''.join(fast)!r:.120}")


def scores_of(output: Any, beam: int) -> list[float]:
    """The score of each translation; greedy search gives none, and is asked for none."""
    return output.sequences_scores.tolist() if beam > 1 else [float("nan")] * len(output.sequences)


if __name__ == "__main__":
    main()
