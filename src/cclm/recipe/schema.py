"""The recipe: one YAML file with all settings of a training run, from the parallel text to beam search."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from cclm.recipe.execution import ExecutionSection
from cclm.recipe.language_codes import canonical
from cclm.recipe.methods import CurriculumSection
from cclm.recipe.model import ModelSection
from cclm.recipe.section import Count, FilePath, Name, Section, Seed, Whole

Format = Literal["phrasebook", "moses", "tsv", "ted", "tmx", "huggingface"]
Direction = Literal["many-to-one", "one-to-many", "many-to-many"]
KeepOrDrop = Literal["keep", "drop"]
Metric = Literal["weighted", "macro", "worst", "bleu"]


RESERVED = {"models", "manifest.json", "counts.json", "other.json", "pivot.json", "vocabulary.json"}
"""File names in the folder of prepared data, where each language has a subfolder. No language may have such a name."""


def without_defaults(section: Section, content: dict[str, object], names: Sequence[str]) -> dict[str, object]:
    """The content of a section without those of these keys that have their default."""
    fields = type(section).model_fields
    unset = {name for name in names if getattr(section, name) == fields[name].default}
    return {name: value for name, value in content.items() if name not in unset}


class CutSection(Section):
    """Dev and test sets taken from the training text, for languages that have no files for them."""

    dev: Whole = 0
    """Number of training pairs that become the dev set of each language without a dev file. 0 takes none."""
    test: Whole = 0
    """Number of training pairs that become the test set of each language without a test file. 0 takes none."""


class DataSection(Section):
    """The parallel text: its files, its languages, and the filters for training pairs.

    Filters apply to training text only; dev and test sets keep every pair.
    """

    format: Format
    """The file format of the text. `docs/data.md` describes each one; `phrasebook` is the built-in corpus."""
    path: str | None = None
    """A folder, a pattern with `{lang}`, `{split}`, `{pivot}` and `{side}`, or the name of a Hugging Face dataset.
    Required for every format except `phrasebook`."""
    direction: Direction = "many-to-one"
    """The translation direction: into the pivot language (`many-to-one`), from it (`one-to-many`), or both."""
    pivot: Name = "eng"
    """The language on one side of every pair."""
    seed: Seed = 1
    """Seed for `data.cut`, for sampling sentences to learn subwords from, and for the phrasebook. It is separate from
    `seed`, so that runs with different seeds share their prepared data."""
    high_resource: list[Name]
    """High-resource languages (HRLs). They are trained on from the first step."""
    low_resource: list[Name]
    """Low-resource languages (LRLs). `curriculum.gate` decides when each is admitted to training."""
    columns: Literal["pivot-first", "other-first"] = "pivot-first"
    """The order of the two columns of a TSV file. For `tsv` only."""
    detokenize: bool = False
    """Whether to undo the tokenisation of the text (`do n't ,` becomes `don't,`). For `ted` and `moses` only."""
    on_bad_utf8: Literal["error", "drop"] = "error"
    """What to do with a line that is not valid UTF-8: stop with an error, or drop the pair and count it."""
    cut: CutSection = CutSection()
    """Dev and test sets to take from the training text."""
    max_tokens: Count = 150
    """The maximum length of a training pair, in subwords on either side. Longer pairs are dropped."""
    max_characters: Count = 5000
    """The maximum length of a pair, in characters on either side. Longer training pairs are dropped; a longer dev or
    test pair is an error."""
    length_ratio: float | None = Field(default=None, ge=1)
    """The maximum ratio between the lengths of the two sides of a training pair, in characters. Pairs above it are
    dropped. `null` disables the filter."""
    duplicates: KeepOrDrop = "keep"
    """Whether to keep repeated training pairs of a language, or drop all but the first."""
    copies: KeepOrDrop = "keep"
    """Whether to keep or drop training pairs whose two sides are equal."""
    leakage: KeepOrDrop = "keep"
    """Whether to keep or drop training pairs whose pivot side occurs in a dev or test set of any language."""
    wrong_language: KeepOrDrop = "keep"
    """Whether to keep or drop training pairs whose text is identified as another language of the recipe. `drop` needs
    the extra `langid`."""

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages except the pivot, HRLs first."""
        return (*self.high_resource, *self.low_resource)

    def by_resource(self, tasks: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """The tasks of HRLs and those of LRLs; `tasks` has the language of each."""
        hrls = [name for name, lang in tasks.items() if lang in self.high_resource]
        return hrls, [name for name in tasks if name not in hrls]

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits keys that version 0.1.0 did not have while they are not set. Otherwise the settings of runs and data of
        that version would differ from ours."""
        return without_defaults(self, serialize(self), ("length_ratio",))

    @field_validator("high_resource", "low_resource")
    @classmethod
    def _languages_are_not_reserved(cls, languages: list[str]) -> list[str]:
        if reserved := [lang for lang in languages if lang.lower() in RESERVED]:
            raise ValueError(f"must not contain {', '.join(reserved)}: a file of prepared data has that name")
        return languages

    @model_validator(mode="after")
    def _languages_are_distinct(self) -> "DataSection":
        names = [*self.languages, self.pivot]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"must not name a language twice: {', '.join(repeated)}")
        if self.format == "phrasebook" and self.pivot != "eng":
            raise ValueError(f"must have eng as the pivot of the phrasebook; got {self.pivot!r}")
        by_code: dict[str, str] = {}
        for name in names:
            first = by_code.setdefault(canonical(name), name)
            if first != name and "-" not in name + first:  # pt and pt-br are allowed together
                raise ValueError(f"must not name one language twice: {first} and {name}")
        if not self.languages:
            raise ValueError("must name at least one language in high_resource or low_resource")
        if self.format != "phrasebook" and not self.path:
            raise ValueError(f"needs a path for format {self.format!r}")
        return self


class VocabularySection(Section):
    """Subwords: one SentencePiece unigram model per language, or one for all languages."""

    pieces: int = Field(default=8000, ge=16, le=1_000_000)
    """The maximum number of subwords per model. A model has fewer if its text is too small for as many, and more if the
    text has more distinct characters than that."""
    joint: bool = False
    """Whether all languages, including the pivot, share one model. Required for `data.direction: many-to-many`."""
    character_coverage: float = Field(default=1.0, gt=0.9, le=1)
    """The fraction of characters in the training text that a model covers. Rarer characters become unknown."""
    sample: Count = 200_000
    """The maximum number of training sentences that a model is learnt from; larger text is sampled."""


class GraphSection(Section):
    """The language graph: computed from vocabulary overlap, or read from a file."""

    k: Count | None = None
    """The number of most frequent subwords per language that are compared. `null` means `vocabulary.pieces`."""
    file: FilePath | None = None
    """A `graph.json` with your own similarities. Nothing is computed then."""


class BenchmarkSection(Section):
    """The reference losses L* that competence is measured against.

    By default cclm trains one bitext model per language and takes its best dev loss.
    """

    method: Literal["bitext", "multilingual", "file", "none"] = "bitext"
    """Where L* comes from: one bitext model per language, as in the paper; one short training of all languages
    (`multilingual`), at a twelfth of the cost of the training; your own table in `file`; or `none` for gates and
    samplers that need no L*. `bitext` with a `file` means `file`."""
    max_steps: Count | None = None
    """The maximum number of steps of each training for L*. `null` means `training.max_steps` for a bitext model, and a
    twelfth of it for `multilingual`."""
    level: float | None = Field(default=None, gt=0, lt=64)
    """For `multilingual`: the mean dev loss of the HRLs, in bits per token, at which their competence is 1. The L* of
    all languages are shifted by the same amount, which moves the time at which the competence gate opens. `null` means
    the level of the short training itself."""
    file: FilePath | None = None
    """A `benchmark.json` with your own losses, in bits per token. Nothing is trained for L* then."""

    @property
    def source(self) -> Literal["bitext", "multilingual", "file", "none"]:
        """Where L* comes from: `method`, or the file if there is one."""
        return "file" if self.file else self.method

    @model_validator(mode="after")
    def _method_has_what_it_needs(self) -> "BenchmarkSection":
        if self.method == "file" and not self.file:
            raise ValueError("needs a file for method 'file': benchmark.file=my-losses.json")
        if self.method in ("multilingual", "none") and self.file:
            raise ValueError(
                f"must not have the file {self.file!r} with method {self.method!r}: set benchmark.method=file to use"
                " it, benchmark.file=null to ignore it"
            )
        if self.method != "multilingual" and self.level is not None:
            raise ValueError(f"must not have a level with method {self.method!r}: it is for 'multilingual'")
        return self

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits keys that version 0.1.0 did not have while they have their defaults, as in `data`."""
        return without_defaults(self, serialize(self), ("method", "level"))


class AverageSection(Section):
    """The average of the weights that is validated, selected and exported. Training and probes use the weights
    themselves. Exactly one of the keys is set."""

    last: int | None = Field(default=None, ge=2, le=50)
    """The mean of the weights at this number of last validations. A checkpoint contains all of them."""
    ema: float | None = Field(default=None, gt=0, lt=1)
    """The factor of an exponential moving average over the steps, such as 0.999."""

    @model_validator(mode="after")
    def _has_one_kind(self) -> "AverageSection":
        if (self.last is None) == (self.ema is None):
            raise ValueError("must have either last or ema")
        return self


class SplitPiecesSection(Section):
    """Subword regularisation: the probability that a piece of a training batch is split into two smaller pieces."""

    source: float = Field(default=0.1, ge=0, le=1)
    """The probability of a piece of the source."""
    target: float = Field(default=0.0, ge=0, le=1)
    """The probability of a piece of the target."""


class TrainingSection(Section):
    """The training loop."""

    batch_tokens: Count = 4800
    """The maximum number of tokens per micro-batch on either side, including padding."""
    accumulate: Count = 2
    """Number of micro-batches per step and process whose gradients are accumulated."""
    learning_rate: float = Field(default=2e-4, gt=0)
    """The peak learning rate, reached at the end of warm-up. Afterwards it follows `schedule`."""
    warmup: Whole = 4000
    """Number of steps over which the learning rate rises linearly from 0. With 0 it begins at its peak; with 0 and
    `schedule: inverse-sqrt` it is constant."""
    schedule: Literal["inverse-sqrt", "linear", "cosine", "wsd"] = "inverse-sqrt"
    """The learning rate after warm-up: decay with the inverse square root of the step, as in the paper, which never
    reaches zero; or annealing to zero at `max_steps`: `linear`, `cosine`, or `wsd`, which is constant up to the last
    `decay` steps. A run with `linear` or `cosine` cannot be extended by raising `max_steps`; one with `wsd` can, and
    trains only the decay again. A run that anneals and is stopped early still decays for `decay` steps."""
    decay: Count | None = None
    """Number of steps of the decay of `schedule: wsd`, and of a run that anneals and is stopped early. `null` means a
    fifth of `max_steps`."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The probability mass of each target that the training loss distributes evenly over the vocabulary."""
    clip: float | None = Field(default=None, gt=0)
    """The maximum norm of the gradient; larger gradients are scaled down to it. `null` disables clipping."""
    average: AverageSection | None = None
    """Averaging of the weights: `{last: 5}` or `{ema: 0.999}`. `null` means none."""
    split_pieces: SplitPiecesSection | None = None
    """Subword regularisation of the training text: `{source: 0.1}`. It helps trainings of many passes over little text
    and costs quality in short ones. `null` means none."""
    max_steps: Count = 100_000
    """The maximum number of steps."""
    validate_every: Count = 1000
    """Number of steps between validations. Each validation writes a checkpoint."""
    save_every: int | None = Field(default=None, ge=1)
    """Number of steps between additional checkpoints. `null` means none. They affect neither the log nor the result."""
    patience: Count = 10
    """Number of validations without improvement of `stop_on` after which training stops early."""
    stop_on: Metric = "weighted"
    """The metric for early stopping: the mean of the languages' dev losses, weighted by the number of dev sentences
    (`weighted`) or unweighted (`macro`), the highest dev loss (`worst`), or mean BLEU on the dev sets (`bleu`)."""
    select_on: Metric = "weighted"
    """The metric that selects the best checkpoint. The values are those of `stop_on`."""
    bleu: bool = False
    """Whether validations also translate the dev sets and compute BLEU. Implied by `stop_on` or `select_on: bleu`."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """The floating-point format of the computation. `auto` means bf16 on a GPU, or fp16 if it has no bf16. On a CPU it
    means bf16 if the CPU multiplies in bf16 and `model.width` is at least 128, otherwise fp32. The number of threads
    plays no part: it differs between trainings that have to agree. A run that is resumed keeps its precision."""
    device: str = "auto"
    """The device: `cpu`, `cuda`, `cuda:1`, `mps`, or `auto`: a CUDA device if there is one, otherwise the CPU."""
    deterministic: bool = False
    """Whether a GPU computes the same bytes every time, with slower algorithms. A CPU always does."""
    tf32: bool = True
    """Whether products in fp32 on an NVIDIA GPU round their factors to TF32 (10 bits instead of 23): several times as
    fast. It has no effect on CPUs."""

    @property
    def decay_steps(self) -> int:
        """Number of steps of the final decay."""
        return self.decay or max(1, self.max_steps // 5)

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits keys that version 0.1.0 did not have while they have their defaults, as in `data`."""
        return without_defaults(
            self, serialize(self), ("schedule", "decay", "average", "split_pieces", "deterministic", "tf32")
        )

    @property
    def measures_bleu(self) -> bool:
        """Whether validations translate the dev sets and compute BLEU."""
        return self.bleu or "bleu" in (self.stop_on, self.select_on)


class TranslationSection(Section):
    """Beam search, as used by `cclm translate` and `cclm score`."""

    beam: Count = 5
    """Beam size: the number of hypotheses that are kept per step."""
    length_penalty: float = Field(default=1.0, ge=0)
    """The exponent of the length that a hypothesis' score is divided by. 0 favours short translations."""
    restrict: bool | None = None
    """Whether a translation may contain only subwords of its target language: those of the language's own model, or
    with `vocabulary.joint` those that occur in its training text. Not for `many-to-one`, which has one target language.
    `null` means `false`."""

    @model_serializer(mode="wrap")
    def _without_new_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits a key that version 0.1.0 did not have while it is not set, as in `DataSection`."""
        return without_defaults(self, serialize(self), ("restrict",))


class Recipe(Section):
    """All settings of a training run."""

    version: Literal[1]
    """The version of the recipe format."""
    name: Name
    """The name of the run. Its folder is `runs/<name>` in the work folder."""
    seed: Seed = 1
    """Seed for initial parameters, dropout, batches and the sampling of languages."""
    work: FilePath
    """The work folder. Prepared data, graph, benchmark and runs are written there."""
    data: DataSection
    vocabulary: VocabularySection = VocabularySection()
    graph: GraphSection = GraphSection()
    model: ModelSection = ModelSection()
    curriculum: CurriculumSection = CurriculumSection()
    benchmark: BenchmarkSection = BenchmarkSection()
    training: TrainingSection = TrainingSection()
    translation: TranslationSection = TranslationSection()
    execution: ExecutionSection = Field(
        default=ExecutionSection(), exclude=True
    )  # in no file of a run: decides nothing

    @model_validator(mode="after")
    def _both_sides_share_a_vocabulary(self) -> "Recipe":
        if self.data.direction == "many-to-many" and not self.vocabulary.joint and not self.model.pretrained:
            raise ValueError("data.direction many-to-many needs vocabulary.joint: true")
        return self

    @model_validator(mode="after")
    def _codes_are_of_languages(self) -> "Recipe":
        if unknown := sorted(set(self.model.codes or {}) - {*self.data.languages, self.data.pivot}):
            raise ValueError(f"model.codes names {', '.join(unknown)}, which data has not")
        return self

    @model_validator(mode="after")
    def _restriction_needs_a_tag(self) -> "Recipe":
        if self.translation.restrict and self.data.direction == "many-to-one":
            raise ValueError("translation.restrict: true needs data.direction one-to-many or many-to-many")
        return self

    @model_validator(mode="after")
    def _level_needs_hrls(self) -> "Recipe":
        if self.benchmark.level is not None and not self.data.high_resource:
            raise ValueError("benchmark.level is a mean over HRLs, and data.high_resource is empty")
        return self

    @property
    def restricts(self) -> bool:
        """Whether translations contain only subwords of their target language."""
        return bool(self.translation.restrict)

    def with_training(self, **settings: object) -> "Recipe":
        """The recipe with these settings of training."""
        return self.model_copy(update={"training": self.training.model_copy(update=settings)})

    @property
    def prepared(self) -> Path:
        """The path of the prepared data."""
        return Path(self.work) / "prepared"

    @property
    def graph_file(self) -> Path:
        """The path of the language graph."""
        return Path(self.work) / "graph.json"
