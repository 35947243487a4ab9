"""Translates standard input, one sentence per line; needs torch, transformers and sentencepiece.

python translate.py aze eng < aze.txt > eng.txt
"""

import json
import re
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = Path(__file__).parent
about = json.loads((folder / "cclm.json").read_text(encoding="utf-8"))
pairs = {f"{pair['source']} {pair['target']}": pair for pair in about["pairs"]}
pair = pairs.get(" ".join(sys.argv[1:])) or sys.exit(f"give source and target, one of: {', '.join(pairs)}")
special = about["special"]  # symbols that are not text, with their ids: where a text has one, it is unknown
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
before = [special[pair["tag"]]] if pair["tag"] else []
start = special[pair["start"]] if pair["start"] else None
for line in sys.stdin.buffer:
    text = re.sub("[\ufeff\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", line.decode())
    text = re.sub("[\t-\r\x1c-\x1f\x85\u2028\u2029]", " ", text).strip()
    rows = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    source = [tokenizer.unk_token_id if row in special.values() else row for row in rows]
    sentence = torch.tensor([[*before, *source, tokenizer.eos_token_id]])
    found = model.generate(sentence, forced_bos_token_id=start)[0].tolist() if source else []
    target = [row for row in found if row not in special.values()]
    print(str(tokenizer.decode(target, clean_up_tokenization_spaces=False)).strip(), flush=True)
