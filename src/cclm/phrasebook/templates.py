"""The meanings: which words may fill which slot of which template, and how many sentences that gives."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product

from cclm.phrasebook.language import FIRST, PIVOT, Language, Line, Word
from cclm.rng import uniform

SLOT = re.compile(r"(\w+)(\??):([\w+,-]+)((?:[@~!]\w+)*)$")
WORD_SHIFT = 2  # the commonest word is 25 times as frequent as the 13th
TEMPLATE_SHIFT = 1
EVEN = 10_000  # as a shift: all are about equally frequent
DRAWS = 16  # random numbers set aside for one filling

Filling = tuple[Word | None, ...]
_SCALE = 1 << 40


def zipf(count: int, shift: int) -> list[int]:
    """Gives cumulated weights 1 / (rank + shift)², as Mandelbrot has it; integers, so the same on every machine."""
    return list(accumulate(_SCALE // (rank + shift) ** 2 for rank in range(1, count + 1)))


def pick(cumulated: Sequence[int], number: float) -> int:
    """Gives the rank, from 0, that a number in [0, 1) falls on."""
    return bisect_right(cumulated, int(number * cumulated[-1]))


@dataclass(frozen=True)
class Slot:
    """A place in a template: which words may fill it, given the words in the slots before it.

    `@other`: the two suit each other (the tags of one meet what the other takes); `~other`: the same
    first tag; `!other`: not the same word. Slots whose words may refuse each other get `<other` unasked.
    """

    name: str
    optional: bool
    words: tuple[Word, ...]
    conditions: tuple[tuple[str, int], ...]


def _holds(sign: str, word: Word, other: Word) -> bool:
    if sign == "@":
        return not (other.takes.isdisjoint(word.tags) and word.takes.isdisjoint(other.tags))
    if sign == "<":
        return not _clash(word, other)
    if sign == "~":
        return word.group == other.group
    return word.key != other.key


def _clash(word: Word, other: Word) -> bool:
    return not (other.refuses.isdisjoint(word.tags) and word.refuses.isdisjoint(other.tags))


class _Table:
    """What is known of one slot: sets of its words, as integers with a bit for each word.

    For each condition and other word, those that go with it; for each set that was met, its words and their weights.
    """

    def __init__(self, slot: Slot, shift: int) -> None:
        self.optional = slot.optional
        self._words = slot.words
        self._shift = shift
        self._all = (1 << len(slot.words)) - 1
        self._conditions = [(sign, at, dict[Word, int]()) for sign, at in slot.conditions]
        self._choices: dict[int, tuple[list[Word], list[int]]] = {}

    def choices(self, earlier: Sequence[Word | None]) -> tuple[list[Word], list[int]]:
        """Gives the words that may follow the earlier ones, commonest first, and their cumulated weights."""
        allowed = self._all
        for sign, at, masks in self._conditions:
            other = earlier[at]
            if other is not None:
                mask = masks.get(other)
                if mask is None:
                    mask = masks[other] = self._mask(sign, other)
                allowed &= mask
        found = self._choices.get(allowed)
        if found is None:
            words = [word for number, word in enumerate(self._words) if allowed >> number & 1]
            found = self._choices[allowed] = (words, zipf(len(words), self._shift))
        return found

    def _mask(self, sign: str, other: Word) -> int:
        return sum(_holds(sign, word, other) << number for number, word in enumerate(self._words))


class Template:
    """A meaning with slots; draws fillings and counts them. The shift says how flat Zipf's law is."""

    def __init__(self, name: str, slots: Sequence[Slot], shift: int = WORD_SHIFT) -> None:
        self.name = name
        self.shift = shift
        self.slots = tuple(slots)
        self.names = [slot.name for slot in slots]
        self._tables = [_Table(slot, shift) for slot in slots]

    def without(self, held_out: Collection[tuple[str, str]]) -> "Template":
        """Gives the template without the (template, word) combinations that are held out."""
        slots = []
        for slot in self.slots:
            words = tuple(word for word in slot.words if (self.name, word.key) not in held_out)
            slots.append(replace(slot, words=words))
        return Template(self.name, slots, self.shift)

    def evenly(self) -> "Template":
        """Gives the template whose words are all about equally frequent."""
        return Template(self.name, self.slots, EVEN)

    def choices(self, place: int, earlier: Sequence[Word | None]) -> list[Word]:
        """Gives the words that may fill the slot, commonest first."""
        return self._tables[place].choices(earlier)[0]

    def draw(self, key: int, index: int = 0) -> Filling | None:
        """Gives the filling at an index of the key's, or None where no word suits those already there."""
        first, size = index * DRAWS, len(self.slots)
        filling: list[Word | None] = []
        for place, table in enumerate(self._tables, first):
            if table.optional and uniform(key, place + size) < 0.5:
                filling.append(None)
                continue
            words, cumulated = table.choices(filling)
            if not words:
                return None
            filling.append(words[pick(cumulated, uniform(key, place))])
        return tuple(filling)

    def count(self) -> int:
        """Gives the number of different fillings."""
        needed = [
            {at for slot in self.slots[place:] for _, at in slot.conditions if at < place}
            for place in range(len(self.slots))
        ]

        @cache
        def rest(place: int, earlier: Filling) -> int:
            if place == len(self.slots):
                return 1
            kept = tuple(word if at in needed[place] else None for at, word in enumerate(earlier))
            if kept != earlier:
                return rest(place, kept)
            total = rest(place + 1, (*earlier, None)) if self.slots[place].optional else 0
            return total + sum(rest(place + 1, (*earlier, word)) for word in self.choices(place, earlier))

        return rest(0, ())


