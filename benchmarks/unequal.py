"""What each change to the training gains on unequal text at equal time: BLEU and chrF of all languages, HRLs and LRLs.

    python benchmarks/unequal.py work/unequal-small                      # a small corpus from the phrasebook
    python benchmarks/unequal.py work/unequal-natural --text FOLDER      # {lang}.{train,dev,test}.tsv, English first
    python benchmarks/unequal.py work/unequal-small --table              # what there is so far

Every arm is the first one, `base`, with one change; `all` has all of them. Steps are chosen so that every arm takes the
same time: an arm and `base` take turns in one process, and the ratio of their processor times per step decides. (Arms
that differ in the learning rate alone take the same time by construction.) One training after the other, each in a
process with one thread (`--jobs 2`: two at once). What is done is kept in the folder; the same command continues, and a
training that was killed resumes.

R-Drop, dropout by passes and Muon are no settings of a recipe: they are implemented here.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from torch import Tensor, nn

from cclm.data.batches import Batch
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.pipeline import Pipeline
from cclm.experiments.train_job import run_folder
from cclm.formats.checkpoint import Progress
from cclm.model import random as model_random
from cclm.phrasebook import Phrasebook, generate, write
from cclm.recipe.loading import load_recipe
from cclm.recipe.schema import Recipe
from cclm.rng import key
from cclm.text_table import text_table
from cclm.training import session
from cclm.training.adam import Adam
from cclm.training.device import device_of
from cclm.training.session import Options
from cclm.training.trainer import Trainer

HRLS, LRLS = ("tur", "rus", "por", "ces"), ("aze", "bel", "glg", "slk")
SMALL = {
    "tur": (1820, 400), "rus": (2080, 400), "por": (1850, 400), "ces": (1030, 300),
    "aze": (59, 60), "bel": (45, 60), "glg": (100, 60), "slk": (615, 200),
}  # fmt: skip
"""Training and dev pairs of the small corpus: a hundredth of the paper's sizes."""
SHARED = (
    "training.accumulate=1", "training.patience=1000", "training.stop_on=macro", "training.select_on=macro",
    "training.precision=fp32", "training.device=cpu", "curriculum.every=1000", "curriculum.dev_sample=32",
    "curriculum.gate={name: all}", "curriculum.sampler={name: temperature, tau: 2}",
)  # fmt: skip
OF_SMALL = (
    "vocabulary.pieces=600", "model={layers: 2, heads: 4, width: 128, feed_forward: 256, dropout: 0.2}",
    "training.batch_tokens=512", "training.learning_rate=2e-3", "training.warmup=300",
)  # fmt: skip
OF_TEXT = (
    "vocabulary.pieces=2000", "model={layers: 2, heads: 4, width: 128, feed_forward: 256, dropout: 0.1}",
    "training.batch_tokens=1024", "training.learning_rate=2e-3", "training.warmup=400",
)  # fmt: skip
STEPS = {"small": 5000, "text": 3500}
"""Of `base`."""
WINDOWS, WINDOW = 9, 8
"""How often an arm and `base` take turns, and the steps of a turn."""


@dataclass(frozen=True)
class Arm:
    """A change to the training: settings of the recipe, and what is no setting."""

    settings: tuple[str, ...] = ()
    r_drop: float = 0.0
    by_passes: bool = False
    muon: bool = False

    @property
    def is_schedule(self) -> bool:
        """Whether it is `base` but for the learning rate, which takes no time."""
        rest = replace(self, settings=tuple(s for s in self.settings if not s.startswith("training.schedule=")))
        return rest == Arm()


