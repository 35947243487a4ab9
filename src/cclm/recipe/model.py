"""The section `model` of a recipe: sizes of our Transformer, or the pretrained model to start from."""

from typing import Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from cclm.recipe.section import LARGEST, Count, FilePath, Name, Section


class LoraSection(Section):
    """Low-rank adapters on the attention of a pretrained model, which itself is not changed. They are merged into its
    weights for translation."""

    rank: Count = 16
    """Rank of the adapters."""
    alpha: Count = 32
    """Scale of the adapters: their output is multiplied by `alpha / rank`."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the input of the adapters."""


SIZES = ("layers", "heads", "width", "feed_forward")
"""Keys that a pretrained model decides."""
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


class ModelSection(Section):
    """The Transformer, with layer norm before each sublayer and the target embedding as output projection.

    With `pretrained`, training starts from another model. That model decides the sizes and the subwords; `layers`,
    `heads`, `width`, `feed_forward` and the section `vocabulary` are not used then. `docs/pretrained.md` describes it.
    """

    pretrained: FilePath | None = None
    """The model to start from: a folder or a name on the Hugging Face hub with a model of the families NLLB, M2M100,
    mBART-50 or Marian, or the folder of a finished run. `null` starts from random parameters."""
    codes: dict[Name, str] | None = None
    """The pretrained model's own code of a language, as in `{aze: azj_Latn}`, for languages that are not found by
    themselves. A code that the model does not have becomes a new one."""
    freeze: Literal["embeddings", "encoder"] | None = None
    """A part of the pretrained model that is not trained. The embeddings of new language codes always are."""
    lora: LoraSection | None = None
    """Train adapters of low rank instead of the pretrained weights. `null` trains the weights themselves."""

    layers: Count = 6
    """Number of encoder layers, and of decoder layers."""
    heads: Count = 4
    """Number of attention heads per layer. Must divide `width`."""
    width: int = Field(default=512, ge=2, le=LARGEST)
    """Dimension of the embeddings and of the output of every layer. Must be even."""
    feed_forward: Count = 1024
    """Dimension of the hidden layer in the feed-forward sublayers."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Dropout rate of embeddings and of the output of every sublayer."""
    attention_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout rate of attention weights. `null` means the same as `dropout`."""
    activation_dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout rate inside the feed-forward sublayers. `null` means the same as `dropout`. A pretrained model keeps its
    own rates unless these keys are set."""

    @model_serializer(mode="wrap")
    def _without_unused_keys(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Omits the keys of pretrained models where there is none: earlier versions did not have them. With one, omits
        what is not set, because the model decides it."""
        content: dict[str, object] = serialize(self)
        if self.pretrained is None:
            unused = {"pretrained", "codes", "freeze", "lora"}
        else:
            unused = {*SIZES, *DROPOUTS} - self.model_fields_set
            unused |= {name for name in ("codes", "freeze", "lora") if not getattr(self, name)}
        return {name: value for name, value in content.items() if name not in unused}

    @model_validator(mode="after")
    def _needs_a_pretrained_model(self) -> "ModelSection":
        if self.pretrained is None and (given := [name for name in ("codes", "freeze", "lora") if getattr(self, name)]):
            raise ValueError(f"{given[0]} needs model.pretrained")
        return self

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> "ModelSection":
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} must be even and a multiple of heads {self.heads}")
        return self
