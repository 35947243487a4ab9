"""What a study leaves in its folder: results.json and tuned.json. No clock in them: equal studies, equal bytes."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict, StrictBool, model_validator

from cclm.formats.base import JsonFile, Part
from cclm.formats.scores import Means, Row

Number = Annotated[float, Strict()]
"""A finite number; a text or a truth value is refused."""
Count = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
"""A whole number that a program can compute with."""
PerLanguage = dict[str, Number]


class StudyScores(Part):
    """The scores of a trial."""

    languages: dict[str, Row]
    means: Means = Means()


class Trial(Part):
    """An arm with a seed: what it came to, or why it failed."""

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
            for metric in ("bleu", "chrf"):
                if metric not in row:
                    raise ValueError(f"scores.languages.{lang}.{metric} in a finished trial")
        return self

    @property
    def is_finished(self) -> bool:
        """Whether the training and the scoring were completed."""
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
    endpoint: str
    arms: dict[str, dict[str, Any] | None]
    """The changes that make each arm: settings of any type."""
    changes: dict[str, Any] = {}
    baseline: str | None = None


class StudyData(Part):
    """What was trained on."""

    direction: str
    pivot: str
    high_resource: list[str]
    low_resource: list[str]
    sizes: dict[str, dict[str, Count | None]]
    """Pairs of each task and split."""


class StudyBenchmark(Part):
    """The reference losses, and what the bitext models behind them cost; nothing if they came from a table."""

    losses: PerLanguage
    steps: Count | None = None
    tokens: Count | None = None


class Metric(Part):
    """A metric of an arm, mean over seeds, over groups of languages."""

    all: Number | None = None
    hrl: Number | None = None
    lrl: Number | None = None
    worst: Number | None = None


class MoreScores(Part):
    """A score beside BLEU and chrF, mean over seeds."""

    all: Number | None = None
    hrl: Number | None = None
    lrl: Number | None = None
    languages: PerLanguage


class Arm(Part):
    """An arm on average over its finished seeds."""

    seeds: Count
    bleu: Metric | None = None
    chrf: Metric | None = None
    languages: dict[str, dict[str, Number | None]] | None = None
    weighted: Number | None = None
    macro: Number | None = None
    steps: Number | None = None
    more_scores: dict[str, MoreScores] | None = None


class LanguageDifference(Part):
    """The difference in one language, by a bootstrap of its sentences."""

    baseline: Number | None = None
    system: Number | None = None
    difference: Number
    low: Number | None = None
    high: Number | None = None
    p: Number
    p_sacrebleu: Number | None = None


class Comparison(Part):
    """Two arms compared over seeds or, with a single seed, over sentences."""

    first: str
    second: str
    primary: StrictBool
    metric: str
    over: str
    differences: PerLanguage
    """By seed."""
    mean: Number
    low: Number | None = None
    high: Number | None = None
    p: Number | None = None
    holm: Number | None = None
    """p, adjusted for all primary comparisons."""
    resamples: Count | None = None
    languages: dict[str, LanguageDifference] | None = None
    sentence: str


class Try(Part):
    """One value that was tried in tuning."""

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
    """The key of an arm that was tuned, and every value that was tried."""

    key: str
    tries: list[Try]


class Tuning(Part):
    """What was tuned before the first trial, and what it cost."""

    seed: Count
    steps: Count
    tokens: Count
    arms: dict[str, TunedArm]


class TunedFile(JsonFile, Tuning):
    """The content of tuned.json."""

    advice: ClassVar[str] = "run `cclm study` again: it writes the file again from the runs"


class StudyResults(JsonFile):
    """The content of results.json."""

    advice: ClassVar[str] = "run `cclm study` again: it writes the file again from the runs"
    study: Declared
    data: StudyData
    similarity: dict[str, PerLanguage] | None = None
    benchmark: StudyBenchmark | None = None
    trials: list[Trial]
    arms: dict[str, Arm]
    comparisons: list[Comparison]
    tuning: Tuning | None = None


class DeclaredFile(JsonFile):
    """The content of declared.json: what was asked before the first run."""

    advice: ClassVar[str] = "give the study another name"
    seeds: list[Count]
    primary: list[list[str]]
    endpoint: str
    tune: dict[str, Any] | None = None
    """The section `tune` of the study, as it was: settings of any type."""
