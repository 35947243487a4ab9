"""L* of bitext models beside L* of one short multilingual training: cost, admissions and scores, on a small corpus.

    python benchmarks/reference_losses.py FOLDER [--steps 5000] [--seed 1]

The phrasebook at 1/100 of the sizes of the paper's related set, many-to-one. Arms: CCL-M avg (0.9) with L* of bitext
models; the same with L* of a multilingual training of a tenth of the steps; the same with the sampler
size-and-competence. Prints, as Markdown, the target tokens that L* took, its values, the steps of the admissions, and
BLEU. Trainings run one after the other, in one thread; the same command goes on where it was interrupted.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from cclm.experiments.executor import Processes
from cclm.experiments.pipeline import Pipeline
from cclm.formats.benchmark import Benchmark
from cclm.formats.log import Log
from cclm.recipe.loading import load_recipe

SIZES = {
    "tur": (1820, 400), "rus": (2080, 400), "por": (1850, 400), "ces": (1030, 346),
    "aze": (59, 67), "bel": (45, 60), "glg": (100, 68), "slk": (615, 227),
}  # fmt: skip
"""Training and dev pairs; every test set has 400."""
RECIPE = """version: 1
name: any
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur, rus, por, ces], low_resource: [aze, bel, glg, slk]}}
vocabulary: {{pieces: 600}}
model: {{layers: 2, heads: 4, width: 128, feed_forward: 256, dropout: 0.2}}
curriculum: {{gate: {{aggregate: avg, threshold: 0.9}}, every: 100, dev_sample: 256}}
training: {{batch_tokens: 512, accumulate: 1, learning_rate: 2.0e-3, warmup: 300, validate_every: 250, patience: 99,
            stop_on: macro, select_on: macro, precision: fp32, device: cpu}}
"""
ARMS = {
    "bitext L*, inverse-competence": (),
    "multilingual L*, inverse-competence": ("benchmark.method=multilingual",),
    "multilingual L*, size-and-competence": (
        "benchmark.method=multilingual", "curriculum.sampler={name: size-and-competence}",
    ),
}  # fmt: skip


def write(folder: Path) -> Path:
    """The text and the recipe, unless they are there."""
    path = folder / "recipe.yaml"
    if not path.exists():
        sizes = [f"--size={lang}={train},{dev},400" for lang, (train, dev) in SIZES.items()]
        command = [sys.executable, "-m", "cclm", "phrasebook", "--seed", "5", "--out", str(folder / "text"), *sizes]
        subprocess.run(command, check=True)
        path.write_text(RECIPE.format(folder=folder), encoding="utf-8")
    return path


def run(path: Path, number: int, changes: tuple[str, ...], steps: int, seed: int) -> Pipeline:
    """Trains and scores an arm, as far as it is not done."""
    length = f"benchmark.max_steps={steps // 10}" if changes else "benchmark.max_steps=null"
    settings = [f"name=arm-{number}", f"seed={seed}", f"training.max_steps={steps}", length, *changes]
    pipeline = Pipeline(load_recipe(str(path), settings), executor=Processes(1))
    pipeline.walk(say=print)
    return pipeline


def show(name: str, pipeline: Pipeline) -> None:
    """The rows of an arm."""
    found, log = Benchmark.read(pipeline.folder / "benchmark.json"), Log.read(pipeline.folder / "log.jsonl")
    scores = pipeline.evaluation.scored()
    assert scores is not None
    assert found.target_tokens is not None
    print(f"\n**{name}**: L* took {found.target_tokens:,} target tokens, the training {log.tokens:,}.\n")
    print("| | " + " | ".join(SIZES) + " | all | HRLs | LRLs |")
    print("|---" * (len(SIZES) + 4) + "|")
    print("| L* | " + " | ".join(f"{found.losses[lang]:.2f}" for lang in SIZES) + " | | | |")
    admitted = {lang: str(step) for lang, step in log.admissions.items()}
    print("| admitted at step | " + " | ".join(admitted.get(lang, "0") for lang in SIZES) + " | | | |")
    bleu = [scores.languages[lang]["bleu"] for lang in SIZES]
    means = [scores.means.all, scores.means.hrl, scores.means.lrl]
    print("| BLEU | " + " | ".join(f"{value:.1f}" for value in [*bleu, *means] if value is not None) + " |")


def main() -> None:
    """Runs all arms and prints their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = write(options.folder.resolve())
    arms = {name: run(path, n, changes, options.steps, options.seed) for n, (name, changes) in enumerate(ARMS.items())}
    for name, pipeline in arms.items():
        show(name, pipeline)


if __name__ == "__main__":
    main()
