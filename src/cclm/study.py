"""A study: one YAML file that says which methods are compared, on which seeds, and what is asked of them beforehand."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from cclm.config import Section, check, override
from cclm.data.settings import Name
from cclm.recipe import Recipe, load_recipe, read_named, texts_in

BITEXT = "bitext"
"""The arm of the bilingual models: it is no change to the recipe, and each of its systems is a folder of runs."""


class Study(Section):
    """Arms x seeds, everything else equal."""

    version: Literal[1]
    name: Name
    recipe: str
    changes: dict[str, Any] = Field(default_factory=dict)
    """To the recipe, for all arms alike."""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    arms: Annotated[dict[Name, dict[str, Any]], Field(min_length=1)]
    """Changes to the recipe, each a method."""
    primary: Annotated[list[tuple[str, str]], Field(max_length=3, default_factory=list)]
    """Comparisons declared before the runs; all others are exploratory."""
    endpoint: Literal["chrf", "bleu"] = "chrf"
    """What the primary comparisons are decided by: the mean over all languages."""
    baseline: str | None = None
    """The arm that every other is compared with; by default the second one of the first primary comparison."""
    after: dict[str, list[str]] = Field(default_factory=dict)
    """Arms that wait for others: a gate by step takes the steps of admission of the first, with the same seed."""

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

    def recipe_of(self, arm: str | None = None, seed: int | None = None, **more: Any) -> Recipe:
        """The recipe of a trial, or of all of them (what their data and L* are made by)."""
        values = dict(self.changes)
        if arm is not None:
            values |= {**self.arms[arm], "seed": seed, "name": f"{arm}.{seed}", **more}
        return load_recipe(self.recipe, values=values)


def built_in_studies() -> dict[str, str]:
    """The studies that come with the package: their text by name."""
    return texts_in("studies")


def load_study(name: str, changes: Iterable[str] = ()) -> Study:
    """A built-in study or one in a YAML file, with `key=value` changes; every arm's recipe is checked."""
    study = check(Study, override(read_named("study", name, built_in_studies()), changes), name)
    for arm in study.arms:
        study.recipe_of(arm, study.seeds[0], **steps_to_come(study, arm))
    return study


def steps_to_come(study: Study, arm: str, steps: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The steps of admission, for an arm that takes them from another one; empty while that has none yet."""
    gate = study.arms[arm].get("curriculum.gate", study.arms[arm].get("curriculum", {}).get("gate", {}))
    waits = arm in study.after and gate.get("name") == "step" and "steps" not in gate
    return {"curriculum.gate": {**gate, "steps": dict(steps or {})}} if waits else {}
