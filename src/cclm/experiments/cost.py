"""What trainings cost, in steps and target tokens at most, and how many parameters a model has. Nothing is trained."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.data.pretrained import find_pretrained, is_run
from cclm.data.vocabulary import SPECIALS
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.benchmark import inherited_losses, reference_folder, reference_recipe
from cclm.formats.checkpoint import Progress
from cclm.formats.run_folder import MULTILINGUAL
from cclm.recipe.model import ModelSection
from cclm.recipe.schema import Recipe, TrainingSection
from cclm.training.provenance import newest_checkpoint, progress_of
from cclm.training.run_inputs import sizes_of
from cclm.training.tasks import tasks


@dataclass(frozen=True)
class Cost:
    """An upper bound: a training may stop before its last step."""

    models: int = 0
    steps: int = 0
    target_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.models + other.models, self.steps + other.steps, self.target_tokens + other.target_tokens)

    def __mul__(self, times: int) -> "Cost":
        return Cost(self.models * times, self.steps * times, self.target_tokens * times)


NOTHING = Cost()
PER_STEP = 0.005
"""Seconds that a step takes at least, however small the model: what torch's calls cost."""
EFFICIENCY = 0.6
"""The share of the speed of large matrix products that a training reaches, on CPUs measured by benchmarks/."""


def seconds(cost: Cost, recipe: Recipe, prepared: Prepared | None) -> float:
    """About how long a cost takes on the cores of this machine, by measured matrix products; GPUs are not measured."""
    if not cost.steps:
        return 0.0
    # Forward and backward take 6 operations per parameter and token; source and target are about equally long, and
    # each passes through about half of the parameters.
    operations = 6.0 * parameters(recipe, prepared) * cost.target_tokens
    return max(operations / (_flops() * EFFICIENCY), cost.steps * PER_STEP)


@cache
def _flops() -> float:
    """Floating-point operations per second of matrix products in float32 on all cores.

    The products are so small that one thread computes them, and the fastest counts: on a busy machine, two threads that
    wait for each other would seem thirty times slower.
    """
    size, matrix = 64, np.ones((64, 64), dtype=np.float32)
    fastest, end = float("inf"), time.perf_counter() + 0.05
    while (start := time.perf_counter()) < end:
        matrix @ matrix
        fastest = min(fastest, time.perf_counter() - start)
    return available_cores() * 2 * size**3 / fastest


def benchmark_cost(recipe: Recipe, prepared: Prepared | None) -> Cost:
    """The cost of the remaining steps of the trainings that L* comes from."""
    if recipe.benchmark.source in ("file", "none"):
        return NOTHING
    settings = reference_recipe(recipe)
    steps, tokens = 0, 0.0
    means = _tokens_per_batch(recipe, prepared)
    if recipe.benchmark.source == "multilingual":
        means = {MULTILINGUAL: sum(means.values()) / len(means)}
    else:
        means = {name: mean for name, mean in means.items() if name not in inherited_losses(recipe)}
    for name, mean in means.items():
        folder = reference_folder(recipe, prepared) / name if prepared else None
        left = _steps_left(folder, settings.training)
        steps, tokens = steps + left, tokens + left * settings.training.accumulate * mean
    return Cost(len(means), steps, round(tokens))


def training_cost(recipe: Recipe, prepared: Prepared | None, folder: Path, world: int) -> Cost:
    """The cost of the remaining steps of the training itself, on `world` ranks."""
    means = _tokens_per_batch(recipe, prepared)
    steps = _steps_left(folder, recipe.training)
    tokens = steps * recipe.training.accumulate * world * sum(means.values()) / len(means)
    return Cost(1, steps, round(tokens))


def whole_training_cost(recipe: Recipe, prepared: Prepared | None, world: int = 1) -> Cost:
    """The cost of the training from its first step, even if a part of it is done."""
    return training_cost(recipe, prepared, Path(recipe.work) / "no-run-here", world)


def percent(share: float) -> str:
    """A share of a cost as text."""
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _steps_left(folder: Path | None, settings: TrainingSection) -> int:
    newest = newest_checkpoint(folder) if folder else None
    progress = progress_of(newest) if newest else Progress()
    if progress.is_over(settings.max_steps):
        return 0
    branch = progress.branch  # a longer training with `wsd` goes on from before the decay
    goes_back = branch is not None and branch.step < settings.max_steps - settings.decay_steps
    return max(0, settings.max_steps - (branch.step if branch and goes_back else progress.step))


def _tokens_per_batch(recipe: Recipe, prepared: Prepared | None) -> dict[str, float]:
    """The mean number of target tokens per batch of each task, without padding; the maximum if nothing is prepared."""
    if prepared is None:
        names = recipe.data.languages
        both = [f"{lang}-{way}" for lang in names for way in ("in", "out")]
        return dict.fromkeys(both if recipe.data.direction == "many-to-many" else names, recipe.training.batch_tokens)
    found = {}
    for task in tasks(recipe.data, prepared).values():
        corpus, budget = prepared.corpus(task.language, "train"), recipe.training.batch_tokens
        batches = Batches(corpus, task.direction, language=task.name, seed=recipe.seed, budget=budget)
        targets = corpus.lengths[:, int(task.direction.to_pivot)] + 1  # </s>
        found[task.name] = int(targets.sum()) / len(batches)
    return found


