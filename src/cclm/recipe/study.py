"""A study: one YAML file with the methods to compare, the seeds, and the comparisons declared beforehand."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cclm.errors import ConfigError
from cclm.recipe.import_path import search_beside
from cclm.recipe.loading import BITEXT, load_recipe, override, read_named, texts_in
from cclm.recipe.schema import Name, Recipe
from cclm.recipe.section import Section, Seed, check

__all__ = ["BITEXT", "Study", "Try", "Tuning", "built_in_studies", "load_study", "plain", "steps_to_come"]


@dataclass(frozen=True)
class Try:
    """One training of a tuned arm, with one of the values to try."""

    arm: str
    key: str
    value: object
    seed: int

    @property
    def name(self) -> str:
        """The name of its run. It ends in the seed of the tuning, which no trial of the study has."""
        value = re.sub(r"[^A-Za-z0-9._-]", "-", str(self.value))
        return f"{self.arm}-{self.key.rpartition('.')[2]}-{value}.{self.seed}"


class Tuning(Section):
    """What is chosen on dev data before the first trial: one key per tuned arm, from equally many values."""

    seed: Seed = 0
    arms: Annotated[dict[str, dict[str, list[object]]], Field(min_length=1)]
    """The key and the values to try, per arm: `ccl-m-avg: {curriculum.gate.threshold: [0.7, 1.0]}`."""

    def tries(self) -> list[Try]:
        """All tries, in the order of the arms and of their values."""
        tuned = [(arm, key, values) for arm, keys in self.arms.items() for key, values in keys.items()]
        return [Try(arm, key, value, self.seed) for arm, key, values in tuned for value in values]

    @model_validator(mode="after")
    def _every_arm_gets_as_many_tries(self) -> "Tuning":
        for arm, keys in self.arms.items():
            if len(keys) != 1:
                example = "{curriculum.gate.threshold: [0.7, 1.0]}"
                raise ValueError(f"must try one key of {arm}, as in {example}; got {', '.join(keys) or 'none'}")
        names = [tried.name for tried in self.tries()]
        for tried in self.tries():
            if isinstance(tried.value, list | dict):
                raise ValueError(f"must try numbers or words for {tried.arm}, {tried.key}; got {tried.value!r}")
            if names.count(tried.name) > 1:
                raise ValueError(f"must try distinct values: two would be the run {tried.name}")
        counts = {arm: sum(map(len, keys.values())) for arm, keys in self.arms.items()}
        if min(counts.values()) < 2:
            raise ValueError(f"must try at least two values for {min(counts, key=lambda arm: counts[arm])}")
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{arm} has {count}" for arm, count in counts.items())
            raise ValueError(f"must be fair: {listed} values; give each as many tries")
        return self


class Study(Section):
    """Arms x seeds, everything else equal."""

    version: Literal[1]
    name: Name
    recipe: str
    changes: dict[str, object] = Field(default_factory=dict)
    """Changes to the recipe that all arms share."""
    seeds: Annotated[list[Seed], Field(min_length=1)]
    arms: Annotated[dict[Name, dict[str, object]], Field(min_length=1)]
    """Changes to the recipe, each a method."""
    primary: Annotated[list[tuple[str, str]], Field(max_length=3, default_factory=list)]
    """Comparisons declared before the runs; all others are exploratory."""
    endpoint: Literal["chrf", "bleu"] = "chrf"
    """The score that decides the primary comparisons: its mean over all languages."""
    baseline: str | None = None
    """The arm that every other is compared with; by default the second one of the first primary comparison."""
    after: dict[str, list[str]] = Field(default_factory=dict)
    """Arms that are trained after others. A gate by step takes its steps from the admissions of the first of these,
    with the same seed."""
    tune: Tuning | None = None
    """What is chosen before the first trial, with a seed of its own."""

    @model_validator(mode="after")
    def _everything_named_is_an_arm(self) -> "Study":
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"must not name a seed twice: {self.seeds}")
        waited = [arm for first, others in self.after.items() for arm in (first, *others)]
        named = [*(arm for pair in self.primary for arm in pair), *waited, *([self.baseline] if self.baseline else [])]
        for arm in named:
            if arm not in self.arms:
                raise ValueError(f"has no arm {arm!r}; there are {', '.join(self.arms)}")
        if any(first == second for first, second in self.primary):
            raise ValueError("must not compare an arm with itself")
        if self.arms.get(BITEXT):
            raise ValueError(f"arms.{BITEXT} is the bilingual models and takes no changes: write `{BITEXT}: {{}}`")
        if any(BITEXT in (arm, *others) for arm, others in self.after.items()):
            raise ValueError(f"after: {BITEXT} neither waits nor is waited for")
        self.waves()
        return self

    @model_validator(mode="after")
    def _what_is_tuned_can_be(self) -> "Study":
        if self.tune is None:
            return self
        if self.tune.seed in self.seeds:
            raise ValueError(
                f"tune.seed {self.tune.seed} is one of the seeds: take another,"
                " so that no run both makes the choice and is compared"
            )
        for arm in self.tune.arms:
            if arm not in self.arms:
                raise ValueError(f"tune.arms: has no arm {arm!r}; there are {', '.join(self.arms)}")
            if arm == BITEXT:
                raise ValueError(f"tune.arms: {BITEXT} is the bilingual models and cannot be tuned; leave it out")
            if arm in self.after:
                raise ValueError(
                    f"tune.arms: {arm} waits for {', '.join(self.after[arm])} and cannot be tuned; tune that instead"
                )
        return self

    def tuned(self, choices: Mapping[str, object]) -> "Study":
        """The study whose tuned arms have these values; there is nothing left to tune in it."""
        arms = dict(self.arms)
        for arm, value in choices.items():
            assert self.tune is not None  # whence the choice
            (key,) = self.tune.arms[arm]
            # Last, so that it holds whatever section the arm itself sets.
            arms[arm] = {**{other: setting for other, setting in arms[arm].items() if other != key}, key: value}
        return self.model_copy(update={"arms": arms, "tune": None})

    def waves(self) -> list[list[str]]:
        """The arms in the order in which they can be trained: each wave waits for those before it alone."""
        waves: list[list[str]] = []
        left = list(self.arms)
        while left:
            ready = [arm for arm in left if not set(self.after.get(arm, ())) & set(left)]
            if not ready:
                raise ValueError(f"after: {', '.join(left)} wait for one another")
            waves.append(ready)
            left = [arm for arm in left if arm not in ready]
        return waves

    @property
    def against(self) -> str:
        """The arm that every other is compared with."""
        return self.baseline or (self.primary[0][1] if self.primary else next(iter(self.arms)))

    def recipe_of(self, arm: str | None = None, seed: int | None = None, **more: object) -> Recipe:
        """The recipe of a trial, or of all of them (what their data and L* are made by)."""
        values = dict(self.changes)
        if arm is not None:
            values |= {**self.arms[arm], "seed": seed, "name": f"{arm}.{seed}", **more}
        return load_recipe(self.recipe, values=values)


def built_in_studies() -> dict[str, str]:
    """The studies that come with the package: their text by name."""
    return texts_in("studies")


def load_study(name: str, changes: Iterable[str] = ()) -> Study:
    """A built-in study or one in a YAML file, with `key=value` changes; the recipe of every arm and try is checked."""
    study = check(Study, override(read_named("study", name, built_in_studies()), changes), name)
    search_beside(Path(name))
    for arm in study.arms:
        study.recipe_of(arm, study.seeds[0], **steps_to_come(study, arm))
    if study.tune:
        _check_tries(study, study.tune, name)
    return study


def _check_tries(study: Study, tune: Tuning, name: str) -> None:
    made: list[tuple[Try, Recipe]] = []
    for tried in tune.tries():
        place = f"{name}: tune.arms.{tried.arm}: {tried.key}"
        try:
            recipe = study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tune.seed)
        except ConfigError as error:
            raise ConfigError(f"{place} cannot be {tried.value!r}: {error}") from None
        for other, same in made:
            if recipe == same:  # it has the arm in its name
                raise ConfigError(f"{place} {other.value!r} and {tried.value!r} are one training; try distinct values")
        made.append((tried, recipe))


def steps_to_come(study: Study, arm: str, steps: Mapping[str, int] | None = None) -> dict[str, object]:
    """The steps of admission, for an arm that takes them from another one; empty while that has none yet."""
    curriculum = study.arms[arm].get("curriculum", {})
    gate = study.arms[arm].get("curriculum.gate", curriculum.get("gate", {}) if isinstance(curriculum, dict) else {})
    if arm not in study.after or not isinstance(gate, dict) or gate.get("name") != "step" or "steps" in gate:
        return {}
    return {"curriculum.gate": {**gate, "steps": dict(steps or {})}}


def plain(value: object) -> Any:  # JSON of the same shape
    """Settings with infinity as YAML writes it, for which JSON has no word."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return ".inf" if value == math.inf else value
