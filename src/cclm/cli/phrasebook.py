"""`cclm phrasebook`: the built-in corpus as files."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from cclm.errors import ConfigError, DataError
from cclm.phrasebook import Phrasebook, generate, write
from cclm.phrasebook.corpus import SIZES
from cclm.text_table import text_table

MOST = 100_000
"""The most sentences of a set; generating more takes minutes."""


def sizes(given: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """The default sizes, with `lang=train,dev,test` changes."""
    found = dict(SIZES)
    for text in given:
        match = re.fullmatch(r"([\w.-]+)=(\d+),(\d+),(\d+)", text)
        if match is None or match[1] not in SIZES:
            raise ConfigError(f"--size {text!r}: expected LANG=TRAIN,DEV,TEST with one of {', '.join(SIZES)}")
        if any(len(part) > len(str(MOST)) or int(part) > MOST for part in match.groups()[1:]):
            raise ConfigError(f"--size {text!r:.60}: at most {MOST:,} sentences per set")
        found[match[1]] = (int(match[2]), int(match[3]), int(match[4]))
    return found


def run(folder: Path, seed: int, wanted: Mapping[str, tuple[int, int, int]]) -> None:
    """Writes the corpus into the folder and prints its sizes."""
    book = Phrasebook.load()
    try:
        corpus = generate(book, seed=seed, sizes=wanted)
    except ValueError as error:
        raise ConfigError(f"--size: {error}; ask for fewer") from None
    try:
        rows = write(book, corpus, folder)
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
    table = text_table(("", "", "train", "dev", "test", "held out", "one word from training"))
    for row in rows:
        sizes = (f"{row.train:,}", f"{row.dev:,}", f"{row.test:,}", f"{row.test_held_out:,}")
        table.add_row(row.language, row.name, *sizes, f"{row.test_near_share:.0%}")
    console = Console()
    console.print(table)
    console.print(f"written to {folder}", highlight=False, markup=False, soft_wrap=True)
