"""Gates: all languages at once, those whose similar HRLs are competent, or each at a given step."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from cclm.curriculum.competence import hrls_evaluated_avg, hrls_evaluated_avg_se, hrls_evaluated_max
from cclm.curriculum.graph import LanguageGraph
from cclm.curriculum.languages import check_complete, check_known, is_number, listed
from cclm.curriculum.situation import Situation

WITNESSES = 4
"""How many HRLs an admission names: those with the largest share."""


@dataclass(frozen=True)
class AllAtOnce:
    """Every language from the start: the gate of all methods without a curriculum."""

    def admit(self, now: Situation) -> dict[str, dict[str, object]]:
        """All languages, before training."""
        return {lang: {"reason": "all languages from the start"} for lang in now.waiting}


@dataclass(frozen=True)
class CompetenceGate:
    """The paper's gate: an LRL joins once its HRLs-evaluated competence reaches the threshold (Algorithm 1).

    `aggregate="max"` uses the competence of the most similar HRL, `"avg"` the mean of all, weighted by similarity.
    `confidence` asks for more than the paper: the competence must be above the threshold by that many of its standard
    errors. Without `dev_loss_se` in the observations these count as 0.
    """

    graph: LanguageGraph
    aggregate: Literal["max", "avg"] = "avg"
    threshold: float = 0.9
    confidence: float = 0.0

    needs: ClassVar[frozenset[str]] = frozenset({"benchmark"})

    def __post_init__(self) -> None:
        if self.aggregate not in ("max", "avg"):
            raise ValueError(f"aggregate must be one of 'max', 'avg'; got {self.aggregate!r}")
        if not is_number(self.threshold) or not self.threshold >= 0:
            raise ValueError(f"threshold must be a number of at least 0; got {self.threshold!r}")
        if not is_number(self.confidence) or not 0 <= self.confidence < math.inf:
            raise ValueError(f"confidence must be a finite number of at least 0; got {self.confidence!r}")
        if self.graph.isolated:
            warnings.warn(
                f"no HRL is similar to {listed(self.graph.isolated)}: all HRLs count the same there",
                stacklevel=3,
            )

    def __repr__(self) -> str:
        """Names what differs from the paper's rule only where it does: this identifies a gate in saved states."""
        sure = f", confidence={self.confidence!r}" if self.confidence else ""
        return (
            f"{type(self).__qualname__}(graph={self.graph!r}, aggregate={self.aggregate!r},"
            f" threshold={self.threshold!r}{sure})"
        )

    def readiness(self, now: Situation) -> dict[str, float]:
        """The HRLs-evaluated competence of every LRL."""
        evaluate = hrls_evaluated_max if self.aggregate == "max" else hrls_evaluated_avg
        return evaluate(self.graph, now.competence)

    def readiness_se(self, now: Situation) -> dict[str, float]:
        """The standard error of the HRLs-evaluated competence of every LRL, where those of the HRLs are known."""
        evaluate = hrls_evaluated_max if self.aggregate == "max" else hrls_evaluated_avg_se
        return evaluate(self.graph, now.competence_se)

    def admit(self, now: Situation) -> dict[str, dict[str, object]]:
        """The HRLs before training; then every LRL whose HRLs-evaluated competence has reached the threshold."""
        if not now.round:
            check_known(now.languages, self.graph.languages, "language graph")
            check_complete(now.sizes, self.graph.languages, "sizes")
            return {hrl: {"reason": "high-resource"} for hrl in self.graph.high_resource}
        ready, errors = self.readiness(now), self.readiness_se(now) if self.confidence else {}
        margins = {lrl: self.confidence * errors.get(lrl, 0.0) for lrl in ready}
        return {
            lrl: self._reason(lrl, ready[lrl], margins[lrl], now.competence)
            for lrl in now.waiting
            if lrl in ready and ready[lrl] - margins[lrl] >= self.threshold  # >= as in Algorithm 1, unlike in the text
        }

    def _reason(self, lrl: str, ready: float, margin: float, competence: Mapping[str, float]) -> dict[str, object]:
        vouched = {hrl: competence[hrl] for hrl in self._witnesses(lrl) if hrl in competence}
        said = ", ".join(f"{hrl} {value:.2f}" for hrl, value in vouched.items())
        sure = f" - {margin:.3f}" if margin else ""
        return {
            "reason": f"HRLs-evaluated competence {ready:.3f}{sure} >= {self.threshold:g} ({said})",
            "hrls_competence": ready,
            "threshold": self.threshold,
            "vouched": vouched,
        }

    def _witnesses(self, lrl: str) -> list[str]:
        if self.aggregate == "max":
            return [self.graph.nearest[lrl]]
        similarity = self.graph.similarity[lrl]
        return sorted(self.graph.high_resource, key=lambda hrl: -similarity[hrl])[:WITNESSES]


@dataclass(frozen=True)
class StepGate:
    """Admission at given steps: `StepGate({"slk": 5000, "bel": 9000})`; other languages are admitted at the start.

    With the steps at which a CompetenceGate admitted, it is a placebo: the same delays without measurements.
    """

    steps: Mapping[str, int]

    def __post_init__(self) -> None:
        for lang, step in self.steps.items():
            if isinstance(step, bool) or not isinstance(step, int) or step < 0:
                raise ValueError(f"StepGate: step of {lang} is {step!r}; a whole number of at least 0 is needed")

    def admit(self, now: Situation) -> dict[str, dict[str, object]]:
        """Every language whose step has been reached."""
        check_known(self.steps, now.languages, "StepGate")
        due = [lang for lang in now.waiting if self.steps.get(lang, 0) <= now.step]
        return {lang: {"reason": f"due at step {self.steps.get(lang, 0)}"} for lang in due}
