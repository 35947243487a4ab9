"""The interface of gates and samplers, for those of users too: what they are given, and what they return."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Reasons = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Situation:
    """All that is known when a decision is made."""

    step: int
    round: int
    """Observations so far; 0 before the first."""
    languages: tuple[str, ...]
    """Every language, in canonical (sorted) order."""
    admitted: tuple[str, ...]
    """Those that take part, in the order of their admission."""
    waiting: tuple[str, ...]
    """The others, as declared."""
    sizes: Mapping[str, int]
    """Training pairs."""
    benchmark: Mapping[str, float]
    """L* in bits per token; empty where none was given."""
    dev_loss: Mapping[str, float]
    """The last good value, smoothed where asked for; a language never measured is absent."""
    competence: Mapping[str, float]
    """Self-evaluated; absent without a measurement or a benchmark."""
    signals: Mapping[str, Any]
    """The signals of this observation, as measured; empty between observations."""
    memory: dict[str, Any]
    """The gate's or sampler's own state, to read and write: plain JSON, saved and restored with the curriculum."""
    competence_se: Mapping[str, float] = field(default_factory=dict)
    """The standard error of each competence; absent where the observation had no `dev_loss_se`."""


class Gate(Protocol):
    """Decides which languages take part.

    A gate may also have `needs` (a set of signal names, or "benchmark"), `every` (it acts in every
    `every`-th round) and `readiness(now)` (a number for each candidate, shown to people and logged).
    """

    def admit(self, now: Situation) -> Reasons:
        """The languages to admit now, each with the reason: a mapping with a "reason" for people.

        Called once before training (round 0) and then in every round. Admission is permanent.
        """


class Sampler(Protocol):
    """Decides how often each admitted language is drawn.

    A sampler may also have `needs` and `every`, as a gate.
    """

    def weights(self, now: Situation) -> Mapping[str, float]:
        """A non-negative weight for each of `now.admitted`; the curriculum normalises.

        Called before training, in every round after the gate, and when languages are admitted in other ways.
        """
