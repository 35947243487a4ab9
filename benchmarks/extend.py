"""What `cclm extend` gains and loses, on the phrasebook: each of two languages is held out and added later.

    python benchmarks/extend.py --out FOLDER [--seeds 1 2 3] [--steps 600] [--more 300]

Four languages (tur, por; aze, glg). Per held-out language and seed: training all four from the start; a run without
that language; `cclm extend` of that run; and naive fine-tuning of it on the new language alone. Every run has the same
L*, measured once, so that only the trainings differ. Prints BLEU and dev loss of the new language, their means over the
others, and what the added steps cost, in target tokens, relative to training all from the start. Results are kept in
FOLDER; the same command continues.
"""

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cclm.atomic import atomic_text
from cclm.experiments.benchmark import benchmark
from cclm.experiments.extend import extended_recipe
from cclm.experiments.pipeline import Pipeline
from cclm.formats.benchmark import Benchmark
from cclm.formats.log import Log
from cclm.formats.run_folder import tokens_of
from cclm.recipe.loading import load_recipe
from cclm.recipe.schema import Recipe

HELD_OUT = ("aze", "glg")
ARMS = ("from the start", "before", "extended", "naive")
NEVER = 1e-12
"""A share above zero, as every share must be, that is never drawn."""
Rows = dict[str, dict[str, float]]


def settings(folder: Path, steps: int, *more: str) -> list[str]:
    """A small model, greedy search, and the languages of this comparison."""
    return [
        f"work={folder / 'work'}", "data.high_resource=[tur, por]", "model.width=96", "model.feed_forward=192",
        f"training.max_steps={steps}", f"training.validate_every={steps // 3}", "training.warmup=100",
        "translation.beam=1", "training.patience=99", "benchmark.max_steps=300", *more,
    ]  # fmt: skip


def losses(folder: Path) -> Path:
    """L* of all four languages, measured once, with the bitext models of one seed."""
    path = folder / "losses.json"
    if not path.exists():
        recipe = load_recipe("phrasebook", settings(folder, 300, "data.low_resource=[aze, glg]", "name=losses"))
        pipeline = Pipeline(recipe)
        pipeline.walk(("prepare",))
        Benchmark(losses=benchmark(recipe, pipeline.data)).write(path)
    return path


@dataclass(frozen=True)
class Result:
    """Of a finished run, per language: BLEU, and dev loss in bits per token at the best validation."""

    bleu: dict[str, float]
    loss: dict[str, float]
    tokens: int


def scored(recipe: Recipe) -> Result:
    """The result of a recipe; what is missing is run first."""
    pipeline = Pipeline(recipe)
    pipeline.walk(("prepare", "graph", "benchmark", "train", "translate", "score"), say=print)
    scores = pipeline.evaluation.scored()
    assert scores is not None
    log = Log.read(pipeline.folder / "log.jsonl")
    assert log.best is not None
    bleu = {name: row["bleu"] for name, row in scores.languages.items()}
    return Result(bleu, dict(log.best.dev_loss), tokens_of(pipeline.folder))


def compared(folder: Path, new: str, seed: int, steps: int, more: int) -> Rows:
    """All arms of one held-out language and seed."""
    table, others = f"benchmark.file={losses(folder)}", [lang for lang in ("tur", "por", *HELD_OUT) if lang != new]
    all_low, old_low = "data.low_resource=[aze, glg]", f"data.low_resource=[{next(x for x in HELD_OUT if x != new)}]"
    whole = load_recipe("phrasebook", settings(folder, steps, all_low, table, f"seed={seed}", f"name=all-{seed}"))
    base = load_recipe(
        "phrasebook", settings(folder, steps, old_low, table, f"seed={seed}", f"name=without-{new}-{seed}")
    )
    results = {"from the start": scored(whole), "before": scored(base)}
    run = Pipeline(base).folder
    shorter = {"training": {"max_steps": more, "validate_every": more // 3}, "data": {"low_resource": [new]}}
    extended = extended_recipe(run, {**shorter, "name": f"extended-{new}-{seed}"}, [], "extended")
    results["extended"] = scored(extended)
    alone = {
        "gate": {"name": "all"},
        "sampler": {"name": "fixed", "weights": {**dict.fromkeys(others, NEVER), new: 1.0}},
    }
    naive = extended_recipe(run, {**shorter, "curriculum": alone, "name": f"naive-{new}-{seed}"}, [], "naive")
    results["naive"] = scored(naive)
    return {
        arm: {
            "new": found.bleu.get(new, float("nan")),
            "others": statistics.mean(found.bleu[lang] for lang in others),
            "new loss": found.loss.get(new, float("nan")),
            "others loss": statistics.mean(found.loss[lang] for lang in others),
            "cost": found.tokens / results["from the start"].tokens,
        }
        for arm, found in results.items()
    }


def table(found: dict[str, Rows]) -> str:
    """Markdown: mean and range over seeds per held-out language and arm."""
    lines = [
        "| added | arm | seeds | BLEU of the added one | mean BLEU of the others | dev loss of the added one |"
        " mean dev loss of the others | target tokens |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for new in HELD_OUT:
        for arm in ARMS:
            rows = [rows[arm] for name, rows in found.items() if name.startswith(f"{new}-")]
            if rows:
                cells = [_range([row[key] for row in rows], 1) for key in ("new", "others")]
                cells += [_range([row[key] for row in rows], 2) for key in ("new loss", "others loss")]
                cost = statistics.mean(row["cost"] for row in rows)
                lines.append(f"| {new} | {arm} | {len(rows)} | {' | '.join(cells)} | {cost:.0%} |")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float], digits: int) -> str:
    if any(value != value for value in values):
        return "-"
    mean, low, high = (f"{value:.{digits}f}" for value in (statistics.mean(values), min(values), max(values)))
    return f"{mean} ({low} to {high})"


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--more", type=int, default=300)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "results.json"
    found: dict[str, Rows] = json.loads(path.read_text()) if path.exists() else {}
    for seed in options.seeds:
        for new in HELD_OUT:
            if f"{new}-{seed}" not in found:
                found[f"{new}-{seed}"] = compared(options.out, new, seed, options.steps, options.more)
                atomic_text(path, json.dumps(found, indent=1) + "\n")
                print(table(found), flush=True)
    print(table(found))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
