"""The quality of translations: scores, comparisons, statistics."""
