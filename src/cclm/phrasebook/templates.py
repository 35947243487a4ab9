"""The meanings: which words may fill which slot of which template, and how many sentences that gives."""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from cclm.phrasebook.language import Language, Line, Word
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
