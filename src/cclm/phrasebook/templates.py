"""The meanings: which words may stand in which slot of which template, and how many sentences that makes."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cclm.phrasebook.draws import MASK, STEP, mixed, pick, zipf
from cclm.phrasebook.language import Language, Line, Word

SLOT = re.compile(r"(\w+)(\??):([\w+,-]+)((?:[@~!]\w+)*)$")
WORD_SHIFT = 3  # flattens the head of Zipf's law: the commonest word is 4 times as frequent as the 13th
TEMPLATE_SHIFT = 12

Filling = tuple[Word | None, ...]


@dataclass(frozen=True)
class Slot:
    """A place in a template: who may stand there, given who stands in the slots before it.

    `@other`: the two suit each other (the tags of one meet what the other takes); `~other`: the same
    first tag; `!other`: not the same word. Slots whose words may refuse each other get `<other` unasked.
    """

    name: str
    optional: bool
    words: tuple[Word, ...]
    conditions: tuple[tuple[str, int], ...]

    def allows(self, word: Word, earlier: Sequence[Word | None]) -> bool:
        """Says whether the word may stand here."""
        return all(_holds(sign, word, earlier[place]) for sign, place in self.conditions)


def _holds(sign: str, word: Word, other: Word | None) -> bool:
    if other is None:
        return True
    if sign == "@":
        return not (other.takes.isdisjoint(word.tags) and word.takes.isdisjoint(other.tags))
    if sign == "<":
        return not _clash(word, other)
    if sign == "~":
        return word.tags[0] == other.tags[0]
    return word.key != other.key


def _clash(word: Word, other: Word) -> bool:
    return not (other.refuses.isdisjoint(word.tags) and word.refuses.isdisjoint(other.tags))


class Template:
    """A meaning with slots; draws fillings and counts them."""

    def __init__(self, name: str, slots: Sequence[Slot]) -> None:
        self.name = name
        self.slots = tuple(slots)
        self.names = [slot.name for slot in slots]
        self._choices: dict[tuple[int | Word | None, ...], tuple[list[Word], list[int]]] = {}

    def without(self, held_out: Collection[tuple[str, str]]) -> "Template":
        """Gives the template without the (template, word) combinations that are held out."""
        slots = []
        for slot in self.slots:
            words = tuple(word for word in slot.words if (self.name, word.key) not in held_out)
            slots.append(replace(slot, words=words))
        return Template(self.name, slots)

    def choices(self, place: int, earlier: Sequence[Word | None]) -> list[Word]:
        """Gives the words that may stand in the slot, commonest first."""
        return self._weighted(place, earlier)[0]

    def _weighted(self, place: int, earlier: Sequence[Word | None]) -> tuple[list[Word], list[int]]:
        slot = self.slots[place]
        known = (place, *[earlier[at] for _, at in slot.conditions])
        found = self._choices.get(known)
        if found is None:
            words = [word for word in slot.words if slot.allows(word, earlier)]
            found = self._choices[known] = (words, zipf(len(words), WORD_SHIFT))
        return found

    def draw(self, state: int) -> Filling | None:
        """Gives one filling, or None where a slot is left without a word that suits the others."""
        filling: list[Word | None] = []
        for place, slot in enumerate(self.slots):
            state = (state + STEP) & MASK
            number = mixed(state)
            if slot.optional and number & 1:
                filling.append(None)
                continue
            words, cumulated = self._weighted(place, filling)
            if not words:
                return None
            filling.append(words[pick(cumulated, number)])
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
        raise pivot.error(
            line.line, f"a slot reads 'name:tags' with '@', '~' or '!' and a slot; got {text!r}"
        )
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
    return any(
        wanted <= set(word.tags) and unwanted.isdisjoint(word.tags) for wanted, unwanted in _parsed(tags)
    )


@cache
def _parsed(tags: str) -> list[tuple[set[str], set[str]]]:
    choices = [re.findall(r"([+-]?)(\w+)", choice) for choice in tags.split(",")]
    return [
        ({tag for sign, tag in pairs if sign != "-"}, {tag for sign, tag in pairs if sign == "-"})
        for pairs in choices
    ]


def combinations(templates: Mapping[str, Template]) -> list[tuple[str, str]]:
    """Gives every template x word combination, in the order of the file."""
    return [
        (name, key)
        for name, template in templates.items()
        for key in dict.fromkeys(word.key for slot in template.slots for word in slot.words)
    ]
