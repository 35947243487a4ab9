"""Sockeye's decoder under measurement: its own `sockeye-translate` on words, batches of 64, two threads.

The model is what `sockeye-train` leaves before its first update, of the PAPER size. The end of a sentence is forbidden
by its output bias, and 25 tokens are the most: so every translation has 25. Sources have as many tokens as ours.
"""

import json
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from events import Events
from run_sockeye import arguments
from workload import SIZES, prepared_folder

LENGTH, SENTENCES = 25, 256
EOS = 3


def make_model(folder: Path) -> Path:
    """The folder of a model that never ends a sentence."""
    model = folder / "sockeye" / "model"
    if (model / "params.endless").exists():
        return model
    from sockeye.train import main as train
    from sockeye.training import EarlyStoppingTrainer

    def stop(*_: Any, **__: Any) -> None:
        raise StopIteration

    EarlyStoppingTrainer._step = stop  # the initial parameters are saved before the first
    sys.argv = ["sockeye-train", *arguments(str(prepared_folder(folder / "words", "PAPER")), "PAPER", model.parent)]
    with suppress(StopIteration):
        train()
    parameters = torch.load(model / "params.00000", weights_only=False)
    parameters["output_layer.bias"][EOS] = -1e9
    torch.save(parameters, model / "params.best")
    (model / "params.endless").touch()
    return model


def write_input(folder: Path, times: int) -> Path:
    """As many words a sentence as ours has subwords, again and again."""
    chance, path = random.Random(1), folder / "sockeye.input"
    lengths = json.loads((folder / "lengths.json").read_text())
    words = range(100, SIZES["PAPER"].source_symbols)
    sentences = [" ".join(f"w{i}" for i in chance.choices(words, k=length)) for length in lengths]
    path.write_text("\n".join(sentences * times) + "\n")
    return path


def main(folder: Path, told: str) -> None:
    """Translates until it is killed."""
    from sockeye.inference import Translator
    from sockeye.translate import main as translate

    model, events = make_model(folder), Events(Path(told))
    search = Translator._translate_np

    def counted(*given: Any) -> Any:
        found = search(*given)
        events.tokens += sum(ids[0] > EOS for translation in found for ids in translation.target_ids)
        events.tell()
        return found

    Translator._translate_np = counted
    options = {
        "models": model,
        "input": write_input(folder, 1000),
        "output": folder / "sockeye.output",
        "beam-size": 5,
        "length-penalty-alpha": 1.0,
        "length-penalty-beta": 0.0,
        "batch-size": 64,
        "chunk-size": SENTENCES,
        "max-output-length": LENGTH,
    }
    given = [part for option, value in options.items() for part in (f"--{option}", str(value))]
    sys.argv = ["sockeye-translate", *given, "--use-cpu"]
    translate()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3])
