"""Bare CTranslate2 under measurement: symbols in, symbols out, batches of 64."""

import sys
from collections.abc import Callable
from pathlib import Path

import ctranslate2
from decoding import exported_folder, keep_translating, output_tokens, run_folder, sources

THREADS = 2


def translate(folder: Path, quantization: str) -> Callable[[], list[list[str]]]:
    """A function that translates the input."""
    model = ctranslate2.Translator(
        str(exported_folder(run_folder(folder), quantization)), inter_threads=THREADS, intra_threads=1
    )
    symbols = sources(folder)
    starts = [["<s>"]] * len(symbols)

    def once() -> list[list[str]]:
        results = model.translate_batch(
            symbols, starts, beam_size=5, length_penalty=1.0, max_batch_size=64, min_decoding_length=0, disable_unk=True
        )
        return [result.hypotheses[0] for result in results]

    return once


if __name__ == "__main__":
    folder, quantization, told = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    keep_translating(translate(folder, quantization), output_tokens(folder, quantization), told)
