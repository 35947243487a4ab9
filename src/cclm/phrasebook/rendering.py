"""From a meaning to a sentence: slots replaced by the forms that a language's template asks for."""

import re
from collections.abc import Iterable, Mapping
from itertools import product

from cclm.phrasebook.language import FIRST, PIVOT, Language, Line, Word
from cclm.phrasebook.templates import Filling, Template

REFERENCE = re.compile(r"\{([^{}]*)\}")

# A form's name in parts, each a text or (place of the slot agreed with, feature); one text if nothing is agreed with.
FormPart = str | tuple[int, str]
Form = str | tuple[FormPart, ...]
# The place of the slot, or a helper and no place; and the form.
Reference = tuple[int, Word | None, Form]


class Renderer:
    """Writes the meanings of all templates in one language."""

    def __init__(self, language: Language, templates: Mapping[str, Template]) -> None:
        self.language = language
        self._check_names(templates)
        self._patterns = {
            name: _pattern(language, language.templates[name], template) for name, template in templates.items()
        }

    def _check_names(self, templates: Mapping[str, Template]) -> None:
        for name, line in self.language.templates.items():
            if name not in templates:
                raise self.language.error(line.line, f"unknown template {name!r}: {PIVOT}.txt has none so named")
        last = max((line.line for line in self.language.templates.values()), default=0)
        if missing := [name for name in templates if name not in self.language.templates]:
            raise self.language.error(last, f"templates missing: {', '.join(missing)}")

    def sentence(self, template: str, filling: Filling) -> str:
        """Gives the sentence."""
        words = self.language.words
        chosen = [None if word is None else words[word.key] for word in filling]
        text, references = self._patterns[template]
        return self.language.spelt(text % tuple([_written(reference, chosen) for reference in references]))


def _written(reference: Reference, chosen: list[Word | None]) -> str:
    place, helper, form = reference
    word = helper or chosen[place]
    if word is None:
        return ""
    if isinstance(form, str):
        return word.forms[form]
    return word.forms[".".join([_part(part, chosen) for part in form])]


def _part(part: FormPart, chosen: list[Word | None]) -> str:
    if isinstance(part, str):
        return part
    other = chosen[part[0]]
    assert other is not None  # an optional slot is refused as one to agree with
    return other.features[part[1]]


def _pattern(language: Language, line: Line, template: Template) -> tuple[str, list[Reference]]:
    # The text with %s for each reference, and the references.
    references = [_reference(language, line, template, text) for text in REFERENCE.findall(line.text)]
    text = REFERENCE.sub("%s", line.text.replace("%", "%%"))
    if "{" in text or "}" in text:
        raise language.error(line.line, f"a brace without its partner in {line.text!r}")
    return text, references


def _reference(language: Language, line: Line, template: Template, text: str) -> Reference:
    name, *names = text.split(".")
    if name in template.names:
        place, helper = template.names.index(name), None
        candidates: Iterable[Word] = _candidates(language, template, place)
    elif name in language.helpers:
        place, helper = -1, language.helpers[name]
        candidates = [helper]
    else:
        raise language.error(
            line.line,
            f"unknown slot {name!r} in {{{text}}}; there are {', '.join(template.names)}"
            f" and the helpers {', '.join(language.helpers) or '(none)'}",
        )
    parts = tuple(_form_part(language, line, template, part) for part in names or [FIRST])
    _check_forms(language, line, template, candidates, parts)
    fixed = [part for part in parts if isinstance(part, str)]
    return place, helper, ".".join(fixed) if len(fixed) == len(parts) else parts


def _candidates(language: Language, template: Template, place: int) -> list[Word]:
    return [language.words[word.key] for word in template.slots[place].words]


def _form_part(language: Language, line: Line, template: Template, part: str) -> FormPart:
    slot, at, feature = part.partition("@")
    if not at:
        return part
    if slot not in template.names:
        raise language.error(line.line, f"{part!r} agrees with no slot; there are {', '.join(template.names)}")
    place = template.names.index(slot)
    if template.slots[place].optional:
        raise language.error(line.line, f"{part!r} agrees with an optional slot, which may be empty")
    for word in _candidates(language, template, place):
        if feature not in word.features:
            raise language.error(
                word.line,
                f"{word.key!r} has no feature '@{feature}', which template line {line.line} asks for",
            )
    return place, feature


def _check_forms(
    language: Language, line: Line, template: Template, words: Iterable[Word], parts: tuple[FormPart, ...]
) -> None:
    values = [
        [part]
        if isinstance(part, str)
        else sorted({word.features[part[1]] for word in _candidates(language, template, part[0])})
        for part in parts
    ]
    for form in map(".".join, product(*values)):
        for word in words:
            if form not in word.forms:
                raise language.error(
                    word.line,
                    f"{word.key!r} has no form {form!r}, which template line {line.line} asks for;"
                    f" it has {' '.join(word.forms)}",
                )
