"""JoeyNMT under measurement: its own `python -m joeynmt train`. It counts the real target tokens of a batch itself.

It does not batch by length: a budget of tokens with padding holds few real ones, and the table shows how few. On a CPU
it has float32 alone.
"""

import json
import sys
from pathlib import Path
from typing import Any

from events import Events, counting
from workload import LONGEST, SIZES, text_folder

NEVER = 10**8


def vocabulary(words: Path, folder: Path) -> str:
    """JoeyNMT's vocabulary file: a word a line."""
    path = folder / f"{words.stem}.vocab"
    path.write_text("\n".join(["<unk>", "<pad>", "<s>", "</s>", words.read_text()]))
    return str(path)


def settings(prepared: str, name: str, folder: Path) -> dict[str, Any]:
    """The configuration of `joeynmt train`."""
    size, text = SIZES[name], text_folder(Path(prepared), name)
    folder.mkdir(parents=True, exist_ok=True)
    stack = {
        "type": "transformer",
        "num_layers": size.layers,
        "num_heads": size.heads,
        "embeddings": {"embedding_dim": size.width, "scale": True, "dropout": 0.3},
        "hidden_size": size.width,
        "ff_size": size.feed_forward,
        "dropout": 0.3,
        "layer_norm": "pre",
    }
    side = {"level": "word", "max_length": LONGEST + 1}
    return {
        "name": "speed",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "data": {
            "train": str(text / "train"),
            "dev": str(text / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "src", "voc_file": vocabulary(text / "src.words", folder), **side},
            "trg": {"lang": "trg", "voc_file": vocabulary(text / "trg.words", folder), **side},
        },
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": 2e-4,
            "learning_rate_min": 0.0,
            "learning_rate_warmup": 4000,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": 1.0,
            "label_smoothing": 0.1,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": size.step_tokens,
            "epochs": NEVER,
            "updates": NEVER,
            "logging_freq": 100,
            "validation_freq": NEVER,
        },
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": size.joint,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }


def main(prepared: str, name: str, precision: str, work: str, told: str) -> None:
    """Trains until it is killed."""
    from joeynmt.__main__ import main as joeynmt
    from joeynmt.training import TrainManager

    events = Events(Path(told))
    counting(events, TrainManager, "_train_step", lambda arguments, _: int(arguments[1].ntokens))
    events.tell_updates()
    folder = Path(work)
    content = settings(prepared, name, folder)
    (folder / "joeynmt.yaml").write_text(json.dumps(content))  # JSON is YAML
    sys.argv = ["joeynmt", "train", str(folder / "joeynmt.yaml"), "--skip-test"]
    joeynmt()


if __name__ == "__main__":
    main(*sys.argv[1:])
