"""The phrasebook as a source of text."""

from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from cclm.errors import DataError
from cclm.phrasebook import Phrasebook, generate
from cclm.phrasebook.corpus import Corpus


def phrasebook_files() -> list[Path]:
    """The files that the corpus is made from: a corrected one makes another corpus."""
    return sorted(Path(str(files("cclm.phrasebook"))).joinpath("languages").glob("*.txt"))


@lru_cache(maxsize=2)
def _corpus(seed: int) -> Corpus:
    return generate(Phrasebook.load(), seed=seed)


def phrasebook_pairs(seed: int, language: str, split: str) -> Iterator[tuple[int, str, str]]:
    """The pairs of a language and split of the built-in corpus."""
    splits = _corpus(seed).splits
    if language not in splits:
        raise DataError(f"the phrasebook has no {language!r}; it has {', '.join(sorted(splits))}")
    for number, (english, other) in enumerate(splits[language][split].pairs, start=1):
        yield number, english, other
