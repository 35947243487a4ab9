"""Run directories with translations and without a model: all that scores and comparisons look at."""

import json
from pathlib import Path

import numpy as np
from corpora import write_tsv
from small_recipe import prepared, recipe

from cclm.evaluation.evaluate import Evaluation

LANGUAGES = ("tur", "por", "aze", "glg")
WORDS = ["the", "old", "house", "by", "sea", "was", "sold", "to", "a", "man", "from", "village", "yesterday"]


def references(lang: str, count: int = 30) -> list[str]:
    """Sentences that are the same whenever they are asked for."""
    rng = np.random.default_rng(list(lang.encode()))
    return [" ".join(rng.choice(WORDS, size=rng.integers(6, 12))) + "." for _ in range(count)]


def scored_run(folder: Path, name: str, seed: int, *changes: str, lost: float, work: str = "work") -> Path:
    """A run whose translations lack this share of the words of the references, another choice with every seed."""
    if not (folder / "text").exists():
        write_tsv(folder / "text", test=30)
    if not (folder / work / "prepared").exists():
        prepared(folder)
    settings = recipe(folder, f"name={name}", f"seed={seed}", f"work={folder / work}", *changes)
    run = Path(settings.work) / "runs" / name
    checkpoint = run / "checkpoints" / "step-00000010"
    checkpoint.mkdir(parents=True)
    (run / "translations").mkdir()
    (run / "config.yaml").write_text(settings.model_dump_json())
    manifest = {"files": {"model.safetensors": {"sha256": f"{name} {seed}"}}}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    (run / "checkpoints" / "best").write_text(f"{checkpoint.name}\n")
    rng = np.random.default_rng([seed, int(1000 * lost)])
    for lang in LANGUAGES:
        lines = references(lang)
        kept = [" ".join(word for word in line.split() if rng.random() >= lost) for line in lines]
        for kind, texts in (("", kept), (".reference", lines), (".source", lines)):
            path = run / "translations" / f"test.{lang}-eng{kind}.txt"
            path.write_text("".join(f"{text}\n" for text in texts))
    Evaluation(run).made_from().write(run / "translations" / "test.json")
    return run
