"""Simulates the curriculum on assumed learning curves, to see the effect of a threshold without training a model."""

from cclm.simulate.run import Outcome, compare_thresholds, simulate
from cclm.simulate.scenario import BUILT_IN, Scenario, load_scenario

__all__ = ["BUILT_IN", "Outcome", "Scenario", "compare_thresholds", "load_scenario", "simulate"]
