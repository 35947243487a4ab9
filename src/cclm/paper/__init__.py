"""The figures printed in the paper: language sets, losses of bitext models, similarities, results."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from cclm.curriculum import LanguageGraph

HIGH_RESOURCE = {"related": ("tur", "rus", "por", "ces"), "diverse": ("ell", "bul", "fra", "kor")}
"""The four HRLs of each set; the other four are LRLs."""

Direction = Literal["many-to-one", "one-to-many"]


@dataclass(frozen=True)
class LanguageSet:
    """One of the paper's two sets in one direction, with everything that a curriculum needs."""

    graph: LanguageGraph
    sizes: dict[str, int]
    benchmark: dict[str, float]


@cache
def tables() -> dict[str, Any]:  # every table has a shape of its own
    """All tables of the paper; the note in tables.json says what was corrected."""
    content: dict[str, Any] = json.loads(files(__package__).joinpath("tables.json").read_text(encoding="utf-8"))
    return content


def language_set(name: str, direction: Direction = "many-to-one") -> LanguageSet:
    """The `related` or the `diverse` set, with L* for this direction."""
    statistics, losses = tables()["statistics"][name], tables()["bitext_dev_loss"][name]
    hrls = HIGH_RESOURCE[name]
    column = "xxx_eng" if direction == "many-to-one" else "eng_xxx"
    return LanguageSet(
        graph=LanguageGraph(hrls, [lang for lang in statistics if lang not in hrls], tables()["similarity"][name]),
        sizes={lang: counts["train"] for lang, counts in statistics.items()},
        benchmark={lang: loss[column] for lang, loss in losses.items()},
    )
