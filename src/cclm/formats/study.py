"""The files of a study. They contain no times, so that equal studies have equal files."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict, StrictBool, model_validator

from cclm.formats.base import JsonFile, Part
from cclm.formats.scores import METRICS, Means, MetricName, Row

Number = Annotated[float, Strict()]
"""A finite number. Strings and booleans are not accepted."""
Count = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
"""A 64-bit integer. Strings and booleans are not accepted."""
PerLanguage = dict[str, Number]


class StudyScores(Part):
    """The scores of a trial."""

    languages: dict[str, Row]
    means: Means = Means()


class Trial(Part):
    """The result of an arm with one seed, or the reason why it failed."""

    arm: str
    seed: Count
    run: str
    state: Literal["finished", "failed"]
    why: str | None = None
    steps: Count | None = None
    best: Count | None = None
    reason: str | None = None
    tokens: Count | None = None
    admissions: dict[str, Count] | None = None
    draws: dict[str, Count] | None = None
    epochs: PerLanguage | None = None
    weighted: Number | None = None
    macro: Number | None = None
    dev_loss: dict[str, Number | None] | None = None
    macro_at: dict[str, Number | None] | None = None
    scores: StudyScores | None = None

    @model_validator(mode="after")
    def _check_finished(self) -> Self:
        if not self.is_finished:
            return self
        if self.scores is None:
            raise ValueError("scores in a finished trial")
        for lang, row in self.rows.items():
            for metric in METRICS:
                if metric not in row:
                    raise ValueError(f"scores.languages.{lang}.{metric} in a finished trial")
        return self

    @property
    def is_finished(self) -> bool:
        """Whether training and scoring were completed."""
        return self.state == "finished"

    @property
    def rows(self) -> dict[str, Row]:
        """The scores of each language; empty for a failed trial."""
        return self.scores.languages if self.scores else {}


class Declared(Part):
    """The study as it was declared."""

    name: str
    recipe: str
    seeds: list[Count]
    primary: list[list[str]]
    endpoint: MetricName
    arms: dict[str, dict[str, Any] | None]
    """The changes to the recipe of each arm: settings of any type."""
    changes: dict[str, Any] = {}
    baseline: str | None = None


class StudyData(Part):
    """The data of a study."""

    direction: str
    pivot: str
    high_resource: list[str]
    low_resource: list[str]
    sizes: dict[str, dict[str, Count | None]]
    """The number of pairs per task and split."""


class StudyBenchmark(Part):
    """The reference losses, and the cost of the trainings that gave them; no cost if the losses came from a file."""

    losses: PerLanguage
    steps: Count | None = None
    tokens: Count | None = None
    method: str = "bitext"
    """Where the losses come from, as in `benchmark.method`."""
    arms: dict[str, Count | None] = {}
    """Target tokens for the losses of the arms that have their own."""


class Metric(Part):
    """A metric of an arm for groups of languages, averaged over seeds."""

    all: Number | None = None
    hrl: Number | None = None
    lrl: Number | None = None
    worst: Number | None = None


class MoreScores(Part):
    """A score other than BLEU and chrF, averaged over seeds."""

    all: Number | None = None
    hrl: Number | None = None
    lrl: Number | None = None
    languages: PerLanguage


class Arm(Part):
    """The results of an arm, averaged over its finished seeds."""

    seeds: Count
    bleu: Metric | None = None
    chrf: Metric | None = None
    languages: dict[str, dict[str, Number | None]] | None = None
    weighted: Number | None = None
    macro: Number | None = None
    steps: Number | None = None
    more_scores: dict[str, MoreScores] | None = None


class LanguageDifference(Part):
    """The difference in one language, with a bootstrap over its sentences."""

    baseline: Number | None = None
    system: Number | None = None
    difference: Number
    low: Number | None = None
    high: Number | None = None
    p: Number
    p_sacrebleu: Number | None = None


class Comparison(Part):
    """A comparison of two arms over seeds or, with a single seed, over sentences."""

    first: str
    second: str
    primary: StrictBool
    metric: MetricName
    over: str
    differences: PerLanguage
    """The difference per seed."""
    mean: Number
    low: Number | None = None
    high: Number | None = None
    p: Number | None = None
    holm: Number | None = None
    """The p-value with Holm's correction for all primary comparisons."""
    resamples: Count | None = None
    languages: dict[str, LanguageDifference] | None = None
    sentence: str


class Try(Part):
    """One candidate value of a tuned key."""

    value: Any
    run: str
    chosen: StrictBool
    why: str | None = None
    macro: Number | None = None
    weighted: Number | None = None
    best: Count | None = None
    steps: Count | None = None
    tokens: Count | None = None


class TunedArm(Part):
    """The tuned key of an arm, with all candidate values."""

    key: str
    tries: list[Try]


class Tuning(Part):
    """The tuning before the first trial, and its cost."""

    seed: Count
    steps: Count
    tokens: Count
    arms: dict[str, TunedArm]


class TunedFile(JsonFile, Tuning):
    """The content of tuned.json."""

    advice: ClassVar[str] = "run `cclm study` again: it rewrites the file from the runs"


class StudyResults(JsonFile):
    """The content of results.json."""

    advice: ClassVar[str] = "run `cclm study` again: it rewrites the file from the runs"
    study: Declared
    data: StudyData
    similarity: dict[str, PerLanguage] | None = None
    benchmark: StudyBenchmark | None = None
    trials: list[Trial]
    arms: dict[str, Arm]
    comparisons: list[Comparison]
    tuning: Tuning | None = None


class DeclaredFile(JsonFile):
    """The content of declared.json: the design of the study before the first run."""

    advice: ClassVar[str] = "give the study another name"
    seeds: list[Count]
    primary: list[list[str]]
    endpoint: MetricName
    tune: dict[str, Any] | None = None
    """The original section `tune` of the study: settings of any type."""
