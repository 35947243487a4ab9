"""cclm.json, the manifest of an exported model: language pairs, checkpoint, verification, files."""

from typing import ClassVar

from pydantic import StrictInt

from cclm.formats.base import FileFacts, JsonFile, Part

MANIFEST = "cclm.json"
"""The file name in the folder of an exported model."""


class Pair(Part):
    """A source and a target language, and the symbols that select them."""

    source: str
    target: str
    subwords: str
    """The SentencePiece model of the source language: a file in `subwords/`, or the folder of a tokenizer there."""
    tag: str | None
    """The symbol before every source."""
    start: str | None
    """The first symbol of every target; None where the model adds it itself."""
    own_tag: bool = False
    """Whether the tag is that of the source language, as in NLLB, and not that of the target."""
    tokenizer: str | None = None
    """Hugging Face: the folder of the pair's tokenizer."""
    zero_shot: bool = False
    """Whether the model was trained neither on this pair nor on its reverse. Such pairs are not written to the file."""


class Reserved(Part):
    """The number of special symbols and tags at the beginning of each vocabulary."""

    source: StrictInt
    target: StrictInt


class Search(Part):
    """The settings of beam search."""

    beam: StrictInt
    length_penalty: float
    restrict: bool = False
    """Whether translations are restricted to the subwords of their target language."""


class Checked(Part):
    """The verification: float32 is compared with the trained model, int8 with the float32 export."""

    samples: StrictInt
    largest_difference: float | None = None
    """float32: the largest difference of log-probabilities between the export and the trained model."""
    dev_loss: float | None = None
    """int8: the dev loss in bits per token."""
    dev_loss_float32: float | None = None
    same_translations: StrictInt | None = None
    different_segmentations: dict[str, tuple[StrictInt, StrictInt]] = {}
    """Hugging Face: by task, the sentences that its tokenizer segments in another way than SentencePiece, and all."""


class Export(JsonFile):
    """The content of cclm.json. Temporary exports, for BLEU during training, name no checkpoint."""

    advice: ClassVar[str] = "delete the folder: the model is exported again"
    checkpoint: str = ""
    weights: str = ""
    """The SHA-256 of the checkpoint's weights."""
    quantization: str = ""
    to: str = "ctranslate2"
    """What the folder is for: `ctranslate2` or `huggingface`."""
    search: Search | None = None
    """How to translate with an export that stands alone; beside a run, its recipe says it."""
    checked: Checked | None = None
    pairs: list[Pair]
    reserved: Reserved
    positions: StrictInt = 1024
    """The longest source, its </s> included, and the longest target."""
    special: dict[str, StrictInt] = {}
    """Of a pretrained model, in an export that stands alone: the symbols that are not text, with their ids."""
    files: dict[str, FileFacts]
    """All files of the model by their path in the folder. Version 0.1.0 wrote only sizes; its models are exported
    again."""
    texts: dict[str, FileFacts] = {}
    """The model card and the script of an export that stands alone, which its user may edit."""
