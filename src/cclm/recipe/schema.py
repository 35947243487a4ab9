"""The recipe: one YAML file with every setting of a training, from the text to the beam search."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
    model_validator,
)

from cclm.recipe.language_codes import canonical
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.section import LARGEST, Count, Section, Seed, Whole

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]


def _is_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be a path")
    return text


FilePath = Annotated[str, AfterValidator(_is_path)]
Format = Literal["phrasebook", "moses", "tsv", "ted", "tmx", "huggingface"]
Direction = Literal["many-to-one", "one-to-many", "many-to-many"]
KeepOrDrop = Literal["keep", "drop"]
Metric = Literal["weighted", "macro", "worst", "bleu"]


RESERVED = {"models", "manifest.json", "counts.json", "other.json", "pivot.json", "vocabulary.json"}
"""Names inside prepared data, where every language has a folder of its own."""


class CutSection(Section):
    """How many pairs are cut off the training text where a split has no file of its own."""

    dev: Whole = 0
    """Pairs that become the dev set of each language without one."""
    test: Whole = 0
    """Pairs that become the test set of each language without one."""


class DataSection(Section):
    """The parallel text: where it is, its languages, and which pairs are used."""

    format: Format
    """How the text is stored. `docs/data.md` describes each format."""
    path: str | None = None
    """A folder, or a pattern with `{lang}`, `{split}`, `{pivot}` and `{side}`. Not needed for the phrasebook."""
    direction: Direction = "many-to-one"
    """Which way to translate: into the pivot, out of it, or both."""
    pivot: Name = "eng"
    """The language that every pair has on one side."""
    seed: Seed = 1
    """Decides which pairs are cut off and sampled. Separate from the recipe's seed, so that trainings with several
    seeds share their prepared data."""
    high_resource: list[Name]
    """High-resource languages (HRLs): they take part from the first step."""
    low_resource: list[Name]
    """Low-resource languages (LRLs): the gate decides when they are admitted."""
    columns: Literal["pivot-first", "other-first"] = "pivot-first"
    """Which column of a TSV file has the pivot's text."""
    detokenize: bool = False
    """Undo the tokenisation of the text. For `ted` and `moses` only."""
    on_bad_utf8: Literal["error", "drop"] = "error"
    """What happens to a line that is not UTF-8: refuse the file, or drop and count the pair."""
    cut: CutSection = CutSection()
    """Dev and test sets taken from the training text."""
    max_tokens: Count = 150
    """Training pairs with more subwords than this on either side are dropped."""
    max_characters: Count = 5000
    """Training pairs with more characters than this on either side are dropped; dev and test pairs are refused."""
    length_ratio: float | None = Field(default=None, ge=1)
    """Training pairs with one side longer than this many times the other, in characters, are dropped. Default: none."""
    duplicates: KeepOrDrop = "keep"
    """Training pairs that occurred before in the same language."""
    copies: KeepOrDrop = "keep"
    """Training pairs whose two sides are equal."""
    leakage: KeepOrDrop = "keep"
    """Training pairs whose pivot side is in a dev or test set of any language."""
    wrong_language: KeepOrDrop = "keep"
    """Training pairs identified as another language of the recipe. `drop` needs the extra `langid`."""

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages except the pivot, HRLs first."""
        return (*self.high_resource, *self.low_resource)

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leaves out a key that version 0.1.0 did not have while it is not set: runs and data of that version compare
        their settings with ours."""
        content: dict[str, object] = serialize(self)
        if self.length_ratio is None:
            content.pop("length_ratio", None)
        return content

    @field_validator("high_resource", "low_resource")
    @classmethod
    def _languages_are_not_reserved(cls, languages: list[str]) -> list[str]:
        if reserved := [lang for lang in languages if lang.lower() in RESERVED]:
            raise ValueError(f"must not have {', '.join(reserved)}: the name of a file in prepared data")
        return languages

    @model_validator(mode="after")
    def _languages_are_distinct(self) -> "DataSection":
        names = [*self.languages, self.pivot]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"must not name a language twice: {', '.join(twice)}")
        if self.format == "phrasebook" and self.pivot != "eng":
            raise ValueError(f"must have eng as the pivot of the phrasebook; got {self.pivot!r}")
        spelt: dict[str, str] = {}
        for name in names:
            same = spelt.setdefault(canonical(name), name)
            if same != name and "-" not in name + same:  # pt and pt-br may stand side by side
                raise ValueError(f"must not name one language twice: {same} and {name}")
        if not self.languages:
            raise ValueError("must name at least one language in high_resource or low_resource")
        if self.format != "phrasebook" and not self.path:
            raise ValueError(f"needs a path where format is {self.format!r}")
        return self


