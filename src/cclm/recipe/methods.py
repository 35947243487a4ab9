"""The `curriculum` section of a recipe, and how a Curriculum is built from it."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
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
    SizeAndCompetence,
    StepGate,
    Temperature,
    UniMax,
)
from cclm.errors import ConfigError
from cclm.recipe.import_path import check_arguments, check_needs, describe_error, find_class, search_beside
from cclm.recipe.section import NAME, PATH, Count, Section


class AllSection(Section):
    """Every language takes part from the start."""

    name: Literal["all"]
    """The gate."""

    def build(self, graph: LanguageGraph | None) -> Gate:
        return AllAtOnce()


class CompetenceSection(Section):
    """The paper's gate: an LRL is admitted once the model is competent in the HRLs that resemble it."""

    name: Literal["competence"]
    """The gate."""
    aggregate: Literal["max", "avg"] = "avg"
    """Which HRLs count: all of them, weighted by similarity (`avg`), or the most similar one (`max`)."""
    threshold: float = 0.9
    """The HRLs-evaluated competence at which an LRL is admitted. The paper searches 0.5 to 1.0."""
    confidence: float = Field(default=0.0, ge=0)
    """How many standard errors the HRLs-evaluated competence must be above the threshold. 0 is the paper's rule; 2 asks
    for a probability of about 98 % that the threshold is reached. Only the bounded probe measures standard errors."""

    def build(self, graph: LanguageGraph | None) -> Gate:
        if graph is None:
            raise ValueError("the competence gate needs a language graph: languages in high_resource and low_resource")
        return CompetenceGate(graph, aggregate=self.aggregate, threshold=self.threshold, confidence=self.confidence)

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits a key that version 0.1.0 did not have while it has its default."""
        content: dict[str, object] = serialize(self)
        return content if self.confidence else {name: value for name, value in content.items() if name != "confidence"}


class StepSection(Section):
    """LRLs are admitted at given steps."""

    name: Literal["step"]
    """The gate."""
    steps: dict[str, int]
    """The step of admission per language; a language that is not listed takes part from the start."""

    def build(self, graph: LanguageGraph | None) -> Gate:
        return StepGate(self.steps)


def _number_or_schedule(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    try:
        return handler(value)
    except ValidationError:
        raise ValueError("must be a number or a list of [step, tau]") from None


Infinite = Annotated[float, Field(allow_inf_nan=True)]
Tau = Annotated[Infinite | list[tuple[int, Infinite]], WrapValidator(_number_or_schedule)]


class TemperatureSection(Section):
    """Languages are drawn by the size of their training text, flattened by a temperature."""

    name: Literal["temperature"]
    """The sampler."""
    tau: Tau = 5.0
    """1 is proportional to size, `.inf` uniform. A list of `[step, tau]` is a schedule."""

    def build(self) -> Sampler:
        return Temperature(self.tau)


class FixedSection(Section):
    """Languages are drawn by fixed shares."""

    name: Literal["fixed"]
    """The sampler."""
    weights: dict[str, float]
    """The share per language; shares are divided by their sum over the admitted languages."""

    def build(self) -> Sampler:
        return FixedWeights(self.weights)


class UniMaxSection(Section):
    """As uniform as a limit on repetition allows (UniMax, Chung et al. 2023)."""

    name: Literal["unimax"]
    """The sampler."""
    budget: float
    """The length of the training, in passes over the whole data."""
    max_repeats: float
    """The most passes over the data of any one language."""

    def build(self) -> Sampler:
        return UniMax(self.budget, self.max_repeats)


class InverseCompetenceSection(Section):
    """The paper's sampler: the less competent the model is in a language, the more often it is drawn."""

    name: Literal["inverse-competence"]
    """The sampler."""
    exponent: float = 1.0
    """1 is the paper's; 0 is uniform, larger values are sharper."""
    floor: float = 0.0
    """The least share of an admitted language."""

    def build(self) -> Sampler:
        return InverseCompetence(self.exponent, self.floor)


class SizeAndCompetenceSection(Section):
    """By size, flattened by a temperature, and more of the languages in which the model is not competent yet:
    size^(1/tau) x min(1, c)^-strength. For `benchmark.method: multilingual`, with which 1/c alone is nearly uniform."""

    name: Literal["size-and-competence"]
    """The sampler."""
    tau: Infinite = 2.0
    """As for `temperature`: 1 is proportional to size, `.inf` ignores it."""
    strength: float = 1.0
    """The exponent of competence. 0 is `temperature`, larger values draw more of what lags behind L*."""

    def build(self) -> Sampler:
        return SizeAndCompetence(self.tau, self.strength)


