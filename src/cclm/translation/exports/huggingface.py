"""Translates standard input, one sentence per line; needs torch, transformers and sentencepiece.

python translate.py aze eng < aze.txt > eng.txt

SentencePiece itself segments the text here; the model card says how the tokenizers of this folder may differ from it.
"""

import json
import re
import sys
from pathlib import Path

import sentencepiece
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

folder = Path(__file__).parent
about = json.loads((folder / "cclm.json").read_text(encoding="utf-8"))
pairs = {f"{pair['source']} {pair['target']}": pair for pair in about["pairs"]}
pair = pairs.get(" ".join(sys.argv[1:])) or sys.exit(f"give source and target, one of: {', '.join(pairs)}")
model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder, subfolder=pair["tokenizer"])
search = GenerationConfig.from_pretrained(folder / pair["tokenizer"])
subwords = sentencepiece.SentencePieceProcessor(model_file=str(folder / "subwords" / pair["subwords"]))
rows = [tokenizer.convert_tokens_to_ids(subwords.id_to_piece(i)) for i in range(subwords.get_piece_size())]
rows[subwords.unk_id()] = tokenizer.unk_token_id
*before, end = tokenizer("").input_ids
for line in sys.stdin.buffer:
    text = re.sub("[\ufeff\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", line.decode())  # SentencePiece cannot handle them
    source = [rows[i] for i in subwords.encode(re.sub("[\t-\r\x1c-\x1f\x85\u2028\u2029]", " ", text))]
    target = model.generate(torch.tensor([[*before, *source, end]]), generation_config=search)[0] if source else []
    print(tokenizer.decode(target, skip_special_tokens=True), flush=True)
