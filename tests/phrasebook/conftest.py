"""The phrasebook, and 40 random fillings of each template."""

import pytest

from cclm.phrasebook import Phrasebook
from cclm.phrasebook.templates import Filling
from cclm.rng import key

Meaning = tuple[str, Filling]


@pytest.fixture(scope="session")
def book() -> Phrasebook:
    return Phrasebook.load()


@pytest.fixture(scope="session")
def meanings(book: Phrasebook) -> list[Meaning]:
    drawn = [
        (name, template.draw(key(11, name), index)) for name, template in book.templates.items() for index in range(40)
    ]
    return [(name, filling) for name, filling in drawn if filling is not None]


@pytest.fixture(scope="session")
def sentences(book: Phrasebook, meanings: list[Meaning]) -> dict[str, list[str]]:
    return {lang: [book.sentence(lang, *meaning) for meaning in meanings] for lang in book.renderers}
