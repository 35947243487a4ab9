"""scores.json; translations/{split}.json, which records the origin of a split's translations; before.json."""

from typing import ClassVar, Literal

from pydantic import StrictInt

from cclm.formats.base import JsonFile, Part

MetricName = Literal["bleu", "chrf"]
"""The metrics that every language has; systems are compared by them."""
METRICS: dict[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF"}
"""Their names in tables and sentences."""


class Translations(JsonFile):
    """translations/{split}.json. It exists only if all translations of the split are complete and of one origin."""

    advice: ClassVar[str] = "run `cclm translate` again"
    split: str
    checkpoint: str | dict[str, str]
    """The name of the checkpoint and the start of its checksum; for bitext models, one per task."""
    data: str
    """The start of the fingerprint of the prepared data."""
    beam: StrictInt
    length_penalty: float
    restrict: bool = False
    """Whether translations were restricted to the subwords of their target language. Not written for many-to-one."""


Row = dict[str, float]
"""The scores of a language by name: `bleu`, `bleu_low`, `bleu_high`, `chrf`, and optional ones such as `off_target`."""


class Signature(Part):
    """The settings that the scores were computed with."""

    sacrebleu: str = ""
    bleu: str = ""
    chrf: str = ""
    split: str = ""
    checkpoint: str | dict[str, str] = ""
    """The checkpoint, as in `Translations`."""
    data: str = ""
    beam: int = 0
    length_penalty: float = 0.0
    restrict: bool = False
    """Whether the translations were restricted, as in `Translations`."""
    off_target: str = ""
    scorers: dict[str, str] = {}
    """The commands of external scorers by name."""

    def describes(self, translations: Translations) -> bool:
        """Whether the scores were computed from these translations."""
        return all(getattr(self, name) == value for name, value in translations)


class Means(Part):
    """Mean BLEU of groups of languages; None if a group is empty."""

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
    """Pairs that a many-to-many model was not trained on. They are not part of any mean. Omitted if empty."""
    left_out: list[str] = []
    """Tasks without a test set, which are not part of any mean. Omitted if empty."""
    without_spaces: list[str] = []
    """Tasks whose references have no spaces between words: BLEU is not meaningful there. Omitted if empty."""


BEFORE = "before.json"
"""The file name of `Before` in a run directory."""


class FromStart(Part):
    """A run that was trained on all languages from the start, which an extended run is compared with."""

    run: str
    """The name of that run."""
    scores: Scores
    tokens: StrictInt
    """The target tokens that it was trained on."""


class Before(JsonFile):
    """before.json: the scores of the run that a run with more languages started from."""

    advice: ClassVar[str] = "run `cclm extend` again"
    run: str
    """The name of that run."""
    scores: Scores
    from_start: FromStart | None = None
    """What `cclm extend --against` names. Omitted if it is not given."""
