"""The curriculum on assumed learning curves, without a model: what a threshold would do, before a GPU is spent."""

from cclm.simulate.run import Outcome, compare_thresholds, simulate
from cclm.simulate.scenario import BUILT_IN, Scenario, load_scenario

__all__ = ["BUILT_IN", "Outcome", "Scenario", "compare_thresholds", "load_scenario", "simulate"]