class VocabularySection(Section):
    """Subwords: one SentencePiece unigram model per language, or one for all."""

    pieces: int = Field(default=8000, ge=16, le=1_000_000)
    """The most subwords per model; a model has fewer where the text does not support as many."""
    joint: bool = False
    """Whether all languages, the pivot too, share one model. Needed for `many-to-many`."""
    character_coverage: float = Field(default=1.0, gt=0.9, le=1)
    """The share of characters that the model covers; rarer ones become unknown."""
    sample: Count = 200_000
    """The most training sentences that a model is learnt from."""


class GraphSection(Section):
    """The language graph: computed from vocabulary overlap, or read from a file."""

    k: Count | None = None
    """How many of the most frequent subwords per language are compared. Default: `vocabulary.pieces`."""
    file: FilePath | None = None
    """A graph.json with similarities of your own, used instead of vocabulary overlap."""


class ModelSection(Section):
    """The Transformer."""

    layers: Count = 6
    """Layers of the encoder, and of the decoder."""
    heads: Count = 4
    """Attention heads per layer."""
    width: int = Field(default=512, ge=2, le=LARGEST)
    """Size of the embeddings and of every layer's output. Even, and a multiple of `heads`."""
    feed_forward: Count = 1024
    """Size of the hidden layer of the feed-forward networks."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Dropout of embeddings and of the output of every sublayer."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout of attention weights. Default: the same as `dropout`."""
    activation_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout inside the feed-forward networks. Default: the same as `dropout`."""

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ModelSection":
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        return self


class BenchmarkSection(Section):
    """Where the reference losses L* come from: trained here, or read from a file."""

    max_steps: Count | None = None
    """The most steps of each bitext model. Default: `training.max_steps`."""
    file: FilePath | None = None
    """A benchmark.json with losses of your own; no bitext model is trained then."""


class TrainingSection(Section):
    """The training loop."""

    batch_tokens: Count = 4800
    """The most tokens per micro-batch on either side, padding included."""
    accumulate: Count = 2
    """Micro-batches per step and process."""
    learning_rate: float = Field(default=2e-4, gt=0)
    """The highest learning rate, reached at the end of the warm-up; it falls with the square root of the step."""
    warmup: Whole = 4000
    """Steps over which the learning rate rises."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The probability that the training loss spreads over the whole vocabulary."""
    clip: float | None = Field(default=None, gt=0)
    """The largest norm of the gradient; larger ones are scaled down. Default: no clipping."""
    max_steps: Count = 100_000
    """Steps after which training ends."""
    validate_every: Count = 1000
    """Steps between validations; each writes a checkpoint."""
    save_every: int | None = Field(default=None, ge=1)
    """Steps between further checkpoints, between validations. Default: none. They change neither log nor result."""
    patience: Count = 10
    """Validations without improvement of `stop_on` after which training ends early."""
    stop_on: Metric = "weighted"
    """What has to improve: the dev loss over all dev sentences (`weighted`), its mean over languages (`macro`), that
    of the worst language (`worst`), or mean BLEU on the dev sets (`bleu`)."""
    select_on: Metric = "weighted"
    """What the best checkpoint is chosen by; the same choices."""
    bleu: bool = False
    """Whether validations also translate the dev sets and measure BLEU."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Number format of the computation. `auto` chooses by the device."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, `mps`, or `auto`."""

    @property
    def measures_bleu(self) -> bool:
        """Whether validations translate the dev sets."""
        return self.bleu or "bleu" in (self.stop_on, self.select_on)


class TranslationSection(Section):
    """Beam search."""

    beam: Count = 5
    """Hypotheses that the search keeps."""
    length_penalty: float = Field(default=1.0, ge=0)
    """Exponent of the length that scores are divided by; 0 prefers short translations."""


class Recipe(Section):
    """The recipe itself."""

    version: Literal[1]
    """The version of this file format."""
    name: Name
    """The name of the run: its folder is `runs/<name>` in the work folder."""
    seed: Seed = 1
    """Decides initialisation, dropout, batches and draws of languages."""
    work: FilePath
    """The work folder: prepared data, graph, benchmark and runs go there."""
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
        """The folder of the prepared data."""
        return Path(self.work) / "prepared"

    @property
    def graph_file(self) -> Path:
        """The file of the language graph."""
        return Path(self.work) / "graph.json"
