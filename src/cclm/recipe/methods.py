"""The `curriculum` section of a recipe, and the curriculum that follows from it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
)

from cclm.curriculum import (
    AllAtOnce,
    ChiSquare,
    CompetenceGate,
    Curriculum,
    FixedWeights,
    Gate,
    InverseCompetence,
    LanguageGraph,
    RewardActor,
    Sampler,
    StepGate,
    Temperature,
    UniMax,
)
from cclm.errors import ConfigError
from cclm.recipe.loading import Section


class AllSection(Section):
    """Every language from the start."""

    name: Literal["all"]

    def build(self, graph: LanguageGraph | None) -> Gate:
        return AllAtOnce()


class CompetenceSection(Section):
    """The paper's gate."""

    name: Literal["competence"]
    aggregate: Literal["max", "avg"] = "avg"
    threshold: float = 0.9

    def build(self, graph: LanguageGraph | None) -> Gate:
        if graph is None:
            raise ValueError("the competence gate needs a language graph: languages in high_resource and low_resource")
        return CompetenceGate(graph, aggregate=self.aggregate, threshold=self.threshold)


class StepSection(Section):
    """Admission at given steps."""

    name: Literal["step"]
    steps: dict[str, int]

    def build(self, graph: LanguageGraph | None) -> Gate:
        return StepGate(self.steps)


def _number_or_schedule(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        raise ValueError("must be a number or a list of [step, tau]") from None


Tau = Annotated[float | list[tuple[int, float]], WrapValidator(_number_or_schedule)]


class TemperatureSection(Section):
    """By size: 1 is proportional, .inf uniform; a list of [step, tau] is a schedule."""

    name: Literal["temperature"]
    tau: Tau = 5.0

    def build(self) -> Sampler:
        return Temperature(self.tau)


class FixedSection(Section):
    """Shares given by hand."""

    name: Literal["fixed"]
    weights: dict[str, float]

    def build(self) -> Sampler:
        return FixedWeights(self.weights)


class UniMaxSection(Section):
    """As uniform as `max_repeats` allows within `budget` passes over the data."""

    name: Literal["unimax"]
    budget: float
    max_repeats: float

    def build(self) -> Sampler:
        return UniMax(self.budget, self.max_repeats)


class InverseCompetenceSection(Section):
    """The paper's sampler."""

    name: Literal["inverse-competence"]
    exponent: float = 1.0
    floor: float = 0.0

    def build(self) -> Sampler:
        return InverseCompetence(self.exponent, self.floor)


class ChiSquareSection(Section):
    """Distributionally robust sampling."""

    name: Literal["chi-square"]
    rho: float = 0.05
    loss: Literal["train", "dev"] = "train"
    floor: float = 0.2
    ema: float = 0.1
    epoch: int = 1

    def build(self) -> Sampler:
        return ChiSquare(self.rho, self.loss, self.floor, self.ema, self.epoch)


class ActorSection(Section):
    """A sampler that learns from a reward; `every` counts rounds."""

    name: Literal["multidds", "multidds-s"]
    learning_rate: float = 1e-4
    inner_steps: int = 200
    every: int = 10
    sentences: int = Field(default=8, ge=1)
    """That a gradient is taken of."""
    gradients: Literal["pairs", "once"] = "pairs"
    """pairs: fresh training sentences for every pair of languages, as released; once: a gradient a language."""

    def build(self) -> Sampler:
        return RewardActor(self.name, self.learning_rate, self.inner_steps, self.every)


AnyGate = Annotated[AllSection | CompetenceSection | StepSection, Field(discriminator="name")]
AnySampler = Annotated[
    TemperatureSection | FixedSection | UniMaxSection | InverseCompetenceSection | ChiSquareSection | ActorSection,
    Field(discriminator="name"),
]


class CurriculumSection(Section):
    """Who takes part, how often each is drawn, and how often that is looked at."""

    gate: AnyGate = CompetenceSection(name="competence")
    sampler: AnySampler = InverseCompetenceSection(name="inverse-competence")
    every: int = Field(default=100, ge=1)
    dev_sample: int = Field(default=256, ge=1)
    smoothing: float = 0.0

    @field_validator("gate", "sampler", mode="before")
    @classmethod
    def _default_name(cls, value: Any, info: ValidationInfo) -> Any:
        """Settings without a name belong to the default: `gate: {threshold: 0.8}` is enough."""
        if isinstance(value, dict) and "name" not in value:
            name = "competence" if info.field_name == "gate" else "inverse-competence"
            return {"name": name, **value}
        return value

    def build(
        self, graph: LanguageGraph | None, *, sizes: Mapping[str, int], benchmark: Mapping[str, float] | None
    ) -> Curriculum:
        """The curriculum of these settings; what the library refuses is reported as a mistake in the settings.

        A graph is asked by the competence gate alone.
        """
        try:
            gate, sampler = self.gate.build(graph), self.sampler.build()
            return Curriculum(gate, sampler, sizes=sizes, benchmark=benchmark, smoothing=self.smoothing)
        except ValueError as error:
            raise ConfigError(f"curriculum: {error}") from None
