"""How good translations are: scores, comparisons, statistics."""
