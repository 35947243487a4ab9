"""Templates: which words may fill their slots, drawing and counting of fillings, and rendering in a language."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product

from cclm.phrasebook.language import FIRST, PIVOT, Language, Line, Word
from cclm.rng import uniform

SLOT = re.compile(r"(\w+)(\??):([\w+,-]+)((?:[@~!]\w+)*)$")
WORD_SHIFT = 2  # the most common word is 25 times as frequent as the 13th
TEMPLATE_SHIFT = 1
EVEN = 10_000  # a shift with which all words are about equally frequent
DRAWS = 16  # random numbers reserved per filling

Filling = tuple[Word | None, ...]
_SCALE = 1 << 40


def zipf(count: int, shift: int) -> list[int]:
    """Cumulative weights 1 / (rank + shift)² (Zipf-Mandelbrot law), as integers: equal on every machine."""
    return list(accumulate(_SCALE // (rank + shift) ** 2 for rank in range(1, count + 1)))


def pick(weights: Sequence[int], number: float) -> int:
    """The rank, from 0, for a uniform random number in [0, 1)."""
    return bisect_right(weights, int(number * weights[-1]))


@dataclass(frozen=True)
class Slot:
    """A slot of a template: the words that may fill it, given the words in earlier slots.

    Conditions are a sign and the position of an earlier slot. `@`: the tags of one word match what the other takes;
    `~`: the same first tag; `!`: a different word; `<`: neither word refuses the other. The last one is added
    automatically for slots with such words.
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
    """A cache for one slot. Sets of its words are integers with one bit per word.

    For each condition and other word, it has the set of words that satisfy it; for each set that occurred, its words
    and their cumulative weights.
    """

    def __init__(self, slot: Slot, shift: int) -> None:
        self.optional = slot.optional
        self._words = slot.words
        self._shift = shift
        self._all = (1 << len(slot.words)) - 1
        self._conditions = [(sign, position, dict[Word, int]()) for sign, position in slot.conditions]
        self._choices: dict[int, tuple[list[Word], list[int]]] = {}

    def choices(self, earlier: Sequence[Word | None]) -> tuple[list[Word], list[int]]:
        """The words that may follow the earlier ones, most common first, and their cumulative weights."""
        allowed = self._all
        for sign, position, masks in self._conditions:
            other = earlier[position]
            if other is not None:
                mask = masks.get(other)
                if mask is None:
                    mask = masks[other] = self._mask(sign, other)
                allowed &= mask
        if allowed not in self._choices:
            words = [word for number, word in enumerate(self._words) if allowed >> number & 1]
            self._choices[allowed] = (words, zipf(len(words), self._shift))
        return self._choices[allowed]

    def _mask(self, sign: str, other: Word) -> int:
        return sum(_holds(sign, word, other) << number for number, word in enumerate(self._words))


class Template:
    """A meaning with slots. A larger `shift` makes the frequencies of the words more even."""

    def __init__(self, name: str, slots: Sequence[Slot], shift: int = WORD_SHIFT) -> None:
        self.name = name
        self.shift = shift
        self.slots = tuple(slots)
        self.names = [slot.name for slot in slots]
        self._tables = [_Table(slot, shift) for slot in slots]

    def without(self, held_out: Collection[tuple[str, str]]) -> "Template":
        """The template without the held-out (template, word) combinations."""
        slots = []
        for slot in self.slots:
            words = tuple(word for word in slot.words if (self.name, word.key) not in held_out)
            slots.append(replace(slot, words=words))
        return Template(self.name, slots, self.shift)

    def evenly(self) -> "Template":
        """The template with about equally frequent words."""
        return Template(self.name, self.slots, EVEN)

    def choices(self, slot: int, earlier: Sequence[Word | None]) -> list[Word]:
        """The words that may fill a slot, most common first."""
        return self._tables[slot].choices(earlier)[0]

    def draw(self, key: int, index: int = 0) -> Filling | None:
        """Draws the filling number `index` of a random key; None if no word fits the words drawn before it."""
        first, size = index * DRAWS, len(self.slots)
        filling: list[Word | None] = []
        for draw, table in enumerate(self._tables, first):
            if table.optional and uniform(key, draw + size) < 0.5:
                filling.append(None)
                continue
            words, weights = table.choices(filling)
            if not words:
                return None
            filling.append(words[pick(weights, uniform(key, draw))])
        return tuple(filling)

    def count(self) -> int:
        """The number of different fillings."""
        # The earlier slots that the conditions of this slot and the later ones refer to.
        relevant = [
            {position for later in self.slots[slot:] for _, position in later.conditions if position < slot}
            for slot in range(len(self.slots))
        ]

        @cache
        def count_from(slot: int, earlier: Filling) -> int:
            if slot == len(self.slots):
                return 1
            # Without the words that no longer matter, most calls are answered from the cache.
            reduced = tuple(word if position in relevant[slot] else None for position, word in enumerate(earlier))
            if reduced != earlier:
                return count_from(slot, reduced)
            total = count_from(slot + 1, (*earlier, None)) if self.slots[slot].optional else 0
            return total + sum(count_from(slot + 1, (*earlier, word)) for word in self.choices(slot, earlier))

        return count_from(0, ())


def read_templates(pivot: Language) -> dict[str, Template]:
    """The templates of the English file, by name."""
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
        raise pivot.error(
            line.line, f"a slot must be 'name:tags', then '@', '~' or '!' with another slot; got {text!r}"
        )
    name, optional, tags, conditions = match.groups()
    if name in earlier:
        raise pivot.error(line.line, f"slot {name!r} is defined twice")
    pairs = re.findall(r"([@~!])(\w+)", conditions)
    for _, other in pairs:
        if other not in earlier:
            raise pivot.error(
                line.line, f"slot {name!r} refers to {other!r}, which is not an earlier slot; these are {earlier}"
            )
    words = tuple(word for word in pivot.words.values() if matches(word, tags))
    if not words:
        raise pivot.error(line.line, f"no word has the tags {tags!r} of slot {name!r}")
    explicit = [(sign, earlier.index(other)) for sign, other in pairs]
    implicit = [("<", position) for position, slot in enumerate(before) if _may_clash(words, slot.words)]
    return Slot(name, bool(optional), words, (*explicit, *implicit))