def parameters(recipe: Recipe, prepared: Prepared | None) -> int:
    """Numbers that are trained: embeddings (the target's is the output, too), and in every layer attention and
    feed-forward with their norms."""
    if recipe.model.pretrained and not is_run(recipe.model.pretrained):
        return PretrainedSizes.of(recipe).parameters
    model, (source, target) = sizes_of(recipe), symbols_of(recipe, prepared)
    encoder, decoder = _layers(model.width, model.feed_forward, model.feed_forward)
    return (source + target) * model.width + model.layers * (encoder + decoder) + 4 * model.width


def _layers(width: int, of_encoder: int, of_decoder: int) -> tuple[int, int]:
    """The parameters of a layer of the encoder and of the decoder, given the width of their feed-forward sublayers."""
    attention, norm = 4 * (width * width + width), 2 * width
    first, second = (2 * width * inner + inner + width for inner in (of_encoder, of_decoder))
    return attention + first + 2 * norm, 2 * attention + second + 3 * norm


@dataclass(frozen=True)
class PretrainedSizes:
    """The sizes of a pretrained model, by its config.json; its weights are not read."""

    config: Mapping[str, Any]
    model: ModelSection

    @classmethod
    def of(cls, recipe: Recipe) -> "PretrainedSizes":
        """The sizes of the model that a recipe starts from."""
        found = find_pretrained(str(recipe.model.pretrained), weights=False)
        if missing := [name for name in _SIZES if not isinstance(found.config.get(name), int)]:
            raise ConfigError(f"model.pretrained {found.name}: config.json has no {missing[0]}")
        return cls(found.config, recipe.model)

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, which is the output projection, too."""
        return int(self.config["vocab_size"] * self.config["d_model"])

    @property
    def encoder(self) -> int:
        """Parameters of the encoder, without the embedding."""
        return int(self.config["encoder_layers"]) * self._of_layers()[0] + self._around_layers()

    @property
    def parameters(self) -> int:
        """All numbers that could be trained."""
        decoder = int(self.config["decoder_layers"]) * self._of_layers()[1] + self._around_layers()
        return self.embedding + self.encoder + decoder

    @property
    def trained(self) -> int:
        """About how many are trained: without what is frozen, or the adapters alone."""
        if self.model.lora:
            attentions = self.config["encoder_layers"] + 2 * self.config["decoder_layers"]
            return int(attentions * 4 * 2 * self.model.lora.rank * self.config["d_model"])
        frozen = {"embeddings": self.embedding, "encoder": self.encoder, None: 0}[self.model.freeze]
        return self.parameters - frozen

    def _of_layers(self) -> tuple[int, int]:
        return _layers(self.config["d_model"], self.config["encoder_ffn_dim"], self.config["decoder_ffn_dim"])

    def _around_layers(self) -> int:
        """Norms before and after the layers, and learnt positions: Marian has neither, M2M100 has the norm after."""
        width, kind = int(self.config["d_model"]), self.config["model_type"]
        if kind == "mbart":
            return 4 * width + (int(self.config["max_position_embeddings"]) + 2) * width
        return 2 * width if kind == "m2m_100" else 0

    def memory(self, batch_tokens: int) -> int:
        """About how many bytes a training needs: weights, gradients and Adam's two averages in float32; the logits of a
        batch with their gradient; what its layers keep for the backward pass."""
        config = self.config
        width, inner = config["d_model"], max(config["encoder_ffn_dim"], config["decoder_ffn_dim"])
        layers = 12 * config["encoder_layers"] + 18 * config["decoder_layers"]
        kept = batch_tokens * (layers * width + 2 * (config["encoder_layers"] + config["decoder_layers"]) * inner)
        logits = 2 * batch_tokens * config["vocab_size"]
        return int(4 * (self.parameters + 3 * self.trained + kept + logits))


_SIZES = ("d_model", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size")


def available_memory() -> int:
    """Bytes that a process may take now: what the machine has free, or what its container is allowed."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
        free = min(free, max(0, limit - used))
    return free


def free_memory(recipe: Recipe) -> tuple[int, str]:
    """Bytes that are free where a recipe trains, and where that is: on the GPU of this process, or in this machine."""
    if recipe.training.device in ("auto", "cuda"):
        import torch  # takes a second: only where a GPU may be used

        if torch.cuda.is_available():
            return int(torch.cuda.mem_get_info()[0]), " on the GPU"
    return available_memory(), ""


def refuse_too_little_memory(recipe: Recipe) -> None:
    """Refuses to train a pretrained model that does not fit, before its weights are read."""
    if not recipe.model.pretrained or is_run(recipe.model.pretrained):
        return
    needed, (free, where) = PretrainedSizes.of(recipe).memory(recipe.training.batch_tokens), free_memory(recipe)
    if needed > free:
        raise TrainingError(
            f"model.pretrained {recipe.model.pretrained}: training needs about {needed / 1e9:.1f} GB of memory, and"
            f" {free / 1e9:.1f} GB are free{where}; set model.lora, halve training.batch_tokens (now"
            f" {recipe.training.batch_tokens}) and double training.accumulate, or take a smaller model"
        )


def symbols_of(recipe: Recipe, prepared: Prepared | None = None) -> tuple[int, int]:
    """The number of source and of target symbols; 0 source symbols if both sides share one embedding."""
    languages, pieces = len(recipe.data.languages), recipe.vocabulary.pieces
    reserved = len(SPECIALS) + languages + 1
    if recipe.vocabulary.joint:
        return 0, len(prepared.other) if prepared else reserved + pieces
    many = len(prepared.other) if prepared else reserved + languages * pieces
    one = len(prepared.pivot) if prepared else reserved + pieces
    return (many, one) if recipe.data.direction == "many-to-one" else (one, many)
