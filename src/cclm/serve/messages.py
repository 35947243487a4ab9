"""What the service is asked and what it answers, as JSON. The OpenAPI document is made from these classes."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MOST_HYPOTHESES = 10
MOST_TARGETS = 100
Code = Annotated[str, Field(max_length=64)]


def _without_fraction(value: object) -> object:
    """JSON Schema counts 3.0 as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integer = Annotated[int, BeforeValidator(_without_fraction)]


class Message(BaseModel):
    """Unknown keys are refused, and no value is converted: the string "5" is no number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Question(Message):
    """A text to translate."""

    text: str
    """The text. It is divided into sentences; line breaks and spaces between them are kept."""
    source: Code | None = None
    """The language of the text. May be left out if the model translates from one language only."""
    target: Code | list[Code] | None = None
    """The language to translate into, or several. Left out: every language that the model was trained to translate the
    source into."""
    model: str | None = Field(default=None, max_length=64)
    """The name of the model. May be left out if there is only one."""
    n_best: Integer = Field(default=1, ge=1, le=MOST_HYPOTHESES)
    """How many translations of each sentence to give, the best first. More than the beam of the model enlarges it."""
    split: bool = True
    """Whether to divide lines into sentences. If not, every line is translated as one sentence."""


class Hypothesis(Message):
    """A translation of a sentence."""

    text: str
    """The translation."""
    score: float
    """The natural log-probability divided by the length to the power of the length penalty: 0 is the best."""


class Sentence(Message):
    """A sentence with its translations, the best first. Those of equal text are given once."""

    source: str
    hypotheses: list[Hypothesis]


class Translation(Message):
    """The text in one language."""

    source: str
    target: str
    zero_shot: bool
    """Whether the model was not trained on this pair of languages, but only on both languages."""
    text: str
    """The best translations, put together with the line breaks and spaces of the text."""
    sentences: list[Sentence]


class Answer(Message):
    """The translations of a text, in the order of the targets."""

    model: str
    translations: list[Translation]
    seconds: float
    """From the end of the request until the translations were there."""


class Target(Message):
    """A language that a text can be translated into."""

    target: str
    zero_shot: bool


class Source(Message):
    """A language that a model translates from, and into which ones."""

    source: str
    targets: list[Target]


class OfferedModel(Message):
    """A model of the service."""

    name: str
    beam: int
    """Hypotheses that the beam search keeps."""
    languages: list[Source]


class Models(Message):
    """The models of the service, and the limits of a request."""

    models: list[OfferedModel]
    most_characters: int
    """The longest text of a request."""
    most_sentences: int
    """The most sentences of a request, times the number of target languages."""


class Health(Message):
    """Whether the service translates."""

    status: Literal["ok"] = "ok"
    models: list[str]
    waiting: int
    """Sentences that wait for a worker."""


class Problem(Message):
    """Why a request was refused, and what to do."""

    error: str
    """The reason, in English."""
