"""sweep.json: what every leaf of a sweep over thresholds came to, the choice, and the steps that sharing saved."""

from typing import ClassVar

from cclm.formats.base import JsonFile, Part
from cclm.formats.study import Count, Number


class Point(Part):
    """A point of the grid."""

    threshold: Number
    aggregate: str


class Leaf(Point):
    """A run of the grid. Losses are of the selected checkpoint, scores of the test sets."""

    run: str
    weighted: Number
    macro: Number
    steps: Count
    best: Count | None = None
    admissions: dict[str, Count]
    bleu: Number | None = None
    chrf: Number | None = None
    same_as: Point | None = None
    """The leaf whose decisions it shared to the end."""


class Steps(Part):
    """Steps that were trained, that independent runs would take, and the fewest possible."""

    trained: Count
    independent: Count
    fewest: Count


class Rival(Part):
    """A run of another method, drawn across the figure."""

    name: str
    weighted: Number | None = None
    bleu: Number | None = None


class Sweep(JsonFile):
    """The content of sweep.json."""

    advice: ClassVar[str] = "run `cclm sweep` again: it writes the file again from the runs"
    recipe: str
    thresholds: list[Number]
    aggregates: list[str]
    leaves: list[Leaf]
    chosen: Point
    steps: Steps
    rival: Rival | None = None
