"""What probes cost, by the number of languages: the paper's probe and the bounded one.

    python benchmarks/probe_cost.py                           # about 10 minutes, 100 MB of disk
    python benchmarks/probe_cost.py --languages 8 200

The real trainer with the small model of benchmarks/growth.py (1+1 layers, width 64, one thread), random ids. Times are
processor seconds of this process, of steps and of rounds (probe, curriculum, log) separately, so that other processes
hardly matter: tokens/s without probes are tokens by the time of steps, with probes by the time of both. Rounds have 100
steps, or fewer with `--every`; the paper's probe takes 256 sentences per language in 100 steps. The first round of the
bounded probe measures whole dev sets, as a validation does, and is left out; so is the logging of admissions.
"""

import argparse
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "speed")]

from growth import PAIRS, write  # noqa: E402
from machine import machine  # noqa: E402
from run_ours import LEAST_LOSS, graph_of, recipe_of  # noqa: E402
from workload import SIZES  # noqa: E402

from cclm.data.prepared import Prepared  # noqa: E402
from cclm.recipe.schema import Recipe  # noqa: E402
from cclm.training import session  # noqa: E402
from cclm.training.dev_probe import DevProbe  # noqa: E402
from cclm.training.trainer import Trainer  # noqa: E402

PROBES = ("paper", "bounded")


@dataclass
class Spent:
    """Processor seconds by method of the trainer, and the target tokens that were trained on."""

    seconds: dict[str, float] = field(default_factory=lambda: {"_train_step": 0.0, "_probe": 0.0, "_admit": 0.0})
    tokens: int = 0


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", type=int, nargs="+", default=[8, 50, 200, 1000])
    parser.add_argument("--work", type=Path, default=Path("work/probe-cost"), help="folder for data and runs")
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=PROBES)
    parser.add_argument("--every", type=int, default=100, help="steps per round")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine(1))
    print("\n| languages | probe | tokens/s without probes | with probes | share of probes |\n|---|---|---|---|---|")
    for languages in options.languages:
        folder = options.work / str(languages)
        shutil.rmtree(folder, ignore_errors=True)
        write(folder / "prepared", corpus=PAIRS, languages=languages)
        for probe in options.probes:
            spent = measure(folder, probe, options.every, options.rounds)
            print(f"| {languages:,} | {probe} | {row(spent)} |", flush=True)
        shutil.rmtree(folder)


def measure(folder: Path, probe: str, every: int, rounds: int) -> Spent:
    """Trains for some rounds."""
    prepared, size, spent = Prepared.open(folder / "prepared"), SIZES["GROWTH"], Spent()
    recipe = recipe_of(size, "fp32", folder / probe, languages=prepared.languages, budget=size.step_tokens, every=every)
    sample = {"dev_sample": 256 * every // 100} if probe == "paper" else {"dev_sample": None}
    training = recipe.training.model_copy(update={"max_steps": every * rounds})
    recipe = recipe.model_copy(update={"curriculum": recipe.curriculum.model_copy(update=sample), "training": training})
    originals = {name: getattr(Trainer, name) for name in (*spent.seconds, "_validate", "save")}
    for name in spent.seconds:
        setattr(Trainer, name, _timed(spent, name, originals[name]))
    Trainer._validate = Trainer.save = _no_more  # type: ignore[assignment,method-assign]
    begin, DevProbe.__init__ = DevProbe.__init__, _remembering(DevProbe.__init__)  # type: ignore[method-assign]
    try:
        _train(recipe, prepared)
    finally:
        DevProbe.__init__ = begin  # type: ignore[method-assign]
        for name, original in originals.items():
            setattr(Trainer, name, original)
    return spent


def _train(recipe: Recipe, prepared: Prepared) -> None:
    losses = dict.fromkeys(recipe.data.languages, LEAST_LOSS)
    session.train(recipe, prepared, graph_of(recipe), losses, Path(recipe.work) / "run")


def _timed(spent: Spent, name: str, original: Any) -> Any:
    def timed(self: Trainer, *arguments: Any) -> None:
        begun = time.process_time()
        if name == "_probe":
            spent.tokens += sum(self.progress.train_tokens.values())
        original(self, *arguments)
        spent.seconds[name] += time.process_time() - begun

    return timed


def _no_more(self: Trainer, *arguments: Any, **named: Any) -> None:
    """In place of the validation and the save at the end: not what is measured."""
    self.progress.finished = "measured"


def _remembering(original: Any) -> Any:
    """A probe that has had its first round."""

    def begin(self: DevProbe, dev: Any, how: Any, bounded: Any, **named: Any) -> None:
        original(self, dev, how, bounded, **named)
        known = {name: 12.0 * batches.target_tokens.astype(np.float64) for name, batches in dev.items()}
        self.memory = bounded.refresh(self.memory, known)

    return begin


def row(spent: Spent) -> str:
    """Cells of the table."""
    steps, probes = spent.seconds["_train_step"], spent.seconds["_probe"] - spent.seconds["_admit"]
    rates = f"{spent.tokens / steps:,.0f} | {spent.tokens / (steps + probes):,.0f}"
    return f"{rates} | {probes / (steps + probes):.1%}"


if __name__ == "__main__":
    main()
