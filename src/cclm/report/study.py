"""The results of a study as its tables need them: arms, languages, and scores over groups and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cclm.formats.study import Arm, Comparison, Metric, MoreScores, StudyResults, Trial
from cclm.report.document import mean
from cclm.report.paper_figures import PaperFigures, paper_figures

METRICS = {"bleu": "BLEU", "chrf": "chrF"}
SIGNS = ("†", "‡", "§")
LEVEL = 0.05
NO_ARM = Arm(seeds=0)


@dataclass(frozen=True)
class Study:
    """The content of results.json with the questions that the sections of the page ask."""

    results: StudyResults

    @property
    def name(self) -> str:
        return self.results.study.name

    @property
    def seeds(self) -> list[int]:
        return self.results.study.seeds

    @property
    def endpoint(self) -> str:
        return self.results.study.endpoint

    @property
    def endpoint_name(self) -> str:
        return METRICS.get(self.endpoint, self.endpoint)

    @property
    def comparisons(self) -> list[Comparison]:
        return self.results.comparisons

    @cached_property
    def arms(self) -> list[str]:
        """Every declared arm, then any other that was trained, such as the bitext models."""
        trained = (trial.arm for trial in self.results.trials)
        return list(dict.fromkeys([*self.results.study.arms, *self.results.arms, *trained]))

    @cached_property
    def languages(self) -> list[str]:
        """LRLs, then HRLs, in the order of the paper; then anything else that was scored."""
        declared = [*self.results.data.low_resource, *self.results.data.high_resource]
        scored = dict.fromkeys(lang for trial in self.finished() for lang in trial.rows)
        tasks = sorted(scored, key=lambda lang: self.side(lang) != "lrl")
        return [lang for lang in declared if lang in scored] + [lang for lang in tasks if lang not in declared]

    @cached_property
    def resampled(self) -> bool:
        """Whether intervals come from a bootstrap of sentences, as they do with a single seed."""
        return any(comparison.resamples for comparison in self.comparisons)

    @property
    def over_seeds(self) -> str:
        """The words behind a mean over seeds; empty with a single seed."""
        return ", mean over seeds" if len(self.seeds) > 1 else ""

    @cached_property
    def paper(self) -> PaperFigures | None:
        """The paper's numbers for this recipe, if it is one of the paper's."""
        return paper_figures(self.results.study.recipe)

    def side(self, task: str) -> str:
        """Whether a language, or a task between it and the pivot, is an HRL or an LRL."""
        data = self.results.data
        language = task.removesuffix(f"-{data.pivot}").removeprefix(f"{data.pivot}-")
        return "hrl" if task in data.high_resource or language in data.high_resource else "lrl"

    def finished(self, arm: str | None = None) -> list[Trial]:
        """The finished trials of an arm, or of all."""
        return [trial for trial in self.results.trials if trial.is_finished and arm in (None, trial.arm)]

    def failed(self) -> list[Trial]:
        """The trials that failed."""
        return [trial for trial in self.results.trials if not trial.is_finished]

    def arm(self, name: str) -> Arm:
        """The averages of an arm; empty if none of its trials finished."""
        return self.results.arms.get(name, NO_ARM)

    def mean(self, arm: str, metric: str, over: str) -> float | None:
        """An arm's score over a group of languages, mean over seeds."""
        means: Metric | None = getattr(self.arm(arm), metric)
        value: float | None = getattr(means, over) if means else None
        return value

    def of_language(self, arm: str, metric: str, lang: str) -> float | None:
        """An arm's score in one language, mean over seeds."""
        return (self.arm(arm).languages or {}).get(lang, {}).get(metric)

    def more_scores(self, arm: str) -> Mapping[str, MoreScores]:
        """An arm's scores beside BLEU and chrF by name, mean over seeds."""
        return self.arm(arm).more_scores or {}

    def by_seed(self, arm: str, metric: str, over: str) -> list[float]:
        """An arm's score over a group of languages for each seed."""
        found = []
        for trial in self.finished(arm):
            values = [row[metric] for lang, row in trial.rows.items() if over in ("all", "worst", self.side(lang))]
            if values:
                found.append(min(values) if over == "worst" else mean(values))
        return found

    def average(self, arm: str, key: str) -> float | None:
        """A number of the trials, such as `tokens`, mean over seeds."""
        values = [getattr(trial, key) for trial in self.finished(arm) if getattr(trial, key) is not None]
        return mean(values) if values else None

    def is_at_endpoint(self, comparison: Comparison) -> bool:
        """Whether a comparison is about the declared endpoint."""
        return comparison.metric == self.endpoint and comparison.over == "all"

    def status(self, comparison: Comparison) -> str:
        """`primary` if it was declared before the run and is at the endpoint, otherwise `exploratory`."""
        return "primary" if comparison.primary and self.is_at_endpoint(comparison) else "exploratory"

    @cached_property
    def primary(self) -> list[Comparison]:
        """The comparisons declared before the run."""
        return [comparison for comparison in self.comparisons if self.status(comparison) == "primary"]

    def marks(self) -> dict[str, list[tuple[str, str]]]:
        """For each arm that a primary comparison over seeds finds better (adjusted): its sign and the footnote."""
        found: dict[str, list[tuple[str, str]]] = {}
        for i, comparison in enumerate([] if self.resampled else self.primary):
            if comparison.holm is not None and comparison.holm < LEVEL and comparison.mean:
                pair = [comparison.first, comparison.second]
                better, worse = pair if comparison.mean > 0 else pair[::-1]
                sign = SIGNS[i] if i < len(SIGNS) else f"({i + 1})"
                found.setdefault(better, []).append((sign, f"{sign} better than {worse}"))
        return found
