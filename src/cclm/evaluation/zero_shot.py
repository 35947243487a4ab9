"""Zero-shot pairs of a many-to-many model: both languages were trained, but only together with the pivot."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cclm.training.tasks import Task

MAX_PAIRS = 56
"""Every pair of 8 languages, both ways. Of more languages the pairs grow with the square, and so would the time."""


@dataclass(frozen=True)
class ZeroShotPair:
    """Two languages other than the pivot, and the sentences whose translation into the pivot is the same in both."""

    source: str
    target: str
    sources: list[str]
    references: list[str]

    @property
    def name(self) -> str:
        """The name of its row in scores.json."""
        return f"{self.source}-{self.target}"


def zero_shot_pairs(
    tasks: Mapping[str, Task], texts_of: Callable[[Task], tuple[list[str], list[str]]]
) -> dict[str, ZeroShotPair]:
    """The pairs that have something to compare with: test sets that share sentences of the pivot.

    `texts_of(task)` gives the sources and references of a task. There are none unless languages are translated both
    into the pivot and from it.
    """
    from_pivot = {task.target for task in tasks.values() if not task.direction.to_pivot}
    both_ways = [task for task in tasks.values() if task.direction.to_pivot and task.source in from_pivot]
    if len(both_ways) * (len(both_ways) - 1) > MAX_PAIRS:
        pairs = len(both_ways) * (len(both_ways) - 1)
        warnings.warn(f"{pairs:,} zero-shot pairs are not scored: more than {MAX_PAIRS}", stacklevel=2)
        return {}
    by_pivot = {task.source: _by_pivot(*texts_of(task)) for task in both_ways}
    found = {}
    for source, ours in by_pivot.items():
        for target, theirs in by_pivot.items():
            shared = [sentence for sentence in ours if sentence in theirs] if source != target else []
            if shared:
                sides = ([side[sentence] for sentence in shared] for side in (ours, theirs))
                pair = ZeroShotPair(source, target, *sides)
                found[pair.name] = pair
    return found


def _by_pivot(sentences: list[str], pivot: list[str]) -> dict[str, str]:
    """The sentences of a language by their translation into the pivot, the first of several; no empty ones."""
    found: dict[str, str] = {}
    for sentence, translation in zip(sentences, pivot, strict=True):
        if sentence.strip() and translation.strip():
            found.setdefault(translation, sentence)
    return found
