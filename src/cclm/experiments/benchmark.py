"""L*: one bitext model a task, with the vocabularies and tags of all, trained until it gets no better.

Several at once, each in a process of its own with one thread. What is done stays done: a benchmark that was killed goes
on where it was, and benchmark.json is made again only when something that made it has changed.
"""

import hashlib
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cclm.config import ConfigError
from cclm.data.prepared import Prepared
from cclm.data.workers import available_cores
from cclm.recipe import Recipe
from cclm.training.errors import TrainingError
from cclm.training.tasks import tasks

VERSION = 1


def bitext_recipe(recipe: Recipe) -> Recipe:
    """The recipe of a bitext model: the same in everything but the curriculum, of which it needs none."""
    training = recipe.training.model_copy(
        update={
            "max_steps": recipe.benchmark.max_steps or recipe.training.max_steps,
            "stop_on": "macro",
            "select_on": "macro",
            "bleu": False,  # L* is a loss
        }
    )
    content = recipe.model_dump(mode="json")
    content["curriculum"] |= {"gate": {"name": "all"}, "sampler": {"name": "temperature", "tau": 1.0}}
    content["curriculum"]["every"] = training.validate_every
    content["training"] = training.model_dump(mode="json")
    return Recipe.model_validate(content)


def fingerprint(recipe: Recipe, prepared: Prepared) -> str:
    """Identifies everything that makes L*: data, vocabularies, direction, model, training."""
    bitext = bitext_recipe(recipe).model_dump(mode="json", include={"seed", "model", "training"})
    made_from = [prepared.fingerprint, recipe.data.direction, bitext]
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def folder_of(recipe: Recipe, task: str) -> Path:
    """The run directory of a task's bitext model."""
    return Path(recipe.work) / "runs" / "bitext" / task


def benchmark(
    recipe: Recipe, prepared: Prepared, *, at_once: int | None = None, say: Callable[[str], object] = print
) -> dict[str, float]:
    """L* of every task: from the user's table, from an earlier benchmark, or trained now."""
    if recipe.benchmark.file:
        return _given(Path(recipe.benchmark.file), recipe, prepared, say)
    path = Path(recipe.work) / "benchmark.json"
    mark = fingerprint(recipe, prepared)
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("version") == VERSION and content.get("fingerprint") == mark:
            return dict(content["losses"])
    names = list(tasks(recipe.data, prepared))
    _train_all(recipe, names, at_once or available_cores(), say)
    losses = {name: best_loss(folder_of(recipe, name), name) for name in names}
    content = {"version": VERSION, "losses": losses, "fingerprint": mark}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return losses


def best_loss(folder: Path, task: str) -> float:
    """The dev loss of a finished run at its selected checkpoint."""
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    best = next(event["best"] for event in reversed(events) if event["event"] == "stopped")
    chosen = next(event for event in events if event["event"] == "validation" and event["step"] == best)
    loss: float = chosen["dev_loss"][task]
    return loss


def _train_all(recipe: Recipe, names: list[str], at_once: int, say: Callable[[str], object]) -> None:
    """Runs the bitext trainings side by side; one that fails does not stop the others, but then there is no L*."""
    bitext = Path(recipe.work) / "runs" / "bitext"
    bitext.mkdir(parents=True, exist_ok=True)
    settings = bitext / "recipe.json"
    settings.write_text(bitext_recipe(recipe).model_dump_json(indent=1), encoding="utf-8")
    waiting, running, failed = list(names), {}, {}  # type: list[str], dict[str, subprocess.Popen[str]], dict[str, str]
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                running[name] = _start(settings, name)
            time.sleep(0.05)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                process = running.pop(name)
                _, complaint = process.communicate()
                if process.returncode:
                    failed[name] = (complaint.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
                else:
                    say(f"bitext {name}: L* {best_loss(folder_of(recipe, name), name):.3f} bits")
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.communicate()
    if failed:
        raise TrainingError("; ".join(f"bitext model of {name} failed: {why}" for name, why in failed.items()))


def _start(settings: Path, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "cclm.experiments.bitext", str(settings), name]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _given(path: Path, recipe: Recipe, prepared: Prepared, say: Callable[[str], object]) -> dict[str, float]:
    """A table of the user's. Without a fingerprint it is taken at its word; with another one it is refused."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        losses = {str(name): float(loss) for name, loss in content["losses"].items()}
        version = content["version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f'benchmark.file {path}: {error}; expected {{"version": 1, "losses": {{...}}}}') from None
    if version != VERSION:
        raise ConfigError(f"benchmark.file {path}: version {version!r}; this program reads {VERSION}")
    names = set(tasks(recipe.data, prepared))
    missing, bad = sorted(names - losses.keys()), sorted(n for n, v in losses.items() if not 0 < v < math.inf)
    if missing or bad:
        raise ConfigError(f"benchmark.file {path}: no usable loss for {', '.join(missing or bad)}")
    if "fingerprint" not in content:
        say(f"{path} has no fingerprint: taken as it is, though it may belong to other data")
    elif content["fingerprint"] != fingerprint(recipe, prepared):
        raise ConfigError(f"benchmark.file {path} was made with other data or settings; run `cclm benchmark` again")
    return {name: losses[name] for name in tasks(recipe.data, prepared)}
