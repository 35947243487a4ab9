"""The folder of a pretrained model, on disk or from the hub. One that cannot be trained is refused before any work."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cclm.errors import ConfigError, DataError
from cclm.formats.base import parse_json, sha256
from cclm.formats.run import CONFIG

FAMILIES = {"m2m_100": "M2M100 or NLLB", "mbart": "mBART-50", "marian": "Marian"}
"""What can be trained and exported, by `model_type` of config.json."""
TOKENIZER = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "sentencepiece.bpe.model", "sentencepiece.model", "source.spm", "target.spm",
)  # fmt: skip
"""The files that a tokenizer is loaded from."""
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def is_run(name: str | None) -> bool:
    """Whether this is the folder of a run of ours."""
    return name is not None and (Path(name) / CONFIG).is_file()


@dataclass(frozen=True)
class PretrainedFolder:
    """A folder with a model of a known family: its configuration, its tokenizer and its weights as safetensors."""

    name: str
    path: Path
    config: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, name: str | None = None) -> "PretrainedFolder":
        """Reads the configuration; ConfigError for one that is not of a known family."""
        source = f"model.pretrained {name or path}"
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"{source}: no model here: the folder has neither config.json nor the config.yaml of a run"
            )
        found = cls(name or str(path), path, _read(path / "config.json", source))
        _refuse_architecture(found, source)
        return found

    @property
    def family(self) -> str:
        """One of FAMILIES."""
        return str(self.config["model_type"])

    @property
    def symbols(self) -> int:
        """The number of rows of the embedding."""
        return int(self.config["vocab_size"])

    @property
    def tokenizer_files(self) -> list[Path]:
        """The files that make the tokenizer."""
        return [self.path / name for name in TOKENIZER if (self.path / name).is_file()]

    @property
    def weight_files(self) -> list[Path]:
        """The weights."""
        return sorted(self.path.glob("*.safetensors"))

    def checksums(self) -> list[str]:
        """What identifies the model: the SHA-256 of every file that a result depends on."""
        return [f"{path.name} {sha256(path)}" for path in (*self.tokenizer_files, *self.weight_files)]


def find_pretrained(name: str, *, weights: bool = True) -> PretrainedFolder:
    """The folder of a model, by its path or by its name on the hub. ConfigError for one that cannot be trained.

    Without `weights` it is enough to know its configuration and its tokenizer.
    """
    folder = Path(name) if Path(name).is_dir() else _from_hub(name)
    source = f"model.pretrained {name}"
    found = PretrainedFolder.read(folder, name)
    if not any((folder / file).is_file() for file in TOKENIZER[2:]):
        raise ConfigError(f"{source}: no tokenizer here; copy the files of the tokenizer into the folder")
    if weights and not found.weight_files:
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        if pickled:
            raise ConfigError(
                f"{source}: its weights are pickled ({', '.join(pickled)}), and unpickling runs code from the file;"
                " convert them to model.safetensors: load the model with transformers and save it with save_pretrained"
            )
        raise ConfigError(f"{source}: no weights here: model.safetensors is missing")
    return found


def _refuse_architecture(found: PretrainedFolder, source: str) -> None:
    kind = found.config.get("model_type")
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES.values())
        raise ConfigError(f"{source}: model_type {kind!r} cannot be trained; known are {known}, and runs of cclm")
    if not isinstance(found.config.get("vocab_size"), int):
        raise ConfigError(f"{source}: config.json has no vocab_size")
    if kind == "marian" and not found.config.get("share_encoder_decoder_embeddings", True):
        raise ConfigError(f"{source}: a Marian model with two vocabularies cannot be trained; only with a shared one")


def _read(path: Path, source: str) -> dict[str, Any]:
    try:
        content = parse_json(path.read_bytes(), str(path), "copy the model again")
    except (OSError, DataError) as error:
        raise ConfigError(f"{source}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{source}: config.json is not an object")
    return content


def _from_hub(name: str) -> Path:
    """The folder of a model on the hub, downloaded where it is not in the local cache of the hub."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name):
        raise ConfigError(
            f"model.pretrained {name}: there is no such folder, and it is not a name on the hub (OWNER/NAME)"
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise ConfigError(f"model.pretrained {name}: needs the extra hf: pip install 'ccl-m[hf]'") from None
    wanted = [*TOKENIZER, "*.safetensors", "*.safetensors.index.json"]
    try:
        try:
            return Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
        except LocalEntryNotFoundError:
            return Path(snapshot_download(name, allow_patterns=wanted))
    except (OSError, HFValidationError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise ConfigError(
            f"model.pretrained {name}: no such folder, and it could not be downloaded from the hub"
            f" ({str(error).splitlines()[0][:120]}); download it where there is a network, and give its folder"
        ) from None
