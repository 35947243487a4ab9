"""All languages of the phrasebook together, checked against the English inventory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cclm.phrasebook.language import PIVOT, Language, read_language
from cclm.phrasebook.rendering import Renderer
from cclm.phrasebook.templates import Filling, Template, read_templates

DIRECTORY = Path(__file__).parent / "languages"


@dataclass(frozen=True)
class Phrasebook:
    """The templates, and what writes them in each language."""

    templates: Mapping[str, Template]
    renderers: Mapping[str, Renderer]

    @classmethod
    def load(cls, directory: Path = DIRECTORY, only: str | None = None) -> "Phrasebook":
        """Gives the phrasebook of a folder, or of one language in it beside English."""
        paths = sorted(directory.glob("*.txt"))
        if only is not None:
            paths = [path for path in paths if path.stem in (only, PIVOT)]
        languages = {path.stem: read_language(path) for path in paths}
        for needed in (PIVOT, only or PIVOT):
            if needed not in languages:
                raise ValueError(f"{directory} has no {needed}.txt")
        pivot = languages[PIVOT]
        templates = read_templates(pivot)
        for language in languages.values():
            _check_words(language, pivot)
        return cls(templates, {code: Renderer(each, templates) for code, each in languages.items()})

    @property
    def languages(self) -> list[str]:
        """The languages beside English, sorted."""
        return [code for code in self.renderers if code != PIVOT]

    @property
    def names(self) -> dict[str, str]:
        """The English name of each language."""
        return {code: renderer.language.name or code for code, renderer in self.renderers.items()}

    def sentence(self, language: str, template: str, filling: Filling) -> str:
        """Gives what a filled template says in a language."""
        return self.renderers[language].sentence(template, filling)

    def count(self) -> int:
        """Gives the number of different English sentences."""
        return sum(template.count() for template in self.templates.values())


def _check_words(language: Language, pivot: Language) -> None:
    for name, word in language.words.items():
        if name not in pivot.words:
            raise language.error(word.line, f"unknown word {name!r}: {PIVOT}.txt has none so named")
    last = max((word.line for word in language.words.values()), default=0)
    if missing := [name for name in pivot.words if name not in language.words]:
        raise language.error(last, f"{len(missing)} words missing: {', '.join(missing)}")