def read_templates(pivot: Language) -> dict[str, Template]:
    """Gives the templates of the English file."""
    return {name: _template(pivot, name, line) for name, line in pivot.templates.items()}


def _template(pivot: Language, name: str, line: Line) -> Template:
    slots: list[Slot] = []
    for text in line.slots.split():
        slots.append(_slot(pivot, line, text, slots))
    return Template(name, slots)


def _slot(pivot: Language, line: Line, text: str, before: list[Slot]) -> Slot:
    earlier = [slot.name for slot in before]
    match = SLOT.match(text)
    if match is None:
        raise pivot.error(line.line, f"a slot reads 'name:tags' with '@', '~' or '!' and a slot; got {text!r}")
    name, optional, tags, conditions = match.groups()
    if name in earlier:
        raise pivot.error(line.line, f"slot {name!r} is given twice")
    pairs = re.findall(r"([@~!])(\w+)", conditions)
    for _, other in pairs:
        if other not in earlier:
            raise pivot.error(line.line, f"slot {name!r} looks at {other!r}; before it stand {earlier}")
    words = tuple(word for word in pivot.words.values() if matches(word, tags))
    if not words:
        raise pivot.error(line.line, f"no word has the tags {tags!r} of slot {name!r}")
    asked = [(sign, earlier.index(other)) for sign, other in pairs]
    unasked = [("<", place) for place, slot in enumerate(before) if _may_clash(words, slot.words)]
    return Slot(name, bool(optional), words, (*asked, *unasked))


def _may_clash(words: tuple[Word, ...], others: tuple[Word, ...]) -> bool:
    return any(_clash(word, other) for word in words for other in others)


def matches(word: Word, tags: str) -> bool:
    """Says whether a word has the tags: ',' is or, '+' is and, '-' is not."""
    return any(wanted <= word.tags and unwanted.isdisjoint(word.tags) for wanted, unwanted in _parsed(tags))


@cache
def _parsed(tags: str) -> list[tuple[set[str], set[str]]]:
    choices = [re.findall(r"([+-]?)(\w+)", choice) for choice in tags.split(",")]
    return [
        ({tag for sign, tag in pairs if sign != "-"}, {tag for sign, tag in pairs if sign == "-"}) for pairs in choices
    ]


def combinations(templates: Mapping[str, Template]) -> list[tuple[str, str]]:
    """Gives every template x word combination, in the order of the file."""
    return [
        (name, key)
        for name, template in templates.items()
        for key in dict.fromkeys(word.key for slot in template.slots for word in slot.words)
    ]


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
