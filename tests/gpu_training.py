"""`python gpu_training.py FOLDER` trains on the pretended GPU in many ways and prints what came of it, as JSON.

One process for all of it: torch must be loaded after the pretended GPU, and takes seconds to load. As a rank of two, by
RANK and WORLD_SIZE in the environment, it trains once; the first rank prints.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pretended_gpu import counts, gpu

import numpy as np  # isort: skip
import torch  # isort: skip
from poisoned_training import poison
from small_recipe import BENCHMARK, GRAPH, events, prepared, recipe
from torch.utils.hooks import RemovableHandle

from cclm.data.batches import Batch
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import PAD
from cclm.errors import TrainingError
from cclm.model import Shape, Transformer
from cclm.model.transformer import Encoder
from cclm.recipe.schema import TrainingSection
from cclm.training import device as devices
from cclm.training import device_check
from cclm.training.device import device_of
from cclm.training.device_check import check_device
from cclm.training.ranks import ALONE, Ranks, joined
from cclm.training.rewards import cosine
from cclm.training.session import Options, train

QUIET = ("curriculum.every=100", "training.validate_every=100", "model.dropout=0", "training.accumulate=2")
"""Nothing is due before the last step."""


class Runs:
    """Small trainings in a folder."""

    def __init__(self, folder: Path, data: Prepared) -> None:
        self.folder, self.data = folder, data

    def train(self, name: str, *changes: str, device: str = "cuda", ranks: Ranks = ALONE) -> Path:
        settings = recipe(self.folder, f"training.device={device}", f"name={name}", *changes)
        train(settings, self.data, GRAPH, BENCHMARK, self.folder / name, Options(ranks=ranks))
        return self.folder / name

    def waits(self, name: str, *changes: str, ranks: Ranks = ALONE) -> dict[str, dict[str, float]]:
        """Waits, copies and kernels per step: three more steps of a training in which nothing else is due."""
        found = []
        for steps in (2, 5):
            counts.clear()
            self.train(f"{name}-{steps}", *QUIET, f"training.max_steps={steps}", *changes, ranks=ranks)
            found.append({kind: dict(counter) for kind, counter in vars(counts).items()})
        fewer, more = found
        return {
            kind: {place: (n - fewer[kind].get(place, 0)) / 3 for place, n in more[kind].items()
                   if n != fewer[kind].get(place, 0)}
            for kind in more
        }  # fmt: skip


def result(run: Path) -> dict[str, Any]:
    """Validation losses, skipped steps, and a digest of everything that a checkpoint has."""
    latest = run / "checkpoints" / (run / "checkpoints/latest").read_text().strip()
    names = ("model.safetensors", "optimizer.safetensors", "progress.json")
    return {
        "losses": [event["weighted"] for event in events(run, "validation")],
        "progress": json.loads((latest / "progress.json").read_text()),
        "digests": [hashlib.sha256((latest / name).read_bytes()).hexdigest() for name in names],
    }


def waiting_encoder() -> RemovableHandle:
    """From now on every pass of an encoder reads one number of its output."""

    def hook(module: torch.nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, Encoder):
            output.flatten()[0].item()

    return torch.nn.modules.module.register_module_forward_hook(hook)


def refused(action: Callable[[], object]) -> str:
    try:
        action()
    except TrainingError as error:
        return str(error)
    return ""


def flags() -> dict[str, object]:
    return {
        "tf32": torch.backends.cuda.matmul.fp32_precision,
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
    }


def flags_in_use() -> dict[str, dict[str, object]]:
    """How torch is set before, during and after trainings with different settings."""
    found = {"before": flags()}
    with device_of("cuda", "fp32").in_use():
        found["default"] = flags()
    with device_of("cuda", "fp32", tf32=False, deterministic=True).in_use():
        found["exact"] = flags()
    found["after"] = flags()
    return found


def random_batch(sentences: int, source_symbols: int, target_symbols: int) -> Batch:
    """Sentences of 6 to 9 random symbols."""
    random = np.random.default_rng(1)
    is_real = np.arange(9) < random.integers(6, 10, sentences)[:, None]
    is_real[0] = True
    source, target, output = (
        np.where(is_real, random.integers(5, symbols, is_real.shape), PAD)
        for symbols in (source_symbols, target_symbols, target_symbols)
    )
    return Batch(source, target, output, np.arange(sentences))


def computed_in_chunks() -> dict[str, list[float]]:
    """The loss and the norm of its gradient, with all logits at once and with few of them at once."""
    found: dict[str, list[float]] = {}
    for name, most in (("at once", devices.MOST_LOGITS), ("in chunks", 2000)):
        devices.MOST_LOGITS = most
        device = device_of("cuda", "bf16")
        model = Transformer(Shape(50, 90, 1, 2, 16, 32, 0.0, 0.0, 0.0), 1).to(device.torch)
        counts.clear()
        loss = device.losses(model, random_batch(60, 50, 90), 0.1)
        (loss.smoothed / 60).backward()  # type: ignore[no-untyped-call]
        waits = counts.waits.total()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        found[name] = [loss.smoothed.item(), loss.nll.item(), norm.item(), waits]
    devices.MOST_LOGITS = 1 << 27
    return found


def doctor() -> list[dict[str, Any]]:
    """What `cclm doctor --device cuda` finds: as it is, and with a model that waits for the GPU."""
    device_check.SECONDS = 0.0
    settings = TrainingSection(batch_tokens=200, accumulate=2, precision="bf16", tf32=False)
    shape = Shape(50, 90, 1, 2, 16, 32, 0.0, 0.0, 0.0)
    well = asdict(check_device("cuda", settings, shape))
    handle = waiting_encoder()
    ill = asdict(check_device("cuda", settings, shape))
    handle.remove()
    return [well, ill]


def rewards() -> dict[str, float]:
    """A cosine of two gradients of many tensors, on both devices, and what it cost on the GPU."""
    generator = torch.Generator().manual_seed(1)
    first, second = ([torch.randn(7, 5, generator=generator) for _ in range(258)] for _ in range(2))
    expected = cosine(first, second, device_of("cpu", "fp32"))
    device = device_of("cuda", "fp32")
    on_gpu = [[tensor.to(device.torch) for tensor in gradient] for gradient in (first, second)]
    counts.clear()
    found = cosine(*on_gpu, device)
    return {"cpu": expected, "gpu": found, "waits": counts.waits.total(), "kernels": counts.kernels.total()}


def main(folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    runs = Runs(folder, prepared(folder))
    plain = ("model.dropout=0", "training.validate_every=10")
    nan = (*plain, "training.clip=1.0", "training.max_steps=10")
    found: dict[str, Any] = {"cpu": result(runs.train("cpu", *plain, device="cpu"))}
    found["cpu twice"] = result(runs.train("cpu-twice", *plain, "training.accumulate=2", device="cpu"))
    handle = poison(4)
    found["cpu nan"] = result(runs.train("cpu-nan", *nan, device="cpu"))
    handle.remove()
    with gpu():
        found["gpu"] = result(runs.train("gpu", *plain, "training.tf32=false"))
        runs.train("resumed", *plain, "training.max_steps=7", "training.tf32=false")
        found["resumed"] = result(runs.train("resumed", *plain, "training.tf32=false"))
        handle = poison(4)
        found["gpu nan"] = result(runs.train("gpu-nan", *nan))
        handle.remove()
        found["never"] = refused(lambda: runs.train("never", *QUIET, "training.learning_rate=1e30", "training.warmup=0",
                                                    "training.max_steps=60"))  # fmt: skip
        for precision in ("fp32", "bf16", "fp16"):
            found[f"waits {precision}"] = runs.waits(precision, f"training.precision={precision}")
        found["waits ema"] = runs.waits("ema", "training.average={ema: 0.9}")
        handle = waiting_encoder()
        found["waits added"] = runs.waits("added")
        handle.remove()
        found["flags"], found["chunks"], found["rewards"] = flags_in_use(), computed_in_chunks(), rewards()
        found["doctor"] = doctor()
        os.environ["LOCAL_RANK"] = "3"
        found["device of local rank 3"] = str(device_of("cuda").torch)
    return found


def as_rank(folder: Path) -> dict[str, Any]:
    """What `main` finds of one training on two GPUs; the data is there already."""
    torch.set_num_threads(1)
    with gpu(), joined(device_of("cuda").torch) as ranks:
        runs = Runs(folder, Prepared.open(recipe(folder).prepared))
        counts.clear()
        run = runs.train("ranks", "model.dropout=0", "training.validate_every=10", "training.tf32=false", ranks=ranks)
        found = {"overlaps": ranks.overlaps, "waits": runs.waits("ranks", "training.accumulate=1", ranks=ranks)}
        return found | (result(run) if ranks.first else {})


if __name__ == "__main__":
    answer = as_rank(Path(sys.argv[1])) if "WORLD_SIZE" in os.environ else main(Path(sys.argv[1]))
    print(json.dumps(answer))
