"""Studies: one YAML file with the methods (arms) to compare, the seeds, and the comparisons declared beforehand."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cclm.errors import ConfigError
from cclm.formats.scores import MetricName
from cclm.recipe.import_path import search_beside
from cclm.recipe.loading import BITEXT, load_recipe, override, read_named, texts_in
from cclm.recipe.schema import Recipe
from cclm.recipe.section import Name, Section, Seed, check

__all__ = [
    "BITEXT", "Study", "Try", "Tuning", "built_in_studies", "load_study", "plain", "sections_not_shared",
    "steps_to_come",
]  # fmt: skip


@dataclass(frozen=True)
class Try:
    """One tuning run: an arm with one candidate value for its tuned key."""

    arm: str
    key: str
    value: object
    seed: int

    @property
    def name(self) -> str:
        """The name of the run. It ends with the tuning seed, which no trial of the study uses."""
        value = re.sub(r"[^A-Za-z0-9._-]", "-", str(self.value))
        return f"{self.arm}-{self.key.rpartition('.')[2]}-{value}.{self.seed}"


class Tuning(Section):
    """Tuning on dev data before the first trial: one key per tuned arm, with the same number of values for each arm."""

    seed: Seed = 0
    arms: Annotated[dict[str, dict[str, list[object]]], Field(min_length=1)]
    """The key and the candidate values per arm: `ccl-m-avg: {curriculum.gate.threshold: [0.7, 1.0]}`."""

    def tries(self) -> list[Try]:
        """All tuning runs, in the order of the arms and of their values."""
        tuned = [(arm, key, values) for arm, keys in self.arms.items() for key, values in keys.items()]
        return [Try(arm, key, value, self.seed) for arm, key, values in tuned for value in values]

    @model_validator(mode="after")
    def _check_values(self) -> "Tuning":
        for arm, keys in self.arms.items():
            if len(keys) != 1:
                example = "{curriculum.gate.threshold: [0.7, 1.0]}"
                raise ValueError(f"must name one key for {arm}, as in {example}; got {', '.join(keys) or 'none'}")
        names = [tried.name for tried in self.tries()]
        for tried in self.tries():
            if isinstance(tried.value, list | dict):
                raise ValueError(
                    f"must have numbers or strings as values for {tried.arm}, {tried.key}; got {tried.value!r}"
                )
            if names.count(tried.name) > 1:
                raise ValueError(f"must have distinct values: two of them have the run name {tried.name}")
        counts = {arm: sum(map(len, keys.values())) for arm, keys in self.arms.items()}
        if min(counts.values()) < 2:
            raise ValueError(f"must have at least two values for {min(counts, key=lambda arm: counts[arm])}")
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{arm} has {count}" for arm, count in counts.items())
            raise ValueError(f"must have the same number of values for each arm; {listed}")
        return self


class Study(Section):
    """A comparison of methods: every arm is trained with every seed, and everything else is equal."""

    version: Literal[1]
    name: Name
    recipe: str
    changes: dict[str, object] = Field(default_factory=dict)
    """Changes to the recipe for all arms."""
    seeds: Annotated[list[Seed], Field(min_length=1)]
    arms: Annotated[dict[Name, dict[str, object]], Field(min_length=1)]
    """The methods: for each arm, its changes to the recipe."""
    primary: Annotated[list[tuple[str, str]], Field(max_length=3, default_factory=list)]
    """The comparisons declared before the runs, as (arm, baseline). All others are exploratory."""
    endpoint: MetricName = "chrf"
    """The metric of the primary comparisons, as its mean over all languages."""
    baseline: str | None = None
    """The arm that every other one is compared with. Default: the second arm of the first primary comparison."""
    after: dict[str, list[str]] = Field(default_factory=dict)
    """Arms that are trained after others: `arm: [earlier, ...]`. A step gate without steps takes them from the
    admissions of the first of these arms with the same seed."""
    tune: Tuning | None = None
    """Tuning before the first trial, with a separate seed."""

    @model_validator(mode="after")
    def _check_arms(self) -> "Study":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"must not name a seed twice: {self.seeds}")
        ordered = [arm for first, others in self.after.items() for arm in (first, *others)]
        named = [*(arm for pair in self.primary for arm in pair), *ordered, *([self.baseline] if self.baseline else [])]
        for arm in named:
            if arm not in self.arms:
                raise ValueError(f"has no arm {arm!r}; the arms are {', '.join(self.arms)}")
        if any(first == second for first, second in self.primary):
            raise ValueError("must not compare an arm with itself")
        if self.arms.get(BITEXT):
            raise ValueError(f"arms.{BITEXT} means the bitext models and takes no changes: write `{BITEXT}: {{}}`")
        if any(BITEXT in (arm, *others) for arm, others in self.after.items()):
            raise ValueError(f"after must not contain {BITEXT}: the bitext models are trained independently")
        self.waves()
        return self

    @model_validator(mode="after")
    def _check_tuning(self) -> "Study":
        if self.tune is None:
            return self
        if self.tune.seed in self.seeds:
            raise ValueError(
                f"tune.seed {self.tune.seed} is one of the seeds; choose another,"
                " so that values are not chosen on runs that are then compared"
            )
        for arm in self.tune.arms:
            if arm not in self.arms:
                raise ValueError(f"tune.arms: no arm {arm!r}; the arms are {', '.join(self.arms)}")
            if arm == BITEXT:
                raise ValueError(f"tune.arms: {BITEXT} means the bitext models, which cannot be tuned; remove it")
            if arm in self.after:
                raise ValueError(
                    f"tune.arms: {arm} depends on {', '.join(self.after[arm])} and cannot be tuned; tune that instead"
                )
        return self

    def tuned(self, choices: Mapping[str, object]) -> "Study":
        """The study with these values for the tuned arms, and without its `tune` section."""
        arms = dict(self.arms)
        for arm, value in choices.items():
            assert self.tune is not None  # `choices` come from it
            (key,) = self.tune.arms[arm]
            # The tuned key comes last, so that it overrides a section that the arm sets.
            arms[arm] = {**{other: setting for other, setting in arms[arm].items() if other != key}, key: value}
        return self.model_copy(update={"arms": arms, "tune": None})

    def waves(self) -> list[list[str]]:
        """The arms in training order: each wave depends only on the waves before it."""
        waves: list[list[str]] = []
        remaining = list(self.arms)
        while remaining:
            ready = [arm for arm in remaining if not set(self.after.get(arm, ())) & set(remaining)]
            if not ready:
                raise ValueError(f"after: {', '.join(remaining)} depend on one another")
            waves.append(ready)
            remaining = [arm for arm in remaining if arm not in ready]
        return waves

    @property
    def against(self) -> str:
        """The arm that every other one is compared with."""
        return self.baseline or (self.primary[0][1] if self.primary else next(iter(self.arms)))

    def recipe_of(self, arm: str | None = None, seed: int | None = None, **more: object) -> Recipe:
        """The recipe of a trial; without an arm, the common recipe that determines data and L*."""
        values = dict(self.changes)
        if arm is not None:
            values |= {**self.arms[arm], "seed": seed, "name": f"{arm}.{seed}"}
            values = {key: value for key, value in values.items() if key not in more} | more  # they apply last
        return load_recipe(self.recipe, values=values)


def built_in_studies() -> dict[str, str]:
    """The YAML text of each built-in study, by name."""
    return texts_in("studies")


def load_study(name: str, changes: Iterable[str] = ()) -> Study:
    """Loads a built-in study or a YAML file, applies `key=value` changes, and validates the recipes of all its runs."""
    content = read_named("study", name, built_in_studies())
    if "data" in content and "arms" not in content:
        raise ConfigError(
            f"{name}: a recipe, not a study; a study is a file of its own that names it as `recipe: {name}`"
            " and has `arms` (docs/studies.md)"
        )
    study = check(Study, override(content, changes), name)
    search_beside(Path(name))
    for arm in study.arms:
        try:
            study.recipe_of(arm, max(study.seeds), **steps_to_come(study, arm))  # the longest name of its runs
        except ConfigError as error:
            raise ConfigError(f"{name}: arm {arm}: {error}") from None
    if study.tune:
        _check_tries(study, study.tune, name)
    return study


def _check_tries(study: Study, tune: Tuning, name: str) -> None:
    checked: list[tuple[Try, Recipe]] = []
    for tried in tune.tries():
        where = f"{name}: tune.arms.{tried.arm}: {tried.key}"
        try:
            recipe = study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tune.seed)
        except ConfigError as error:
            raise ConfigError(f"{where} cannot be {tried.value!r}: {error}") from None
        if sections_not_shared(study.recipe_of(tried.arm, tune.seed), recipe):
            raise ConfigError(
                f"{where} decides the prepared data or L*, which all values share, and cannot be tuned;"
                " declare an arm for each value"
            )
        for other, other_recipe in checked:
            if recipe == other_recipe:  # only within an arm: the name of a recipe contains the arm
                raise ConfigError(f"{where}: {other.value!r} and {tried.value!r} are the same run; use distinct values")
        checked.append((tried, recipe))


def sections_not_shared(one: Recipe, other: Recipe) -> list[str]:
    """The sections of two recipes because of which they cannot share prepared data and L*.

    Sizes and dropout of a model are no reason: the arms of a study compare with one L*. A pretrained model is one,
    because its subwords are those of the data.
    """
    names = [name for name in ("data", "vocabulary", "benchmark") if getattr(one, name) != getattr(other, name)]
    subwords = [(recipe.model.pretrained, recipe.model.codes) for recipe in (one, other)]
    return [*names, "model"] if subwords[0] != subwords[1] else names


def steps_to_come(study: Study, arm: str, steps: Mapping[str, int] | None = None) -> dict[str, object]:
    """The gate of an arm that takes its admission steps from another arm; empty for all other arms."""
    curriculum = study.arms[arm].get("curriculum", {})
    gate = study.arms[arm].get("curriculum.gate", curriculum.get("gate", {}) if isinstance(curriculum, dict) else {})
    if arm not in study.after or not isinstance(gate, dict) or gate.get("name") != "step" or "steps" in gate:
        return {}
    return {"curriculum.gate": {**gate, "steps": dict(steps or {})}}


def plain(value: object) -> Any:  # any JSON value
    """Converts settings to JSON values. Infinity, which JSON lacks, becomes `.inf` as in YAML."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return ".inf" if value == math.inf else value
