"""One translation model, many languages, unequal data: a curriculum driven by measured competence."""

from cclm.curriculum import (
    AllAtOnce,
    ChiSquare,
    CompetenceGate,
    Curriculum,
    FixedWeights,
    InverseCompetence,
    LanguageGraph,
    RewardActor,
    StepGate,
    Temperature,
    UniMax,
)

__version__ = "0.1.0"

__all__ = [
    "AllAtOnce",
    "ChiSquare",
    "CompetenceGate",
    "Curriculum",
    "FixedWeights",
    "InverseCompetence",
    "LanguageGraph",
    "RewardActor",
    "StepGate",
    "Temperature",
    "UniMax",
]
