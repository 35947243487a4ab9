"""Translates standard input, one sentence per line; needs ctranslate2 and sentencepiece alone.

python translate.py aze eng < aze.txt > eng.txt
"""

import json
import re
import sys
from pathlib import Path

import ctranslate2  # type: ignore[import-untyped]
import sentencepiece

folder = Path(__file__).parent
about = json.loads((folder / "cclm.json").read_text(encoding="utf-8"))
pairs = {f"{pair['source']} {pair['target']}": pair for pair in about["pairs"]}
pair = pairs.get(" ".join(sys.argv[1:])) or sys.exit(f"give source and target, one of: {', '.join(pairs)}")
reserved = {"<pad>", "<s>", "</s>", "<unk>", *(f"<2{language}>" for name in pairs for language in name.split())}
subwords = sentencepiece.SentencePieceProcessor(model_file=str(folder / "subwords" / pair["subwords"]))
pieces = (subwords.id_to_piece(i) for i in range(subwords.get_piece_size()))
symbols = ["<unk>" if piece == "<unk>" else piece + " " if piece in reserved else piece for piece in pieces]
translator = ctranslate2.Translator(str(folder / "model"))
beam, length_penalty, restrict = (about["search"][name] for name in ("beam", "length_penalty", "restrict"))
search = {"beam_size": beam, "length_penalty": length_penalty, "use_vmap": restrict, "disable_unk": True}
search |= {"max_decoding_length": 256, "min_decoding_length": 0, "max_input_length": 0}
for line in sys.stdin.buffer:
    text = re.sub("[\ufeff\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]", "", line.decode())  # SentencePiece cannot handle them
    source = [symbols[i] for i in subwords.encode(re.sub("[\t-\r\x1c-\x1f\x85\u2028\u2029]", " ", text))]
    tagged = [pair["tag"], *source] if pair["tag"] and source else source
    (result,) = translator.translate_batch([tagged], [[pair["start"]]], **search) if source else [None]
    target = [symbol for symbol in result.hypotheses[0] if symbol not in reserved] if result else []
    print("".join(target).replace(" ", "").replace("▁", " ").strip(), flush=True)
