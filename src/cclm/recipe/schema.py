"""The recipe: one YAML file that says everything about a training, from the text to the beam."""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from cclm.errors import ConfigError
from cclm.recipe.data import DataSection, Name, VocabularySection
from cclm.recipe.loading import Section, check, override, parse_yaml, read_yaml, with_values
from cclm.recipe.methods import CurriculumSection


class GraphSection(Section):
    """The language graph: vocabulary overlap, or a file of the user's."""

    k: int | None = Field(default=None, ge=1)
    file: str | None = None


class ModelSection(Section):
    """The Transformer."""

    layers: int = Field(default=6, ge=1)
    heads: int = Field(default=4, ge=1)
    width: int = Field(default=512, ge=2)
    feed_forward: int = Field(default=1024, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    activation_dropout: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ModelSection":
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        return self


class BenchmarkSection(Section):
    """How L* is come by: trained, or read from a table."""

    max_steps: int | None = Field(default=None, ge=1)
    file: str | None = None


Metric = Literal["weighted", "macro", "worst", "bleu"]


class TrainingSection(Section):
    """The loop."""

    batch_tokens: int = Field(default=4800, ge=1)
    accumulate: int = Field(default=2, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    warmup: int = Field(default=4000, ge=0)
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    clip: float | None = Field(default=None, gt=0)
    max_steps: int = Field(default=100_000, ge=1)
    validate_every: int = Field(default=1000, ge=1)
    patience: int = Field(default=10, ge=1)
    stop_on: Metric = "weighted"
    select_on: Metric = "weighted"
    bleu: bool = False
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    device: str = "auto"

    @property
    def measures_bleu(self) -> bool:
        """Whether validations translate, too."""
        return self.bleu or "bleu" in (self.stop_on, self.select_on)


class TranslationSection(Section):
    """Beam search."""

    beam: int = Field(default=5, ge=1)
    length_penalty: float = Field(default=1.0, ge=0)


class Recipe(Section):
    """A recipe as read, checked."""

    version: Literal[1]
    name: Name
    seed: int = Field(default=1, ge=0)
    work: str
    data: DataSection
    vocabulary: VocabularySection = VocabularySection()
    graph: GraphSection = GraphSection()
    model: ModelSection = ModelSection()
    curriculum: CurriculumSection = CurriculumSection()
    benchmark: BenchmarkSection = BenchmarkSection()
    training: TrainingSection = TrainingSection()
    translation: TranslationSection = TranslationSection()

    @model_validator(mode="after")
    def _both_sides_share_a_vocabulary(self) -> "Recipe":
        if self.data.direction == "many-to-many" and not self.vocabulary.joint:
            raise ValueError("data.direction many-to-many needs vocabulary.joint: true")
        return self

    @property
    def prepared(self) -> Path:
        """Where the prepared data is."""
        return Path(self.work) / "prepared"

    @property
    def graph_file(self) -> Path:
        """Where the language graph is."""
        return Path(self.work) / "graph.json"


def built_in_recipes() -> dict[str, str]:
    """The recipes that come with the package: their text by name."""
    return texts_in("recipes")


def texts_in(part: str) -> dict[str, str]:
    """The YAML files of a folder of the package: their text by name."""
    folder = files("cclm.recipe") / part
    texts = {entry.name.removesuffix(".yaml"): entry for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    return {name: texts[name].read_text(encoding="utf-8") for name in sorted(texts)}


def load_recipe(name: str, changes: Iterable[str] = (), *, values: Mapping[str, Any] | None = None) -> Recipe:
    """A built-in recipe or one in a YAML file, with `key=value` changes, or other values for some keys."""
    content = read_named("recipe", name, built_in_recipes())
    return check(Recipe, override(with_values(content, values or {}), changes), name)


def read_named(kind: str, name: str, built_in: Mapping[str, str]) -> dict[str, Any]:
    """The settings in a YAML file, or those of this name that come with the package."""
    if name in built_in:
        content: dict[str, Any] = parse_yaml(built_in[name], name)
        return content
    if Path(name).suffix in (".yaml", ".yml") or Path(name).exists():
        return read_yaml(Path(name))
    raise ConfigError(f"no {kind} {name!r}: give a YAML file or one of {', '.join(built_in)}")
