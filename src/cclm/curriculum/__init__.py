"""Which language next: a gate decides which languages take part, a sampler how often each is drawn. NumPy only.

dev losses --observe--> Curriculum --gate--> admitted --sampler--> weights --draws--> language, example
"""

from cclm.curriculum.actor import RewardActor
from cclm.curriculum.competence import (
    hrls_evaluated_avg,
    hrls_evaluated_max,
    likelihood_score,
    self_evaluated,
)
from cclm.curriculum.curriculum import Curriculum
from cclm.curriculum.draws import BatchSampler, Distribution, IndexSampler, draw_example, draw_language
from cclm.curriculum.gates import AllAtOnce, CompetenceGate, StepGate
from cclm.curriculum.graph import LanguageGraph
from cclm.curriculum.samplers import (
    ChiSquare,
    FixedWeights,
    InverseCompetence,
    SizeAndCompetence,
    Temperature,
    UniMax,
)
from cclm.curriculum.situation import Gate, Sampler, Situation

__all__ = [
    "AllAtOnce",
    "BatchSampler",
    "ChiSquare",
    "CompetenceGate",
    "Curriculum",
    "Distribution",
    "FixedWeights",
    "Gate",
    "IndexSampler",
    "InverseCompetence",
    "LanguageGraph",
    "RewardActor",
    "Sampler",
    "Situation",
    "SizeAndCompetence",
    "StepGate",
    "Temperature",
    "UniMax",
    "draw_example",
    "draw_language",
    "hrls_evaluated_avg",
    "hrls_evaluated_max",
    "likelihood_score",
    "self_evaluated",
]
