"""What a study leaves in its folder: results.json and tuned.json. No clock in them: equal studies, equal bytes."""

from typing import Any, ClassVar, Literal

from pydantic import StrictBool, StrictInt

from cclm.formats.base import JsonFile, Part
from cclm.formats.scores import Means, Row

PerLanguage = dict[str, float]


class StudyScores(Part):
    """The scores of a trial."""

    languages: dict[str, Row]
    means: Means = Means()


class Trial(Part):
    """An arm with a seed: what it came to, or why it failed."""

    arm: str
    seed: StrictInt
    run: str
    state: Literal["finished", "failed"]
    why: str | None = None
    steps: StrictInt | None = None
    best: StrictInt | None = None
    reason: str | None = None
    tokens: StrictInt | None = None
    admissions: dict[str, StrictInt] | None = None
    draws: dict[str, int] | None = None
    epochs: PerLanguage | None = None
    weighted: float | None = None
    macro: float | None = None
    dev_loss: dict[str, float | None] | None = None
    macro_at: dict[str, float | None] | None = None
    scores: StudyScores | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end."""
        return self.state == "finished"


class Declared(Part):
    """The study as it was declared."""

    name: str
    recipe: str
    seeds: list[StrictInt]
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
    sizes: dict[str, dict[str, StrictInt | None]]
    """Pairs of each task and split."""


class StudyBenchmark(Part):
    """The reference losses, and what the bitext models behind them cost; nothing if they came from a table."""

    losses: PerLanguage
    steps: StrictInt | None = None
    tokens: StrictInt | None = None


class Metric(Part):
    """A metric of an arm, mean over seeds, over groups of languages."""

    all: float | None = None
    hrl: float | None = None
    lrl: float | None = None
    worst: float | None = None


class MoreScores(Part):
    """A score beside BLEU and chrF, mean over seeds."""

    all: float | None = None
    hrl: float | None = None
    lrl: float | None = None
    languages: PerLanguage


class Arm(Part):
    """An arm on average over its finished seeds."""

    seeds: StrictInt
    bleu: Metric | None = None
    chrf: Metric | None = None
    languages: dict[str, dict[str, float | None]] | None = None
    weighted: float | None = None
    macro: float | None = None
    steps: float | None = None
    more_scores: dict[str, MoreScores] | None = None


class LanguageDifference(Part):
    """The difference in one language, by a bootstrap of its sentences."""

    baseline: float | None = None
    system: float | None = None
    difference: float
    low: float | None = None
    high: float | None = None
    p: float


class Comparison(Part):
    """Two arms compared over seeds or, with a single seed, over sentences."""

    first: str
    second: str
    primary: StrictBool
    metric: str
    over: str
    differences: PerLanguage
    """By seed."""
    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    holm: float | None = None
    """p, adjusted for all primary comparisons."""
    resamples: StrictInt | None = None
    languages: dict[str, LanguageDifference] | None = None
    sentence: str


class Try(Part):
    """One value that was tried in tuning."""

    value: Any
    run: str
    chosen: StrictBool
    why: str | None = None
    macro: float | None = None
    weighted: float | None = None
    best: StrictInt | None = None
    steps: StrictInt | None = None
    tokens: StrictInt | None = None


class TunedArm(Part):
    """The key of an arm that was tuned, and every value that was tried."""

    key: str
    tries: list[Try]


class Tuning(Part):
    """What was tuned before the first trial, and what it cost."""

    seed: StrictInt
    steps: StrictInt
    tokens: StrictInt
    arms: dict[str, TunedArm]


class TunedFile(JsonFile, Tuning):
    """The content of tuned.json."""

    advice: ClassVar[str] = "run `cclm study` again: it makes the file anew from the runs"


class StudyResults(JsonFile):
    """The content of results.json."""

    advice: ClassVar[str] = "run `cclm study` again: it makes the file anew from the runs"
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
    seeds: list[StrictInt]
    primary: list[list[str]]
    endpoint: str
    tune: dict[str, Any] | None = None
    """The section `tune` of the study, as it was: settings of any type."""
