"""translations/{split}.json: which checkpoint, data and beam search the translations of a split were made with."""

from typing import ClassVar

from pydantic import StrictInt

from cclm.formats.base import JsonFile


class Translations(JsonFile):
    """The file exists only while all translations of the split are complete and of the same origin."""

    advice: ClassVar[str] = "run `cclm translate` again"
    split: str
    checkpoint: str | dict[str, str]
    """The name of the checkpoint and the beginning of its checksum; of a bitext system one per task."""
    data: str
    """The beginning of the prepared data's fingerprint."""
    beam: StrictInt
    length_penalty: float