class ChiSquareSection(Section):
    """Distributionally robust sampling: more of what the model does worst relative to L* (Zhou et al. 2021)."""

    name: Literal["chi-square"]
    """The sampler."""
    rho: float = 0.05
    """The chi-square distance from proportional shares within which the worst mixture is taken."""
    loss: Literal["train", "dev"] = "train"
    """Which loss is compared with L*."""
    floor: float = 0.2
    """The least share of a language, as a fraction of its proportional share."""
    ema: float = 0.1
    """The weight of the newest training loss in its moving average."""
    epoch: int = 1
    """Rounds between two changes of the weights."""

    def build(self) -> Sampler:
        return ChiSquare(self.rho, self.loss, self.floor, self.ema, self.epoch)


class ActorSection(Section):
    """A sampler that is trained on a reward made of gradients (MultiDDS and MultiDDS-S)."""

    name: Literal["multidds", "multidds-s"]
    """The sampler."""
    learning_rate: float = 1e-4
    """The learning rate of the sampler's weights."""
    inner_steps: int = 200
    """Steps of Adam per update of the weights."""
    every: int = 10
    """Rounds between two updates of the weights."""
    sentences: Count = 8
    """Sentences per gradient."""
    gradients: Literal["pairs", "once"] = "pairs"
    """`pairs`: fresh training sentences for every pair of languages, as released; `once`: one gradient per language."""

    def build(self) -> Sampler:
        return RewardActor(self.name, self.learning_rate, self.inner_steps, self.every)


