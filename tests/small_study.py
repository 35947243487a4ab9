"""A study of two arms and two seeds on a recipe so small that each training takes seconds."""

from pathlib import Path

from corpora import write_tsv

RECIPE = """version: 1
name: small
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur], low_resource: [aze]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.1}}
curriculum: {{gate: {{threshold: 0.3}}, every: 5, dev_sample: 8}}
benchmark: {{max_steps: 20}}
training: {{batch_tokens: 200, accumulate: 1, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 10,
            device: cpu, precision: fp32}}
translation: {{beam: 1}}
"""
STUDY = """version: 1
name: mini
recipe: {folder}/recipe.yaml
seeds: [1, 2]
primary: [[ccl-m, uniform]]
arms:
  uniform: {{curriculum.gate: {{name: all}}, curriculum.sampler: {{name: temperature, tau: .inf}}}}
  ccl-m: {{}}
"""


def write_study(folder: Path, more: str = "") -> Path:
    """The text, the recipe and the study in a folder; `more` are lines that come after."""
    if not (folder / "text").exists():
        write_tsv(folder / "text", train=150)
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder))
    path = folder / "mini.yaml"
    path.write_text(STUDY.format(folder=folder) + more)
    return path
