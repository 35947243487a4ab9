"""Recipes and studies: the YAML files that a user writes, loaded and validated.

recipe = load_recipe("phrasebook", ["training.max_steps=500"])
"""

from cclm.recipe.loading import load_recipe
from cclm.recipe.schema import Recipe

__all__ = ["Recipe", "load_recipe"]
