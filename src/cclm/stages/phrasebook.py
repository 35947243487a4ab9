"""`cclm phrasebook`: the built-in corpus as files."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from cclm.data.errors import DataError
from cclm.phrasebook import Phrasebook, generate, write


def run(folder: Path, seed: int) -> None:
    """Writes the corpus into the folder and prints its sizes."""
    book = Phrasebook.load()
    try:
        rows = write(book, generate(book, seed=seed), folder)
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for head in ("", "", "train", "dev", "test", "held out", "one word from training"):
        table.add_column(head, justify="right" if head else "left")
    for row in rows:
        sizes = (f"{row.train:,}", f"{row.dev:,}", f"{row.test:,}", f"{row.test_held_out:,}")
        table.add_row(row.language, row.name, *sizes, f"{row.test_near_share:.0%}")
    console = Console()
    console.print(table)
    console.print(f"written to {folder}", highlight=False, soft_wrap=True)
