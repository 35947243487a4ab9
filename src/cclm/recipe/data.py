"""The `data` and `vocabulary` sections of a recipe."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from cclm.recipe.language_codes import canonical
from cclm.recipe.section import Section

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Direction = Literal["many-to-one", "one-to-many", "many-to-many"]
KeepOrDrop = Literal["keep", "drop"]


class CutSection(Section):
    """How many pairs are cut off the training text where a split has no file of its own."""

    dev: int = Field(default=0, ge=0)
    test: int = Field(default=0, ge=0)


class DataSection(Section):
    """Where the text is and what of it is used."""

    format: Literal["phrasebook", "moses", "tsv", "ted", "tmx", "huggingface"]
    path: str | None = None
    """A folder, or a pattern with {lang} and {split}."""
    direction: Direction = "many-to-one"
    pivot: Name = "eng"
    seed: int = Field(default=1, ge=0)
    """Of what is cut off and sampled. Apart from the recipe's: trainings with several seeds share their data."""
    high_resource: list[Name]
    low_resource: list[Name]
    columns: Literal["pivot-first", "other-first"] = "pivot-first"
    detokenize: bool = False
    on_bad_utf8: Literal["error", "drop"] = "error"
    cut: CutSection = CutSection()
    max_tokens: int = Field(default=150, ge=1)
    max_characters: int = Field(default=5000, ge=1)
    duplicates: KeepOrDrop = "keep"
    copies: KeepOrDrop = "keep"
    leakage: KeepOrDrop = "keep"
    wrong_language: KeepOrDrop = "keep"

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages but the pivot, HRLs first."""
        return (*self.high_resource, *self.low_resource)

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
    """Subwords: one SentencePiece model a language, or one for all."""

    pieces: int = Field(default=8000, ge=16)
    joint: bool = False
    character_coverage: float = Field(default=1.0, gt=0.9, le=1)
    sample: int = Field(default=200_000, ge=1)