def _import_path(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ValueError("must be a module and a class, as in my_module:Loudest")
    return text


ImportPath = Annotated[str, AfterValidator(_import_path)]


class OwnSection(Section):
    """A class of the user's own. Keys beside the name are the arguments of its constructor."""

    model_config = ConfigDict(extra="allow")
    method: ClassVar[str]

    name: ImportPath

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of the constructor."""
        return dict(self.model_extra or {})

    @property
    def needs(self) -> frozenset[str]:
        """The signals that the class needs, and "benchmark" if it goes by the reference losses L*."""
        needs = getattr(find_class(self.name, self.method), "needs", ())
        return frozenset(self.make(None).needs if isinstance(needs, property) else needs)

    def check(self) -> None:
        """Refuses what cannot be made. A class that takes the language graph is made when there is one."""
        found = find_class(self.name, self.method)
        check_arguments(found, self.arguments, self.name, given=["graph"])
        if "graph" not in inspect.signature(found).parameters:
            self.make(None)
        check_needs(self.needs, self.name)

    def make(self, graph: LanguageGraph | None) -> Any:
        """The object; it gets the language graph if its constructor has a `graph` that the recipe does not give."""
        found = find_class(self.name, self.method)
        takes_graph = "graph" in inspect.signature(found).parameters and "graph" not in self.arguments
        try:
            return found(**self.arguments, **({"graph": graph} if takes_graph else {}))
        except Exception as error:
            raise ConfigError(f"{self.name} cannot be made: {describe_error(error)}") from None


class OwnGateSection(OwnSection):
    """A gate of your own: a class with a method `admit(now)`, in an installed module or in one beside the recipe.

    `name: my_module:Late` names it; further keys are the arguments of its constructor. An argument `graph` that the
    recipe does not give is the language graph. `docs/embedding.md` has an example.
    """

    method = "admit"

    name: ImportPath
    """The module and the class."""

    def build(self, graph: LanguageGraph | None) -> Gate:
        gate: Gate = self.make(graph)
        return gate


class OwnSamplerSection(OwnSection):
    """A sampler of your own: a class with a method `weights(now)`, in an installed module or in one beside the recipe.

    `name: my_module:Loudest` names it; further keys are the arguments of its constructor. `docs/embedding.md` has an
    example.
    """

    method = "weights"

    name: ImportPath
    """The module and the class."""

    def build(self) -> Sampler:
        sampler: Sampler = self.make(None)
        return sampler


def _way(value: Any) -> str:
    """Whether a gate or sampler is named by our own name for it or by an import path."""
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return PATH if isinstance(name, str) and ":" in name else NAME


BuiltInGate = Annotated[AllSection | CompetenceSection | StepSection, Field(discriminator="name")]
BuiltInSampler = Annotated[
    TemperatureSection
    | FixedSection
    | UniMaxSection
    | InverseCompetenceSection
    | SizeAndCompetenceSection
    | ChiSquareSection
    | ActorSection,
    Field(discriminator="name"),
]
AnyGate = Annotated[Annotated[BuiltInGate, Tag(NAME)] | Annotated[OwnGateSection, Tag(PATH)], Discriminator(_way)]
AnySampler = Annotated[
    Annotated[BuiltInSampler, Tag(NAME)] | Annotated[OwnSamplerSection, Tag(PATH)], Discriminator(_way)
]


WITH_BENCHMARK = ("competence", "inverse-competence", "size-and-competence", "chi-square")
"""Built-in gates and samplers that need L*."""


class ProbeSection(Section):
    """The bounded probe: it measures by how much a few dev sentences have changed, and remembers the others."""

    share: float = Field(default=0.03, gt=0, le=1)
    """The part of the computation that a round may take, whatever the number of languages."""


class CurriculumSection(Section):
    """Which languages take part, how often each is drawn, and how often that is decided anew."""

    gate: AnyGate = CompetenceSection(name="competence")
    """Which languages take part; `name` chooses the gate."""
    sampler: AnySampler = InverseCompetenceSection(name="inverse-competence")
    """How often each language is drawn; `name` chooses the sampler."""
    every: Count = 100
    """Steps per round: after each, dev losses are measured and the weights change."""
    probe: ProbeSection | None = None
    """How a round measures dev losses at a bounded cost, with their standard errors. `null` means `{share: 0.03}`,
    unless `dev_sample` is set; a run that was begun with `dev_sample` keeps it."""
    dev_sample: Count | None = None
    """The paper's probe instead: the number of dev sentences per language that every round measures anew. Its cost
    grows with the number of languages. The paper's recipes have 256."""
    smoothing: float = 0.0
    """The share of the past in each measured dev loss."""

    @field_validator("gate", "sampler", mode="before")
    @classmethod
    def _default_name(cls, value: Any, info: ValidationInfo) -> Any:
        """Settings without a name belong to the default: `gate: {threshold: 0.8}` is enough."""
        if isinstance(value, dict) and "name" not in value:
            name = "competence" if info.field_name == "gate" else "inverse-competence"
            return {"name": name, **value}
        return value

    @model_validator(mode="after")
    def _one_probe(self) -> "CurriculumSection":
        if self.probe and self.dev_sample:
            raise ValueError(
                f"probe and dev_sample are both set (share {self.probe.share:g}, {self.dev_sample} sentences): set one"
                " of them to null"
            )
        return self

    @model_serializer(mode="wrap")
    def _only_the_probe_that_is_set(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits `probe` and `dev_sample` where they are null: version 0.1.0 had no `probe`."""
        content: dict[str, object] = serialize(self)
        unset = {name for name in ("probe", "dev_sample") if getattr(self, name) is None}
        return {name: value for name, value in content.items() if name not in unset}

    @property
    def bounded(self) -> ProbeSection | None:
        """The settings of the bounded probe; None with `dev_sample`."""
        return None if self.dev_sample else self.probe or ProbeSection()

    @property
    def needs_benchmark(self) -> bool:
        """Whether gate or sampler go by the reference losses L*. Without these there is no competence curve."""
        return bool(self.parts_with_benchmark)

    @property
    def parts_with_benchmark(self) -> list[str]:
        """Gate and sampler, as `curriculum.gate NAME`, that go by the reference losses L*."""
        own = [key for key, part in self.own_parts() if "benchmark" in part.needs]
        parts = {"gate": self.gate.name, "sampler": self.sampler.name}
        return [f"curriculum.{key} {name}" for key, name in parts.items() if name in WITH_BENCHMARK or key in own]

    def own_parts(self) -> list[tuple[str, OwnSection]]:
        """The gate and the sampler, where they are the user's own."""
        parts = [("gate", self.gate), ("sampler", self.sampler)]
        return [(key, part) for key, part in parts if isinstance(part, OwnSection)]

    def check_own_parts(self, source: str, beside: Path) -> None:
        """Refuses gates and samplers of users that cannot be made; their modules may lie beside the file `beside`."""
        for key, part in self.own_parts():
            search_beside(beside)
            try:
                part.check()
            except ConfigError as error:
                raise ConfigError(f"{source}: curriculum.{key}: {error}") from None

    def build(
        self, graph: LanguageGraph | None, *, sizes: Mapping[str, int], benchmark: Mapping[str, float] | None
    ) -> Curriculum:
        """The curriculum of these settings; ConfigError where the library refuses them.

        Only the competence gate needs a graph.
        """
        try:
            gate, sampler = self.gate.build(graph), self.sampler.build()
            return Curriculum(gate, sampler, sizes=sizes, benchmark=benchmark, smoothing=self.smoothing)
        except ValueError as error:
            raise ConfigError(f"curriculum: {error}") from None
        except Exception as error:
            if not self.own_parts():
                raise
            names = " or ".join(part.name for _, part in self.own_parts())
            raise ConfigError(f"curriculum: {names} failed before training: {describe_error(error)}") from None
