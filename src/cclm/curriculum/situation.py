"""What a gate and a sampler get to see, and what they are asked: the whole interface for one's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Reasons = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Situation:
    """All that is known at the moment of a decision."""

    step: int
    round: int
    """Observations so far; 0 before the first."""
    languages: tuple[str, ...]
    """Every language, in canonical (sorted) order."""
    admitted: tuple[str, ...]
    """Those that take part, in the order in which they came."""
    waiting: tuple[str, ...]
    """The others, as declared."""
    sizes: Mapping[str, int]
    """Training pairs."""
    benchmark: Mapping[str, float]
    """L*, bits a token; empty where none was given."""
    dev_loss: Mapping[str, float]
    """The last good value, smoothed where asked for; a language never measured is absent."""
    competence: Mapping[str, float]
    """Self-evaluated; absent without a measurement or a benchmark."""
    signals: Mapping[str, Any]
    """What this observation brought, as measured; empty between observations."""
    memory: dict[str, Any]
    """The gate's or sampler's own, to read and write: plain JSON, saved and restored with the curriculum."""


class Gate(Protocol):
    """Who takes part.

    A gate may also have `needs` (a set of signal names, or "benchmark"), `every` (it acts every so many
    rounds) and `readiness(now)` (a number for each candidate, shown to people and logged).
    """

    def admit(self, now: Situation) -> Reasons:
        """The languages to admit now, each with the reason: a mapping with a "reason" for people.

        Asked once before training (round 0) and then in every round. Admission is for good.
        """


class Sampler(Protocol):
    """How often each admitted language is drawn.

    A sampler may also have `needs` and `every`, as a gate.
    """

    def weights(self, now: Situation) -> Mapping[str, float]:
        """A non-negative weight for each of `now.admitted`; the curriculum normalises.

        Asked before training, in every round after the gate, and when languages join otherwise.
        """
