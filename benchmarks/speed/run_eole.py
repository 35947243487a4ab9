"""Eole under measurement: its own `eole train`. Its log comes too seldom; we count the real targets of each batch.

Its budget counts tokens of the longer side with padding. bf16 is its mixed precision on float32 weights.
"""

import json
import sys
from pathlib import Path
from typing import Any

from events import Events, counting
from workload import SIZES, TRAIN, text_folder

NEVER = 10**8
FILLED = 0.84
"""The share of its budget that is real target tokens, on this text."""


def vocabulary(words: Path, folder: Path) -> str:
    """Eole's vocabulary file: a word a line, specials too."""
    path = folder / f"{words.stem}.vocab"
    path.write_text("\n".join(["<unk>", "<blank>", "<s>", "</s>", words.read_text()]))
    return str(path)


def settings(prepared: str, name: str, precision: str, folder: Path) -> dict[str, Any]:
    """The configuration of `eole train`."""
    size, text = SIZES[name], text_folder(Path(prepared), name)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "data": {"all": {"path_src": str(text / "train.src"), "path_tgt": str(text / "train.trg")}},
        "src_vocab": vocabulary(text / "src.words", folder),
        "tgt_vocab": vocabulary(text / "trg.words", folder),
        "src_vocab_size": size.source_symbols,
        "tgt_vocab_size": size.target_symbols,
        "share_vocab": size.joint,
        "model": {
            "architecture": "transformer",
            "layers": size.layers,
            "heads": size.heads,
            "hidden_size": size.width,
            "transformer_ff": size.feed_forward,
            "share_decoder_embeddings": True,
            "share_embeddings": size.joint,
            "add_qkvbias": True,
            "add_ffnbias": True,
            "embeddings": {"word_vec_size": size.width, "position_encoding_type": "SinusoidalInterleaved"},
        },
        "training": {
            "batch_size": round(size.step_tokens / FILLED),
            "batch_type": "tokens",
            "normalization": "tokens",
            "bucket_size": sum(TRAIN.values()),
            "num_workers": 0,
            "dropout": [0.3],
            "attention_dropout": [0.3],
            "label_smoothing": 0.1,
            "optim": "adam",
            "adam_beta2": 0.98,
            "learning_rate": 2.0,
            "decay_method": "noam",
            "warmup_steps": 4000,
            "max_grad_norm": 1.0,
            "param_init_method": "xavier_uniform",
            "compute_dtype": precision,
            "log_attention_entropy": False,
            "train_steps": NEVER,
            "valid_steps": NEVER,
            "save_checkpoint_steps": NEVER,
            "model_path": str(folder / "model"),
        },
        "report_every": 50,
    }


def main(prepared: str, name: str, precision: str, work: str, told: str) -> None:
    """Trains until it is killed."""
    from eole.bin.main import main as eole
    from eole.trainer import BatchProcessor

    events = Events(Path(told))
    counting(
        events,
        BatchProcessor,
        "process_batch",
        lambda arguments, _: int((arguments[1]["tgt"][:, 1:] != arguments[0].train_loss.padding_idx).sum()),
    )
    events.tell_updates()
    folder = Path(work)
    content = settings(prepared, name, precision, folder)
    (folder / "eole.yaml").write_text(json.dumps(content))  # JSON is YAML
    sys.argv = ["eole", "train", "-config", str(folder / "eole.yaml")]
    eole()


if __name__ == "__main__":
    main(*sys.argv[1:])