def _may_clash(words: tuple[Word, ...], others: tuple[Word, ...]) -> bool:
    return any(_clash(word, other) for word in words for other in others)


def matches(word: Word, tags: str) -> bool:
    """Whether a word matches a tag expression: `,` is or, `+` is and, `-` is not."""
    return any(wanted <= word.tags and unwanted.isdisjoint(word.tags) for wanted, unwanted in _parsed(tags))


@cache
def _parsed(tags: str) -> list[tuple[set[str], set[str]]]:
    choices = [re.findall(r"([+-]?)(\w+)", choice) for choice in tags.split(",")]
    return [
        ({tag for sign, tag in pairs if sign != "-"}, {tag for sign, tag in pairs if sign == "-"}) for pairs in choices
    ]


def combinations(templates: Mapping[str, Template]) -> list[tuple[str, str]]:
    """All (template, word) combinations, in the order of the file."""
    return [
        (name, key)
        for name, template in templates.items()
        for key in dict.fromkeys(word.key for slot in template.slots for word in slot.words)
    ]


REFERENCE = re.compile(r"\{([^{}]*)\}")

# The parts of a form's name: strings, or (position of a slot, feature that the form agrees with). A single string if
# the form agrees with nothing.
FormPart = str | tuple[int, str]
Form = str | tuple[FormPart, ...]
# The position of a slot, or -1 and a helper word; and the form.
Reference = tuple[int, Word | None, Form]


class Renderer:
    """Renders the templates in one language."""

    def __init__(self, language: Language, templates: Mapping[str, Template]) -> None:
        self.language = language
        self._check_names(templates)
        self._patterns = {
            name: _pattern(language, language.templates[name], template) for name, template in templates.items()
        }

    def _check_names(self, templates: Mapping[str, Template]) -> None:
        for name, line in self.language.templates.items():
            if name not in templates:
                raise self.language.error(line.line, f"unknown template {name!r}: it is not in {PIVOT}.txt")
        last = max((line.line for line in self.language.templates.values()), default=0)
        if missing := [name for name in templates if name not in self.language.templates]:
            raise self.language.error(last, f"templates missing: {', '.join(missing)}")

    def sentence(self, template: str, filling: Filling) -> str:
        """The sentence for a filled template."""
        words = self.language.words
        chosen = [None if word is None else words[word.key] for word in filling]
        text, references = self._patterns[template]
        return self.language.spell(text % tuple([_resolve(reference, chosen) for reference in references]))


def _resolve(reference: Reference, chosen: list[Word | None]) -> str:
    slot, helper, form = reference
    word = helper or chosen[slot]
    if word is None:
        return ""
    if isinstance(form, str):
        return word.forms[form]
    return word.forms[".".join([_part(part, chosen) for part in form])]


def _part(part: FormPart, chosen: list[Word | None]) -> str:
    if isinstance(part, str):
        return part
    other = chosen[part[0]]
    assert other is not None  # agreement with an optional slot is an error
    return other.features[part[1]]


def _pattern(language: Language, line: Line, template: Template) -> tuple[str, list[Reference]]:
    """The text with %s for each reference, and the references."""
    references = [_reference(language, line, template, text) for text in REFERENCE.findall(line.text)]
    text = REFERENCE.sub("%s", line.text.replace("%", "%%"))
    if "{" in text or "}" in text:
        raise language.error(line.line, f"unbalanced brace in {line.text!r}")
    return text, references


def _reference(language: Language, line: Line, template: Template, text: str) -> Reference:
    name, *names = text.split(".")
    if name in template.names:
        slot, helper = template.names.index(name), None
        candidates: Iterable[Word] = _candidates(language, template, slot)
    elif name in language.helpers:
        slot, helper = -1, language.helpers[name]
        candidates = [helper]
    else:
        raise language.error(
            line.line,
            f"unknown slot {name!r} in {{{text}}}; the slots are {', '.join(template.names)}"
            f" and the helpers {', '.join(language.helpers) or '(none)'}",
        )
    parts = tuple(_form_part(language, line, template, part) for part in names or [FIRST])
    _check_forms(language, line, template, candidates, parts)
    fixed = [part for part in parts if isinstance(part, str)]
    return slot, helper, ".".join(fixed) if len(fixed) == len(parts) else parts


def _candidates(language: Language, template: Template, slot: int) -> list[Word]:
    return [language.words[word.key] for word in template.slots[slot].words]


def _form_part(language: Language, line: Line, template: Template, part: str) -> FormPart:
    name, at_sign, feature = part.partition("@")
    if not at_sign:
        return part
    if name not in template.names:
        raise language.error(line.line, f"{part!r}: {name!r} is not a slot; the slots are {', '.join(template.names)}")
    slot = template.names.index(name)
    if template.slots[slot].optional:
        raise language.error(line.line, f"{part!r} agrees with an optional slot, which may be empty")
    for word in _candidates(language, template, slot):
        if feature not in word.features:
            raise language.error(
                word.line,
                f"{word.key!r} has no feature '@{feature}', which template line {line.line} needs",
            )
    return slot, feature


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
                    f"{word.key!r} has no form {form!r}, which template line {line.line} needs;"
                    f" it has {' '.join(word.forms)}",
                )
