"""How often a model translates into another language than it was asked for."""

from collections.abc import Callable, Iterable


def off_target(lines: Iterable[str], language: str, identify: Callable[[str], str]) -> float | None:
    """The share of lines that are identified as another language.

    Empty lines are in no language: they are left out (BLEU has counted them), and where there is nothing else the share
    is None. An identifier errs, most of all on short lines and between languages that are near; its error is the share
    among the references.
    """
    found = [identify(line) != language for line in lines if line.strip()]
    return sum(found) / len(found) if found else None
