"""Translates standard input, one sentence per line; needs ctranslate2, transformers and sentencepiece, but not torch.

python translate.py aze eng < aze.txt > eng.txt
"""

import json
import re
import sys
from pathlib import Path

import ctranslate2  # type: ignore[import-untyped]
from transformers import AutoTokenizer

folder = Path(__file__).parent
about = json.loads((folder / "cclm.json").read_text(encoding="utf-8"))
pairs = {f"{pair['source']} {pair['target']}": pair for pair in about["pairs"]}
pair = pairs.get(" ".join(sys.argv[1:])) or sys.exit(f"give source and target, one of: {', '.join(pairs)}")
special = about["special"]  # symbols that are not text: where a text has one, it is unknown
tokenizer = AutoTokenizer.from_pretrained(folder / "subwords" / pair["subwords"])
translator = ctranslate2.Translator(str(folder / "model"))
search = {"beam_size": about["search"]["beam"], "length_penalty": about["search"]["length_penalty"]}
search |= {"max_decoding_length": min(256, about["positions"] - 1), "min_decoding_length": 0}
search |= {"max_input_length": 0, "disable_unk": True}
for line in sys.stdin.buffer:
    text = re.sub("[\ufeff\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", line.decode())
    text = re.sub("[\t-\r\x1c-\x1f\x85\u2028\u2029]", " ", text).strip()
    rows = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    symbols = tokenizer.convert_ids_to_tokens(rows)
    source = [tokenizer.unk_token if symbol in special else symbol for symbol in symbols]
    tagged = [pair["tag"], *source] if pair["tag"] and source else source
    start = [[pair["start"]]] if pair["start"] else None
    (result,) = translator.translate_batch([tagged], start, **search) if source else [None]
    target = [symbol for symbol in result.hypotheses[0] if symbol not in special] if result else []
    rows = tokenizer.convert_tokens_to_ids(target)
    print(str(tokenizer.decode(rows, clean_up_tokenization_spaces=False)).strip(), flush=True)
