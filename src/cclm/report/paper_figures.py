"""What the paper printed, by the names that arms have here."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cclm.paper import tables

ARMS = {
    "bitext": "Bitext Models",
    "uniform": "Uniform Sampling (tau = inf)",
    "tau-5": "Temperature-Based Sampling (tau = 5)",
    "proportional": "Proportional Sampling (tau = 1)",
    "multidds": "MultiDDS",
    "multidds-s": "MultiDDS-S",
    "ccl-m-max": "CCL-M-max",
    "ccl-m-avg": "CCL-M-avg",
}
SAMPLERS = {
    "ccl-m-avg": "CCL-M-avg",
    "gate-uniform": "+ Uni.",
    "gate-tau-5": "+ Temp.",
    "gate-proportional": "+ Prop.",
}


@dataclass(frozen=True)
class PaperFigures:
    """One language set in one direction."""

    languages: str
    direction: str

    @property
    def _column(self) -> str:
        return f"{self.direction}_{self.languages}"

    def over(self, arm: str, group: str) -> float | None:
        """Mean BLEU of an arm over all languages (Tables 1 and 4), the HRLs or the LRLs (Tables 2 and 3)."""
        if group == "all":
            tables_ = (tables()["table1_main"].get(ARMS.get(arm)), tables()["table4_sampling"].get(SAMPLERS.get(arm)))
            return next((row[self._column] for row in tables_ if row), None)
        halves = tables()["table2_m2o" if self.direction == "m2o" else "table3_o2m"]
        row = halves.get("Bi." if arm == "bitext" else ARMS.get(arm)) or {}
        value: float | None = row.get(f"{self.languages}_{group}s")
        return value

    def of_language(self, arm: str, lang: str) -> float | None:
        """BLEU of an arm in one language."""
        value: float | None = tables()["individual_bleu"][self._column].get(ARMS.get(arm), {}).get(lang)
        return value

    def pairs(self, lang: str) -> int | None:
        """Sentence pairs to train on."""
        value: int | None = tables()["statistics"][self.languages].get(lang, {}).get("train")
        return value

    def loss(self, lang: str) -> float | None:
        """L*, the dev loss of the bitext model."""
        row: Mapping[str, float] = tables()["bitext_dev_loss"][self.languages].get(lang, {})
        return row.get("xxx_eng" if self.direction == "m2o" else "eng_xxx")

    def similarity(self, lrl: str, hrl: str) -> float | None:
        """How similar an LRL is to an HRL."""
        value: float | None = tables()["similarity"][self.languages].get(lrl, {}).get(hrl)
        return value


def paper_figures(recipe: str) -> PaperFigures | None:
    """The figures for one of the paper's recipes, by its name or its file; None for any other recipe."""
    found = re.fullmatch(r"(?:.*[/\\])?ted8-(related|diverse)-(m2o|o2m)(?:[-.].*)?", recipe)
    return PaperFigures(*found.groups()) if found else None
