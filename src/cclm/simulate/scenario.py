"""What is simulated: languages with sizes and benchmark losses, a curriculum, and how learning is assumed to go."""

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
    """The facts about a language."""

    size: int = Field(ge=1)
    """Training pairs."""
    benchmark: float = Field(gt=0, lt=64)
    """L*: dev loss of its bitext model, bits per token."""
    plateau: float | None = Field(default=None, ge=0)
    """Where its loss ends in the shared model. Default: L* for an HRL, for an LRL a bit above the HRLs' mean."""


class LearningSection(Section):
    """How learning is assumed to go. None of this is measured: change it and see what depends on it."""

    start: float = Field(default=13.0, gt=0)
    """Loss before training, bits per token: log2 of the vocabulary's size."""
    pace: float = Field(default=750.0, gt=0)
    """Steps of experience after which 2^-exponent of the way is left."""
    exponent: float = Field(default=1.2, gt=0)
    """How fast the loss falls: a power of experience."""
    transfer: float = Field(default=0.3, ge=0, le=1)
    """What a step on one language is worth to any other."""
    sentence_sd: float = Field(default=1.0, ge=0)
    """Spread of the loss between sentences, bits: the noise of a probe is this over the root of dev_sample."""


class Scenario(Section):
    """Everything that a simulation starts from."""

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
    """The step at which those who still wait are admitted; null: never."""

    @cached_property
    def graph(self) -> LanguageGraph:
        """The language graph, checked."""
        try:
            return LanguageGraph(self.high_resource, self.low_resource, self.similarity)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Training pairs of each language."""
        return {lang: section.size for lang, section in (self.high_resource | self.low_resource).items()}

    @cached_property
    def benchmark(self) -> dict[str, float]:
        """L* of each language."""
        return {lang: section.benchmark for lang, section in (self.high_resource | self.low_resource).items()}

    @cached_property
    def plateaus(self) -> dict[str, float]:
        """Where each language's loss ends."""
        mean = math.fsum(hrl.benchmark for hrl in self.high_resource.values()) / len(self.high_resource)
        ends = {lang: hrl.benchmark for lang, hrl in self.high_resource.items()}
        ends |= {lang: min(lrl.benchmark, mean + 1) for lang, lrl in self.low_resource.items()}
        given = {
            lang: section.plateau
            for lang, section in (self.high_resource | self.low_resource).items()
            if section.plateau is not None
        }
        return ends | given

    def build(self) -> Curriculum:
        """A fresh curriculum over these languages."""
        return self.curriculum.build(self.graph, sizes=self.sizes, benchmark=self.benchmark)


def load_scenario(name: str, changes: Iterable[str] = ()) -> Scenario:
    """A built-in scenario or one in a YAML file, with `key=value` changes."""
    if name in BUILT_IN:
        content = _built_in(name)
    elif Path(name).suffix in (".yaml", ".yml") or Path(name).exists():
        content = read_yaml(Path(name))
    else:
        raise ConfigError(f"no scenario {name!r}: give one of {', '.join(BUILT_IN)}, or a YAML file")
    scenario = check(Scenario, override(content, changes), name)
    scenario.curriculum.check_own_parts(name, Path(name))
    scenario.build()  # what cannot be is refused now, before anything is shown
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
    """Sizes follow Zipf's law from two million pairs; languages of a family are similar; L* rises as data shrinks."""
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
