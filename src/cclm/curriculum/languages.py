"""Checks of language names and of tables per language, shared by all of the curriculum."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_names(languages: Iterable[str], what: str) -> tuple[str, ...]:
    """The names as a tuple, refused if one is malformed or comes twice."""
    names = tuple(languages)
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
            raise ValueError(f"{what}: {name!r} is no language name: letters, digits, '.', '_' and '-' only")
    if len(set(names)) < len(names):
        twice = sorted(name for name in set(names) if names.count(name) > 1)
        raise ValueError(f"{what}: named twice: {', '.join(twice)}")
    return names


def check_known(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuses a language that the curriculum does not have."""
    strangers = sorted(set(given) - set(known))
    if strangers:
        raise ValueError(f"{what}: unknown language {', '.join(strangers)}; known are {listed(known)}")


def check_complete(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuses a table that leaves a language out."""
    missing = sorted(set(known) - set(given))
    if missing:
        raise ValueError(f"{what}: nothing for {listed(missing)}")


def listed(languages: Iterable[str], most: int = 12) -> str:
    """The names in canonical order, cut short where there are very many."""
    names = sorted(languages)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def is_number(value: Any) -> bool:
    """Whether this is a real number (NaN and infinities included, truth values not)."""
    return not isinstance(value, bool) and hasattr(value, "__float__") and not isinstance(value, str)


def check_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """Training pairs per language: whole numbers of at least 1."""
    check_names(sizes, "sizes")
    if not sizes:
        raise ValueError("sizes: no language; give the number of training pairs of each")
    for lang, size in sizes.items():
        if not is_number(size) or not math.isfinite(size) or size < 1 or size != int(size):
            raise ValueError(f"sizes: {lang} has {size!r} training pairs; a whole number of at least 1 is needed")
    return {lang: int(size) for lang, size in sizes.items()}


def check_benchmark(benchmark: Mapping[str, float], languages: Iterable[str]) -> dict[str, float]:
    """Benchmark losses L* in bits per token: more than 0 and far below 64."""
    check_known(benchmark, languages, "benchmark")
    for lang, loss in benchmark.items():
        if not is_number(loss) or not 0 < loss < 64:
            raise ValueError(
                f"benchmark: L* of {lang} is {loss!r}; it must lie between 0 and 64 bits per token"
                " (a mean over tokens in base 2, not a sum over the sentence)"
            )
    return {lang: float(loss) for lang, loss in benchmark.items()}
