"""sweep.json: the result of every run of a sweep, the chosen one, and the steps saved by sharing prefixes."""

from typing import ClassVar

from cclm.formats.base import JsonFile, Part
from cclm.formats.study import Count, Number


class Point(Part):
    """A point of the grid."""

    threshold: Number
    aggregate: str


class Leaf(Point):
    """A run of the grid. Losses are those of the selected checkpoint, scores those on the test sets."""

    run: str
    weighted: Number
    macro: Number
    steps: Count
    best: Count | None = None
    admissions: dict[str, Count]
    bleu: Number | None = None
    chrf: Number | None = None
    same_as: Point | None = None
    """The leaf that this one is identical with."""


class Steps(Part):
    """The number of steps trained, the number for independent runs, and the smallest possible number."""

    trained: Count
    independent: Count
    fewest: Count


class Rival(Part):
    """A run of another method, shown as a horizontal line in the figure."""

    name: str
    weighted: Number | None = None
    bleu: Number | None = None


class Sweep(JsonFile):
    """The content of sweep.json."""

    advice: ClassVar[str] = "run `cclm sweep` again: it rewrites the file from the runs"
    recipe: str
    thresholds: list[Number]
    aggregates: list[str]
    leaves: list[Leaf]
    chosen: Point
    steps: Steps
    rival: Rival | None = None
