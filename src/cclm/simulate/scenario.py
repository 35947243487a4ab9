"""The input of a simulation: languages with sizes and reference losses, a curriculum, assumptions about learning."""

import math
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from cclm.curriculum import Curriculum, LanguageGraph
from cclm.errors import ConfigError
from cclm.paper import Direction, language_set
from cclm.recipe.loading import override, read_yaml
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.section import Section, check
from cclm.rng import key, uniform

BUILT_IN = {
    "related": "the paper's related set, many-to-one",
    "related-o2m": "the same, one-to-many",
    "diverse": "the paper's diverse set, many-to-one",
    "diverse-o2m": "the same, one-to-many",
    "thousand": "1,000 made-up languages in 40 families, 100 of them high-resource",
}


class LanguageSection(Section):
    """The size and the losses of one language."""

    size: int = Field(ge=1)
    """The number of training pairs."""
    benchmark: float = Field(gt=0, lt=64)
    """L*, the dev loss of its bitext model in bits per token."""
    plateau: float | None = Field(default=None, ge=0)
    """The loss that it approaches in the multilingual model. Default: L* for an HRL; for an LRL L*, but at most one bit
    above the mean of the HRLs."""


class LearningSection(Section):
    """Assumptions about learning. None of them is measured: change them to see what depends on them."""

    start: float = Field(default=13.0, gt=0)
    """Loss before training in bits per token, about log2 of the vocabulary size."""
    pace: float = Field(default=750.0, gt=0)
    """Steps of experience after which the distance to the plateau is 2^-exponent of that at the start."""
    exponent: float = Field(default=1.2, gt=0)
    """Exponent of the power law: how fast the loss falls."""
    transfer: float = Field(default=0.3, ge=0, le=1)
    """The share of a step on one language that counts as experience for every other language."""
    sentence_sd: float = Field(default=1.0, ge=0)
    """Standard deviation of the loss between sentences, in bits. The noise of a probe is this divided by the
    square root of `dev_sample`, or of 256 where that is not set."""


class Scenario(Section):
    """The input of a simulation, as in a YAML file for `cclm simulate`."""

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))

    version: Literal[1]
    name: str = "scenario"
    seed: int = 1
    high_resource: dict[str, LanguageSection]
    low_resource: dict[str, LanguageSection]
    similarity: dict[str, dict[str, float]]
    curriculum: CurriculumSection = CurriculumSection()
    learning: LearningSection = LearningSection()
    max_steps: int = Field(default=60_000, ge=1)
    second_phase: int | None = Field(default=50_000, ge=1)
    """The step at which all remaining languages are admitted; null: never."""

    @cached_property
    def graph(self) -> LanguageGraph:
        """The language graph; ConfigError if the similarities are invalid."""
        try:
            return LanguageGraph(self.high_resource, self.low_resource, self.similarity)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The number of training pairs of each language."""
        return {lang: section.size for lang, section in (self.high_resource | self.low_resource).items()}

    @cached_property
    def benchmark(self) -> dict[str, float]:
        """L* of each language."""
        return {lang: section.benchmark for lang, section in (self.high_resource | self.low_resource).items()}

    @cached_property
    def plateaus(self) -> dict[str, float]:
        """The loss that each language approaches."""
        mean = math.fsum(hrl.benchmark for hrl in self.high_resource.values()) / len(self.high_resource)
        ends = {lang: hrl.benchmark for lang, hrl in self.high_resource.items()}
        ends |= {lang: min(lrl.benchmark, mean + 1) for lang, lrl in self.low_resource.items()}
        configured = {
            lang: section.plateau
            for lang, section in (self.high_resource | self.low_resource).items()
            if section.plateau is not None
        }
        return ends | configured

    def build(self) -> Curriculum:
        """A new curriculum for these languages."""
        return self.curriculum.build(self.graph, sizes=self.sizes, benchmark=self.benchmark)


def load_scenario(name: str, changes: Iterable[str] = ()) -> Scenario:
    """Loads a built-in scenario or a YAML file, and applies `key=value` changes."""
    if name in BUILT_IN:
        content = _built_in(name)
    elif Path(name).suffix in (".yaml", ".yml") or Path(name).exists():
        content = read_yaml(Path(name))
    else:
        raise ConfigError(f"no scenario {name!r}: give one of {', '.join(BUILT_IN)}, or a YAML file")
    scenario = check(Scenario, override(content, changes), name)
    scenario.curriculum.check_own_parts(name, Path(name))
    scenario.build()  # raises errors before anything is printed
    return scenario


def _built_in(name: str) -> dict[str, object]:
    if name == "thousand":
        return _thousand()
    direction: Direction = "one-to-many" if name.endswith("-o2m") else "many-to-one"
    languages = language_set(name.removesuffix("-o2m"), direction)
    return {
        "version": 1,
        "name": f"{name.removesuffix('-o2m')}, {direction}",
        "high_resource": _sections(languages.graph.high_resource, languages.sizes, languages.benchmark),
        "low_resource": _sections(languages.graph.low_resource, languages.sizes, languages.benchmark),
        "similarity": languages.graph.similarity,
    }


def _sections(languages: Iterable[str], sizes: dict[str, int], benchmark: dict[str, float]) -> dict[str, object]:
    return {lang: {"size": sizes[lang], "benchmark": benchmark[lang]} for lang in languages}


def _thousand(languages: int = 1000, families: int = 40, hrls: int = 100) -> dict[str, object]:
    """Made-up languages: sizes follow Zipf's law, languages of one family are similar, L* is higher with less data."""
    sizes = {f"l{rank:04}": max(200, 2_000_000 // rank) for rank in range(1, languages + 1)}
    family = {lang: int(families * uniform(key(1, "family", lang), 0)) for lang in sizes}
    benchmark = {lang: round(3.5 + 1.1 * math.log10(2_000_000 / size), 3) for lang, size in sizes.items()}
    high, low = list(sizes)[:hrls], list(sizes)[hrls:]
    similarity = {
        lrl: {
            hrl: round((0.35 if family[lrl] == family[hrl] else 0.05) + 0.2 * uniform(key(1, "kin", lrl), i), 3)
            for i, hrl in enumerate(high)
        }
        for lrl in low
    }
    return {
        "version": 1,
        "name": f"{languages:,} made-up languages",
        "high_resource": _sections(high, sizes, benchmark),
        "low_resource": _sections(low, sizes, benchmark),
        "similarity": similarity,
        "curriculum": {"every": 1000},
        "learning": {"pace": 200.0},
    }
