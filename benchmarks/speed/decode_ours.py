"""cclm under measurement: what `cclm translate RUN --source tur < input.txt` does once the model is loaded."""

import sys
from pathlib import Path

from decoding import keep_translating, output_tokens, run_folder
from workload import HRLS

import cclm

THREADS = 2

if __name__ == "__main__":
    folder, quantization, told = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    model = cclm.load(run_folder(folder), quantization=quantization, threads=THREADS)
    pair = model.pair(HRLS[0])

    def once() -> None:
        with (folder / "input.txt").open(encoding="utf-8") as lines, (folder / "output.txt").open("wb") as file:
            for text in model.stream((line.removesuffix("\n") for line in lines), pair):
                file.write(text.encode() + b"\n")

    keep_translating(once, output_tokens(folder, quantization), told)
