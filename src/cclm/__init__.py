"""One translation model, many languages, unequal data: a curriculum driven by measured competence."""

from os import PathLike
from typing import TYPE_CHECKING, Literal

from cclm.curriculum import (
    AllAtOnce,
    BatchSampler,
    ChiSquare,
    CompetenceGate,
    Curriculum,
    FixedWeights,
    IndexSampler,
    InverseCompetence,
    LanguageGraph,
    RewardActor,
    StepGate,
    Temperature,
    UniMax,
)

if TYPE_CHECKING:
    from cclm.translation.model import Model

__version__ = "0.1.0"

__all__ = [
    "AllAtOnce",
    "BatchSampler",
    "ChiSquare",
    "CompetenceGate",
    "Curriculum",
    "FixedWeights",
    "IndexSampler",
    "InverseCompetence",
    "LanguageGraph",
    "RewardActor",
    "StepGate",
    "Temperature",
    "UniMax",
    "load",
]


def load(
    run: "str | PathLike[str]", *, quantization: Literal["float32", "int8"] = "float32", threads: int | None = None
) -> "Model":
    """A trained run, to translate with; all that is heavy is imported here.

    cclm.load("runs/x").translate(["..."], source="aze", target="eng")
    """
    from cclm.translation.model import load as load_run

    return load_run(run, quantization=quantization, threads=threads)
