"""What a JSON file must look like, said as an example of itself, and the refusal where it does not."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cclm.curriculum.languages import is_number


@dataclass(frozen=True)
class Kind:
    """A simple value, by its name and its test."""

    name: str
    holds: Callable[[Any], bool]

    @property
    def or_null(self) -> "Kind":
        """The same, or nothing."""
        return Kind(f"{self.name} or null", lambda value: value is None or self.holds(value))


@dataclass(frozen=True)
class Each:
    """An object with any names, all of whose values are alike."""

    of: Any


@dataclass(frozen=True)
class Optional:
    """A part that may be absent or null."""

    of: Any


TEXT = Kind("a text", lambda value: isinstance(value, str))
WHOLE = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUMBER = Kind("a finite number", lambda value: is_number(value) and math.isfinite(value))
ANYTHING = Kind("anything", lambda value: True)
YES_NO = Kind("true or false", lambda value: isinstance(value, bool))


def check(value: Any, shape: Any, place: str = "") -> None:
    """Refuses a value that has another shape: a kind, an object, a list of one shape, `Each`, `Optional`."""
    if isinstance(shape, Kind):
        if not shape.holds(value):
            raise ValueError(f"{place}: expected {shape.name}, got {value!r:.60}")
    elif isinstance(shape, Optional):
        if value is not None:
            check(value, shape.of, place)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"{place}: expected a list, got {value!r:.60}")
        for number, item in enumerate(value):
            check(item, shape[0], f"{place}[{number}]")
    else:
        if not isinstance(value, dict):
            raise ValueError(f"{place}: expected an object, got {value!r:.60}")
        parts = dict.fromkeys(value, shape.of) if isinstance(shape, Each) else shape
        for name, of in parts.items():
            inner = f"{place}.{name}".removeprefix(".")
            if name not in value and not isinstance(of, Optional):
                raise ValueError(f"{inner}: nothing there")
            check(value.get(name), of, inner)