LINEAR, WSD, EMA = "training.schedule=linear", "training.schedule=wsd", "training.average.ema=0.999"
SPLIT = "training.split_pieces.source=0.1"
ARMS = {
    "base": Arm(),
    "linear": Arm((LINEAR,)),
    "cosine": Arm(("training.schedule=cosine",)),
    "wsd": Arm((WSD,)),
    "average": Arm((EMA,)),
    "split pieces": Arm((SPLIT,)),
    "R-Drop": Arm(r_drop=5.0),
    "dropout by passes": Arm(by_passes=True),
    "Muon": Arm(muon=True),
    "wsd, split pieces": Arm((WSD, SPLIT)),
    "all but R-Drop, Muon": Arm((WSD, EMA, SPLIT), by_passes=True),
    "all": Arm((WSD, EMA, SPLIT), r_drop=5.0, by_passes=True, muon=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the text, the trainings and the results")
    parser.add_argument("--text", type=Path, help="a folder with {lang}.{train,dev,test}.tsv instead of the phrasebook")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--steps", type=int, help=f"of base; by default {STEPS}")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--table", action="store_true", help="only print the results that there are")
    parser.add_argument("--one", nargs=2, metavar=("ARM", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("--ratio", metavar="ARM", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    bench = Bench(arguments.folder.resolve(), arguments.text and arguments.text.resolve(), arguments.steps)
    if arguments.one:
        bench.train(arguments.one[0], int(arguments.one[1]))
    elif arguments.ratio:
        bench.measure_ratio(arguments.ratio)
    else:
        if not arguments.table:
            run_all(bench, arguments.arms, arguments.seeds, arguments.jobs)
        print_table(bench.results())


def run_all(bench: "Bench", arms: Sequence[str], seeds: Sequence[int], jobs: int) -> None:
    """All trainings that are not done yet, seed by seed, in processes of their own."""
    bench.prepare()
    for arm in arms:
        if arm not in bench.ratios():
            child(bench, "--ratio", arm)
    due = [(arm, seed) for seed in seeds for arm in arms if not bench.result_file(arm, seed).exists()]
    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(lambda each: child(bench, "--one", each[0], str(each[1])), due):
            pass


def child(bench: "Bench", *arguments: str) -> None:
    text = ["--text", str(bench.text)] if bench.text else []
    command = [sys.executable, __file__, str(bench.folder), *text, "--steps", str(bench.steps), *arguments]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


class Bench:
    """One corpus with its results."""

    def __init__(
        self,
        folder: Path,
        text: Path | None,
        steps: int | None,
        high_resource: Sequence[str] = HRLS,
        low_resource: Sequence[str] = LRLS,
    ) -> None:
        self.folder, self.text = folder, text
        self.high_resource, self.low_resource = high_resource, low_resource
        self.steps = steps or STEPS["text" if text else "small"]

    def recipe(self, arm: str, seed: int, steps: int) -> Recipe:
        """The recipe of a training."""
        path = self.text or self.folder / "text"
        return load_recipe(
            "phrasebook",
            (
                f"name={arm.replace(',', '').replace(' ', '-')}-{seed}", f"seed={seed}", f"work={self.folder / 'work'}",
                "data.format=tsv", f"data.path={path}/{{lang}}.{{split}}.tsv", *SHARED,
                f"data.high_resource=[{', '.join(self.high_resource)}]",
                f"data.low_resource=[{', '.join(self.low_resource)}]",
                *(OF_TEXT if self.text else OF_SMALL), f"training.max_steps={steps}",
                f"training.validate_every={max(1, steps // 10)}", *ARMS[arm].settings,
            ),
        )  # fmt: skip

    def prepare(self) -> None:
        """Text and prepared data."""
        if not self.text and not (self.folder / "text").exists():
            book = Phrasebook.load()
            sizes = {lang: (train, dev, 400) for lang, (train, dev) in SMALL.items()}
            write(book, generate(book, seed=5, sizes=sizes), self.folder / "text")
        Pipeline(self.recipe("base", 1, self.steps)).walk(("prepare",))

    def ratios(self) -> dict[str, float]:
        """The time per step of each arm that was measured, relative to `base`."""
        path = self.folder / "ratios.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def measure_ratio(self, arm: str) -> None:
        """Measures the time per step of an arm, relative to `base`, and records it."""
        ratio = 1.0 if ARMS[arm].is_schedule else self._measured_ratio(arm)
        ratios = self.ratios() | {arm: ratio}
        (self.folder / "ratios.json").write_text(json.dumps(ratios, indent=1) + "\n")
        print(f"{arm}: a step takes {ratio:.2f} times as long as one of base", flush=True)

    def _measured_ratio(self, arm: str) -> float:
        """Lets an arm and `base` take turns."""
        trainers = {name: self._trainer(name) for name in ("base", arm)}
        windows: dict[str, list[float]] = {name: [] for name in trainers}
        for _ in range(WINDOWS + 1):
            for name, trainer in trainers.items():
                begun = time.process_time()
                for _ in range(WINDOW):
                    trainer.progress.step += 1
                    trainer._train_step(trainer.progress.step)
                windows[name].append(time.process_time() - begun)
        # The first turn warms up.
        return statistics.median(a / b for a, b in zip(windows[arm][1:], windows["base"][1:], strict=True))

    def _trainer(self, arm: str) -> Trainer:
        recipe = self.recipe(arm, 1, self.steps)
        pipeline = Pipeline(recipe)
        pipeline.walk(("prepare",))
        use(ARMS[arm], recipe)
        made = session._Session(
            recipe, pipeline.data, None, None, run_folder(recipe), Options(), device_of("cpu", "fp32")
        )
        return session.Trainer(made._parts(lambda: None), Progress(), None)  # type: ignore[arg-type]

    def result_file(self, arm: str, seed: int) -> Path:
        return self.folder / "results" / f"{arm}-{seed}.json"

    def results(self) -> dict[str, list[dict[str, float]]]:
        """The results of every arm that has any, by seed."""
        found = {arm: sorted((self.folder / "results").glob(f"{arm}-[0-9]*.json")) for arm in ARMS}
        return {arm: [json.loads(path.read_text()) for path in paths] for arm, paths in found.items() if paths}

    def train(self, arm: str, seed: int) -> None:
        """Trains, scores and records a result."""
        recipe = self.recipe(arm, seed, round(self.steps / self.ratios()[arm]))
        pipeline = Pipeline(recipe)
        pipeline.walk(("prepare",))
        use(ARMS[arm], recipe)
        begun = time.process_time()
        session.train(recipe, pipeline.data, None, None, run_folder(recipe), Options())
        seconds = time.process_time() - begun
        result = self._summary(recipe) | {"seconds": seconds}
        path = self.result_file(arm, seed)
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")

    def _summary(self, recipe: Recipe) -> dict[str, float]:
        """Mean scores of all languages, HRLs and LRLs on the test sets, and the best dev loss."""
        run = run_folder(recipe)
        languages = Evaluation(run, recipe=recipe).score().languages
        groups = {"all": list(languages), "hrl": self.high_resource, "lrl": self.low_resource}
        events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        dev = min(event["macro"] for event in events if event["event"] == "validation")
        scores = {
            f"{metric}_{group}": statistics.mean(languages[lang][metric] for lang in members)
            for metric in ("bleu", "chrf")
            for group, members in groups.items()
        }
        return scores | {"dev_loss": dev, "steps": recipe.training.max_steps}


def print_table(results: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Means over the seeds; after ± the standard deviation over the seeds."""
    columns = {
        "bleu_all": "BLEU all", "bleu_hrl": "HRLs", "bleu_lrl": "LRLs", "chrf_all": "chrF all", "chrf_hrl": "HRLs",
        "chrf_lrl": "LRLs", "dev_loss": "dev loss",
    }  # fmt: skip
    table = text_table(("", "seeds", "steps", "CPU s", *columns.values()))
    for arm, rows in results.items():
        means = {name: statistics.mean(row[name] for row in rows) for name in (*columns, "steps", "seconds")}
        cells = []
        for name in columns:
            digits = 2 if name == "dev_loss" else 1
            spread = f" ±{statistics.stdev(row[name] for row in rows):.{digits}f}" if len(rows) > 1 else ""
            cells.append(f"{means[name]:.{digits}f}{spread}")
        table.add_row(arm, str(len(rows)), f"{means['steps']:,.0f}", f"{means['seconds']:.0f}", *cells)
    Console(width=160).print(table)


def use(arm: Arm, recipe: Recipe) -> None:
    """Trainings of this process are like the arm."""
    rates = Rates(recipe) if arm.by_passes else None

    class ArmTrainer(Trainer):
        """Learns with R-Drop and with dropout by passes, where the arm has them."""

        def _learn(self, number: int, batch: Batch, tokens: int) -> Tensor:
            if rates:
                rates.set(self, batch, number)
            if arm.r_drop:
                return learn_twice(self, number, batch, tokens, arm.r_drop)
            return super()._learn(number, batch, tokens)

        def _draw(self) -> tuple[int, str, int]:
            drawn = super()._draw()
            if rates:
                rates.languages[drawn[0]] = drawn[1]
            return drawn

    session.Trainer = ArmTrainer  # type: ignore[misc]
    session.Adam = Muon if arm.muon else Adam  # type: ignore[misc]


def learn_twice(trainer: Trainer, number: int, batch: Batch, tokens: int, alpha: float) -> Tensor:
    """R-Drop (Liang et al., 2021): every sentence twice, with other dropout masks; alpha / 4 times the symmetric
    divergence of the two predictions is added to the mean of their losses."""
    torch.manual_seed(key(trainer.parts.recipe.seed, "dropout", number) >> 1)
    source, given, wanted = (torch.from_numpy(ids) for ids in (batch.source, batch.target_input, batch.target_output))
    log_NV = F.log_softmax(trainer.parts.model(source.repeat(2, 1), given.repeat(2, 1)), dim=-1)
    target_N = wanted[wanted != batch.pad].repeat(2)
    nll = F.nll_loss(log_NV, target_N, reduction="sum") / 2
    smoothing = trainer._settings.label_smoothing
    smoothed = (1 - smoothing) * nll - smoothing * log_NV.mean(dim=-1).sum() / 2
    first, second = log_NV.chunk(2)
    divergence = ((first.exp() - second.exp()) * (first - second)).sum()
    ((smoothed + alpha / 4 * divergence) / tokens).backward()
    return torch.stack([smoothed.detach(), nll.detach()])


class Rates:
    """Dropout per language: the recipe's rate, and 0.05 more for each doubling of its passes over those of the whole
    text, between 0.05 and 0.4, in steps of 0.05."""

    def __init__(self, recipe: Recipe) -> None:
        self.base = recipe.model.dropout
        self.languages: dict[int, str] = {}
        self.by_language: dict[str, float] = {}
        # A pool of random numbers per rate.
        model_random._pool = lru_cache(maxsize=16)(model_random._pool.__wrapped__)

    def set(self, trainer: Trainer, batch: Batch, number: int) -> None:
        """Gives the model the rate of the language of a micro-batch."""
        rate = self._rate(trainer, self.languages.pop(number))
        for module in trainer.parts.model.modules():
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = rate
        object.__setattr__(trainer.parts.model.shape, "dropout", rate)

    def _rate(self, trainer: Trainer, lang: str) -> float:
        if lang not in self.by_language:
            batches = {name: len(each) for name, each in trainer.parts.train.items()}
            share = trainer.parts.curriculum.weights[lang]
            more = share / (batches[lang] / sum(batches.values()))
            rate = round((self.base + 0.05 * math.log2(more)) / 0.05) * 0.05
            self.by_language[lang] = round(min(0.4, max(0.05, rate)), 2)
        return self.by_language[lang]


class Muon(Adam):
    """Muon (Jordan, 2024) for the matrices of the layers, Adam for embeddings, norms and biases.

    Updates are scaled to the size of Adam's, as Liu et al. (2025) do, so that both have one learning rate.
    """

    MOMENTUM = 0.95
    COEFFICIENTS = (3.4445, -4.7750, 2.0315)

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        matrices = {name: p for name, p in self._parameters.items() if p.ndim == 2 and "embedding" not in name}
        self._groups: dict[torch.Size, dict[str, nn.Parameter]] = {}
        for name, parameter in matrices.items():
            self._groups.setdefault(parameter.shape, {})[name] = parameter
            self._state[name] = {"momentum": torch.zeros_like(parameter)}
            del self._parameters[name]
        self._matrices = matrices

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Updates every parameter that has a gradient."""
        super().step(rate)
        for shape, group in self._groups.items():
            gradients = [p.grad for p in group.values() if p.grad is not None]
            momenta = [self._state[name]["momentum"] for name in group]
            torch._foreach_lerp_(momenta, gradients, 1 - self.MOMENTUM)
            updates = torch.stack(torch._foreach_lerp(gradients, momenta, self.MOMENTUM))
            scaled = orthogonal(updates, self.COEFFICIENTS) * (-rate * 0.2 * math.sqrt(max(shape)))
            torch._foreach_add_(list(group.values()), list(scaled))

    def zero_grad(self) -> None:
        super().zero_grad()
        for parameter in self._matrices.values():
            parameter.grad = None


def orthogonal(x: Tensor, coefficients: tuple[float, float, float], iterations: int = 5) -> Tensor:
    """Matrices with the singular vectors of those given, and singular values near 1 (Newton-Schulz iteration)."""
    a, b, c = coefficients
    wide = x if x.shape[-2] <= x.shape[-1] else x.mT
    wide = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        square = wide @ wide.mT
        wide = a * wide + (b * square + c * square @ square) @ wide
    return wide if x.shape[-2] <= x.shape[-1] else wide.mT


if __name__ == "__main__":
    main()
