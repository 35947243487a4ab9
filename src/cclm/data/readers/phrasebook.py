"""The built-in phrasebook as parallel text, read by `Texts` in `cclm.data.texts`."""

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from cclm.data.readers.source import Pairs
from cclm.errors import DataError
from cclm.phrasebook import Phrasebook, generate
from cclm.phrasebook.corpus import Corpus


def phrasebook_files() -> list[Path]:
    """The files that the corpus is generated from. A change in one of them changes the corpus."""
    return sorted(Path(str(files("cclm.phrasebook"))).joinpath("languages").glob("*.txt"))


@lru_cache(maxsize=2)
def _corpus(seed: int) -> Corpus:
    return generate(Phrasebook.load(), seed=seed)


def phrasebook_pairs(seed: int, language: str, split: str) -> Pairs:
    """(number, English text, other text) of a language and split."""
    splits = _corpus(seed).splits
    if language not in splits:
        raise DataError(f"the phrasebook has no {language!r}; it has {', '.join(sorted(splits))}")
    for number, (english, other) in enumerate(splits[language][split].pairs, start=1):
        yield number, english, other
