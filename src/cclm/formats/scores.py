"""scores.json: BLEU, chrF and whatever else was measured, per language, with the signature of every number."""

from typing import ClassVar

from cclm.formats.base import JsonFile, Part
from cclm.formats.translations import Translations

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
    left_out: list[str] = []
    """Tasks without a test set: they are in no mean. Written only if there are any."""
