"""cclm under measurement: lines of text in, lines of text out, as `cclm translate RUN --source tur < input.txt`."""

import sys
from pathlib import Path

from decoding import HRLS, exported_folder, keep_translating, output_tokens, run_folder

from cclm.data.prepared import Prepared
from cclm.translation.translate import Translator

THREADS = 2

if __name__ == "__main__":
    folder, quantization, told = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    tokens = output_tokens(folder, quantization)
    translator = Translator(exported_folder(run_folder(folder), quantization), THREADS)
    prepared = Prepared.open(folder / "work" / "prepared", verify=False)
    segmenter = prepared.segmenter(HRLS[0])
    table, symbols = prepared.other.table(segmenter), prepared.other.symbols

    def once() -> None:
        texts = (folder / "input.txt").read_text(encoding="utf-8").splitlines()
        sources = [[symbols[i] for i in table[row]] for row in segmenter.encode(texts)]
        found = translator.translate_ids(sources, "<s>", 5, 1.0)
        lines = ["".join(target).replace("▁", " ").strip() for target in found]
        (folder / "output.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    keep_translating(once, tokens, told)
