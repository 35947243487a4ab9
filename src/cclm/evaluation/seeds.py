"""Two methods over the seeds that both have been trained with: their scores on average, and what they differ by."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cclm.evaluation.significance import paired_t


@dataclass(frozen=True)
class OverSeeds:
    """Two mean scores and the mean difference, system minus baseline, with its 95 % t interval and two-sided p.

    What one seed cannot give is None. `differences` has that of each seed, the seed as a text: so JSON keeps it.
    """

    baseline: float
    system: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    differences: dict[str, float]


def over_seeds(system: Mapping[int, float], baseline: Mapping[int, float]) -> OverSeeds:
    """How a system differs from the baseline, paired by seed; a seed that only one of them has is left out."""
    shared = [seed for seed in system if seed in baseline]
    if not shared:
        raise ValueError(f"no seed in common: the system has {sorted(system)}, the baseline {sorted(baseline)}")
    differences = {str(seed): system[seed] - baseline[seed] for seed in shared}
    interval = paired_t(list(differences.values()))
    theirs, ours = (math.fsum(scores[seed] for seed in shared) / len(shared) for scores in (baseline, system))
    return OverSeeds(theirs, ours, interval.mean, interval.low, interval.high, interval.p, differences)
