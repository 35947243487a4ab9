"""What a finished training came to, read from its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cclm.errors import DataError
from cclm.formats.log import Log, Validation
from cclm.training.provenance import newest_checkpoint, progress_of

SHARES = (50, 75, 100)
"""Percent of the budget at which the dev loss is reported: short runs favour other methods than long ones."""


@dataclass(frozen=True)
class Outcome:
    """A training in numbers; losses are of the selected checkpoint, in bits per token."""

    steps: int
    best: int | None
    reason: str
    tokens: int
    admissions: dict[str, int]
    draws: dict[str, int]
    epochs: dict[str, float]
    weighted: float | None
    macro: float | None
    dev_loss: dict[str, float | None]
    macro_at: dict[str, float | None]
    """Macro dev loss after 50, 75 and 100 percent of the steps."""


def outcome(run: Path, max_steps: int, batches: Mapping[str, int]) -> Outcome:
    """What a training came to; `batches` are those of a pass over each language."""
    log = Log.read(run / "log.jsonl")
    stopped, best = log.stopped, log.best
    if stopped is None or best is None:
        raise DataError(f"{run}: its log has no end; train it to its end first")
    validations = {event.step: event for event in log.of(Validation)}
    newest = newest_checkpoint(run)
    draws = progress_of(newest).counters if newest else {}
    return Outcome(
        steps=stopped.step,
        best=stopped.best,
        reason=stopped.reason,
        tokens=log.tokens,
        admissions=log.admissions,
        draws={lang: draws.get(lang, 0) for lang in batches},
        epochs={lang: draws.get(lang, 0) / count for lang, count in batches.items()},
        weighted=best.weighted,
        macro=best.macro,
        dev_loss=best.dev_loss,
        macro_at={str(share): _macro_at(validations, max_steps * share // 100) for share in SHARES},
    )


def _macro_at(validations: Mapping[int, Validation], step: int) -> float | None:
    """The macro dev loss at the last validation up to a step; None where the training had ended before it."""
    within = [earlier for earlier in validations if earlier <= step]
    return validations[max(within)].macro if within and max(validations) >= step else None


@dataclass(frozen=True)
class BitextOutcome:
    """A folder of bitext runs in numbers."""

    steps: int
    tokens: int
    dev_loss: dict[str, float | None]


def bitext_outcome(folder: Path, names: Sequence[str]) -> BitextOutcome:
    """What the bitext models of these tasks came to together."""
    found = {name: outcome(folder / name, 0, {}) for name in names}
    return BitextOutcome(
        steps=sum(each.steps for each in found.values()),
        tokens=sum(each.tokens for each in found.values()),
        dev_loss={name: each.dev_loss[name] for name, each in found.items()},
    )
