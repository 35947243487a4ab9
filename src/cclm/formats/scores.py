"""translations/{split}.json: which checkpoint, data and beam search the translations of a split were made with."""

from typing import ClassVar

from pydantic import StrictInt

from cclm.formats.base import JsonFile, Part


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


Row = dict[str, float]
"""The scores of a language by name: `bleu`, `bleu_low`, `bleu_high`, `chrf`, perhaps `off_target` and others."""


class Signature(Part):
    """The settings that made the scores."""

    sacrebleu: str = ""
    bleu: str = ""
    chrf: str = ""
    split: str = ""
    checkpoint: str | dict[str, str] = ""
    """Which checkpoint translated: its name and the beginning of its checksum; of a bitext system one per task."""
    data: str = ""
    beam: int = 0
    length_penalty: float = 0.0
    off_target: str = ""
    scorers: dict[str, str] = {}
    """The commands of external scorers by name."""

    def describes(self, translations: Translations) -> bool:
        """Whether the scores were computed from translations of this origin."""
        return all(getattr(self, name) == value for name, value in translations)


class Means(Part):
    """Means of BLEU over groups of languages; None where a group has no language."""

    all: float | None = None
    hrl: float | None = None
    lrl: float | None = None
    worst: float | None = None


class Scores(JsonFile):
    """The content of scores.json."""

    advice: ClassVar[str] = "run `cclm score` again"
    signature: Signature = Signature()
    languages: dict[str, Row] = {}
    means: Means = Means()
    zero_shot: dict[str, Row] = {}
    """Pairs of a many-to-many model that it was not trained on; they are in no mean. Written only if there are any."""
    left_out: list[str] = []
    """Tasks without a test set: they are in no mean. Written only if there are any."""
