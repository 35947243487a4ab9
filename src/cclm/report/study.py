"""The results of a study, asked questions: which arms, which languages, which scores seed by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from cclm.report.paper_figures import PaperFigures, paper_figures

METRICS = {"bleu": "BLEU", "chrf": "chrF"}
SIGNS = ("†", "‡", "§")
LEVEL = 0.05

Trial = Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """What `read_study` gives, as the tables need it."""

    results: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.results["study"]["name"])

    @property
    def seeds(self) -> Sequence[int]:
        return list(self.results["study"]["seeds"])

    @property
    def endpoint(self) -> str:
        return str(self.results["study"]["endpoint"])

    @property
    def endpoint_name(self) -> str:
        return METRICS.get(self.endpoint, self.endpoint)

    @property
    def comparisons(self) -> Sequence[Mapping[str, Any]]:
        return list(self.results["comparisons"])

    @cached_property
    def arms(self) -> list[str]:
        """Every arm as declared, then whoever else was tried, such as the bitext models."""
        tried = (trial["arm"] for trial in self.results["trials"])
        return list(dict.fromkeys([*self.results["study"]["arms"], *self.results["arms"], *tried]))

    @cached_property
    def languages(self) -> list[str]:
        """LRLs, then HRLs, as the paper lists them; then whatever was scored besides."""
        declared = [*self.results["data"]["low_resource"], *self.results["data"]["high_resource"]]
        scored = dict.fromkeys(lang for trial in self.finished() for lang in trial["scores"]["languages"])
        tasks = sorted(scored, key=lambda lang: self.side(lang) != "lrl")
        return [lang for lang in declared if lang in scored] + [lang for lang in tasks if lang not in declared]

    @cached_property
    def resampled(self) -> bool:
        """Whether its intervals are of a bootstrap of sentences: so it is with a single seed."""
        return any(comparison.get("resamples") for comparison in self.comparisons)

    @property
    def over_seeds(self) -> str:
        """What to say behind a mean over seeds: nothing where there is one."""
        return ", mean over seeds" if len(self.seeds) > 1 else ""

    @cached_property
    def paper(self) -> PaperFigures | None:
        """What the paper printed for this recipe, if it is one of the paper's."""
        return paper_figures(str(self.results["study"]["recipe"]))

    def side(self, task: str) -> str:
        """Whether a language, or a task between it and the pivot, is of the HRLs or of the LRLs."""
        data = self.results["data"]
        bare = task.removesuffix(f"-{data['pivot']}").removeprefix(f"{data['pivot']}-")
        return "hrl" if task in data["high_resource"] or bare in data["high_resource"] else "lrl"

    def finished(self, arm: str | None = None) -> list[Trial]:
        """The trials that came to an end: of an arm, or all."""
        wanted = (trial for trial in self.results["trials"] if trial["state"] == "finished")
        return [trial for trial in wanted if arm in (None, trial["arm"])]

    def failed(self) -> list[Trial]:
        """The trials that did not."""
        return [trial for trial in self.results["trials"] if trial["state"] == "failed"]

    def mean(self, arm: str, metric: str, over: str) -> float | None:
        """An arm's score over a group of languages, mean over seeds, as the results give it."""
        value: float | None = (self.results["arms"].get(arm, {}).get(metric) or {}).get(over)
        return value

    def of_language(self, arm: str, metric: str, lang: str) -> float | None:
        """An arm's score of one language, mean over seeds."""
        rows = self.results["arms"].get(arm, {}).get("languages") or {}
        value: float | None = rows.get(lang, {}).get(metric)
        return value

    def more_scores(self, arm: str) -> Mapping[str, Mapping[str, Any]]:
        """What an arm's languages and groups have beside BLEU and chrF, mean over seeds, by the name of the score."""
        return self.results["arms"].get(arm, {}).get("more_scores") or {}

    def by_seed(self, arm: str, metric: str, over: str) -> list[float]:
        """The same score of each seed."""
        found = []
        for trial in self.finished(arm):
            rows = trial["scores"]["languages"]
            values = [row[metric] for lang, row in rows.items() if over in ("all", "worst", self.side(lang))]
            if values:
                found.append(min(values) if over == "worst" else fmean(values))
        return found

    def averaged(self, arm: str, key: str) -> float | None:
        """A number of the trials, such as `tokens`, mean over seeds."""
        values = [trial[key] for trial in self.finished(arm) if trial.get(key) is not None]
        return fmean(values) if values else None

    def at_the_endpoint(self, comparison: Mapping[str, Any]) -> bool:
        """Whether a comparison is of what the study declared it would look at."""
        return bool(comparison["metric"] == self.endpoint and comparison["over"] == "all")

    def status(self, comparison: Mapping[str, Any]) -> str:
        """`primary` for what was declared before the run, at the endpoint; all else is `exploratory`."""
        return "primary" if comparison["primary"] and self.at_the_endpoint(comparison) else "exploratory"

    @cached_property
    def primary(self) -> list[Mapping[str, Any]]:
        """The comparisons declared before the run."""
        return [comparison for comparison in self.comparisons if self.status(comparison) == "primary"]

    def marks(self) -> dict[str, list[tuple[str, str]]]:
        """For each arm that is better by a primary comparison over seeds, adjusted: a sign and what it says."""
        found: dict[str, list[tuple[str, str]]] = {}
        for i, comparison in enumerate([] if self.resampled else self.primary):
            if comparison.get("holm") is not None and comparison["holm"] < LEVEL and comparison["mean"]:
                pair = [comparison["first"], comparison["second"]]
                better, worse = pair if comparison["mean"] > 0 else pair[::-1]
                sign = SIGNS[i] if i < len(SIGNS) else f"({i + 1})"
                found.setdefault(better, []).append((sign, f"{sign} better than {worse}"))
        return found
