"""cclm.json, the manifest of an exported model: its language pairs, its checkpoint, how it was checked, its files."""

from typing import ClassVar

from pydantic import StrictInt

from cclm.formats.base import JsonFile, Part

MANIFEST = "cclm.json"
"""The name of the file in the folder of an exported model."""


class Pair(Part):
    """A source and a target language, and the symbols that tell the model about them."""

    source: str
    target: str
    subwords: str
    """The SentencePiece model of the source, a file in `subwords/`."""
    tag: str | None
    """The symbol before every source."""
    start: str
    """The first symbol of every target."""


class Reserved(Part):
    """How many symbols at the beginning of each vocabulary are specials and tags, not pieces of text."""

    source: StrictInt
    target: StrictInt


class Checked(Part):
    """How the export was compared with the trained model, or an int8 export with the float32 one."""

    samples: StrictInt
    largest_difference: float | None = None
    """float32: between log-probabilities of the export and of the trained model."""
    dev_loss: float | None = None
    """int8: bits per token."""
    dev_loss_float32: float | None = None
    same_translations: StrictInt | None = None


class ExportedFile(Part):
    """A file of the export, to recognise one that was changed or damaged."""

    bytes: StrictInt
    sha256: str


class Export(JsonFile):
    """The content of cclm.json. An export that is used once, for BLEU during training, names no checkpoint."""

    advice: ClassVar[str] = "delete the folder: the model is exported again"
    checkpoint: str = ""
    weights: str = ""
    """The SHA-256 of the checkpoint's weights."""
    quantization: str = ""
    checked: Checked | None = None
    pairs: list[Pair]
    reserved: Reserved
    files: dict[str, ExportedFile]
    """Every other file, by its path inside the folder. Version 0.1.0 wrote sizes alone: it is exported again."""


class TrainingData(JsonFile):
    """The part of a run's made_from.json that names the prepared data it was trained on."""

    advice: ClassVar[str] = "the run cannot be translated without knowing its data; train it again"
    data: str
    """The fingerprint of the prepared data."""
