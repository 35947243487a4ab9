"""Sockeye under measurement: its own `sockeye-train`. Its log has tokens/s of padded sources; we count real targets.

Batches are of `word` type, which means about so many real target tokens. Its bf16 has no float32 weights behind it and
is another training: left out.
"""

import json
import sys
from pathlib import Path

from events import Events, counting
from workload import LONGEST, SIZES, text_folder

NEVER = str(10**8)


def vocabulary(words: Path, folder: Path) -> str:
    """Sockeye's vocabulary file."""
    symbols = ["<pad>", "<unk>", "<s>", "</s>", *words.read_text().splitlines()]
    path = folder / f"{words.stem}.json"
    path.write_text(json.dumps({symbol: i for i, symbol in enumerate(symbols)}))
    return str(path)


def arguments(prepared: str, name: str, folder: Path) -> list[str]:
    """What is given to sockeye-train."""
    size, text = SIZES[name], text_folder(Path(prepared), name)
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "source": text / "train.src",
        "target": text / "train.trg",
        "validation-source": text / "dev.src",
        "validation-target": text / "dev.trg",
        "source-vocab": vocabulary(text / "src.words", folder),
        "target-vocab": vocabulary(text / "trg.words", folder),
        "output": folder / "model",
        "max-seq-len": LONGEST + 1,
        "num-layers": size.layers,
        "transformer-model-size": size.width,
        "transformer-attention-heads": size.heads,
        "transformer-feed-forward-num-hidden": size.feed_forward,
        "transformer-dropout-attention": 0.3,
        "transformer-dropout-act": 0.3,
        "transformer-dropout-prepost": 0.3,
        "embed-dropout": 0.3,
        "weight-tying-type": "src_trg_softmax" if size.joint else "trg_softmax",
        "label-smoothing": 0.1,
        "optimizer": "adam",
        "optimizer-betas": "0.9:0.98",
        "gradient-clipping-type": "norm",
        "gradient-clipping-threshold": 1.0,
        "initial-learning-rate": 2e-4,
        "learning-rate-warmup": 4000,
        "learning-rate-scheduler-type": "inv-sqrt-decay",
        "batch-type": "word",
        "batch-size": size.step_tokens,
        "checkpoint-interval": NEVER,
        "max-updates": NEVER,
        "decode-and-evaluate": 0,
    }
    given = [part for option, value in options.items() for part in (f"--{option}", str(value))]
    return [*given, "--use-cpu", *(["--shared-vocab"] if size.joint else [])]


def main(prepared: str, name: str, precision: str, work: str, told: str) -> None:
    """Trains until it is killed."""
    from sockeye.constants import PAD_ID, TARGET_LABEL_NAME
    from sockeye.train import main as train
    from sockeye.training import EarlyStoppingTrainer

    events = Events(Path(told))
    counting(
        events,
        EarlyStoppingTrainer,
        "_forward_backward",
        lambda arguments, _: int((arguments[1].labels[TARGET_LABEL_NAME] != PAD_ID).sum()),
    )
    events.tell_updates()
    sys.argv = ["sockeye-train", *arguments(prepared, name, Path(work))]
    train()


if __name__ == "__main__":
    main(*sys.argv[1:])
