"""The related set of the paper, many-to-one: its sizes, similarities, benchmark losses, and one round of losses.

Sizes: dataset statistics, similarity and L*: the paper's appendix. LOSS is made up so that every number that
follows from it can be worked out by hand (see the tests that use it).
"""

from typing import Any

from cclm import CompetenceGate, Curriculum, InverseCompetence, LanguageGraph

HRLS = ["tur", "rus", "por", "ces"]
LRLS = ["aze", "bel", "glg", "slk"]
SIZES = {
    "aze": 5_940,
    "bel": 4_510,
    "glg": 10_000,
    "slk": 61_500,
    "tur": 182_000,
    "rus": 208_000,
    "por": 185_000,
    "ces": 103_000,
}
SIMILARITY = {
    "aze": {"tur": 0.50, "rus": 0.09, "por": 0.22, "ces": 0.24},
    "bel": {"tur": 0.12, "rus": 0.34, "por": 0.12, "ces": 0.11},
    "glg": {"tur": 0.24, "rus": 0.07, "por": 0.59, "ces": 0.27},
    "slk": {"tur": 0.30, "rus": 0.08, "por": 0.26, "ces": 0.68},
}
BENCHMARK = {
    "aze": 7.87,
    "bel": 7.843,
    "glg": 6.891,
    "slk": 5.205,
    "tur": 4.344,
    "rus": 4.577,
    "por": 3.687,
    "ces": 4.495,
}
LOSS = {
    "aze": 8.50,
    "bel": 8.00,
    "glg": 6.50,
    "slk": 5.60,
    "tur": 4.844,
    "rus": 4.877,
    "por": 3.887,
    "ces": 4.595,
}


def graph() -> LanguageGraph:
    return LanguageGraph(HRLS, LRLS, SIMILARITY)


def curriculum(**changes: Any) -> Curriculum:
    """The paper's method on the related set; anything can be changed."""
    settings: dict[str, Any] = {
        "gate": CompetenceGate(graph(), aggregate="avg", threshold=0.85),
        "sampler": InverseCompetence(),
        "sizes": SIZES,
        "benchmark": BENCHMARK,
    }
    return Curriculum(**settings | changes)
