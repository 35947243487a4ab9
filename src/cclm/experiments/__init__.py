"""The stages of a recipe from text to report, and what trains many models: L*, sweeps, studies, the demo."""
