"""Many trainings as one thing: the bitext models behind L*, and a recipe from text to report."""
