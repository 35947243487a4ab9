"""Where things are in a run directory, and which work folder it belongs to."""

import os
from pathlib import Path

from cclm.errors import ConfigError, DataError, TrainingError
from cclm.formats.checkpoint import (
    BEST,
    MANIFEST,
    Manifest,
    checkpoint_folders,
    read_pointer,
    step_of,
    tokens_after_the_log,
    weights_file,
)
from cclm.formats.log import Log
from cclm.formats.run import CONFIG, ENVIRONMENT, LOCK, LOG, MADE_FROM, NOT_FINITE, ORIGIN, TIMING

RECIPE = "recipe.json"
"""In the folder of the bitext models, which is not a run itself and has no config.yaml."""


MULTILINGUAL = "multilingual"
"""The name of the short training of all languages that L* may come from, and of its folder in the cache."""


IN_RUN = {CONFIG, MADE_FROM, ENVIRONMENT, ORIGIN, LOG, TIMING, LOCK, NOT_FINITE, "graph.json", "benchmark.json",
          "scores.json", "before.json", "report.html", "checkpoints", "translations", "ctranslate2", "ctranslate2-dev",
          "export", "tensorboard", "followers"}  # fmt: skip
"""All that cclm writes into a run directory."""


def is_bitext(run: Path) -> bool:
    """Whether this is the folder of the bitext runs, which together are one system: each translates its own task."""
    return (run / RECIPE).exists()


def is_for_losses(run: Path) -> bool:
    """Whether this is one of the trainings that L* comes from: a bitext model or the multilingual training."""
    folder = run.resolve()
    return is_bitext(folder.parent) or (folder.parent / f"{MULTILINGUAL}.json").exists()


def name_of(folder: Path) -> str:
    """The name of a folder as it was given: `bitext` is a link to an entry of the cache, whose own name is a hash."""
    return Path(os.path.abspath(folder)).name


def work_of(run: Path) -> Path:
    """The work folder of a run, by its path as it was given, or else with symbolic links followed.

    `work/runs` may be a link to another disk: the work folder is then beside the link. A link to a single run leads to
    a folder in another one's work folder.
    """
    up = 2 if is_for_losses(run) else 1
    given, resolved = _work_above(Path(os.path.abspath(run)), up), _work_above(run.resolve(), up)
    return given if (given / "prepared").is_dir() else resolved


def _work_above(run: Path, up: int) -> Path:
    """WORK of WORK/runs/NAME, and of bitext models in WORK/cache/benchmark/KEY."""
    folder = run.parents[up]
    in_cache = (folder.name, run.parents[up - 1].name) == ("cache", "benchmark")
    return folder.parent if in_cache else folder


def best_of(run: Path) -> Path:
    """The best checkpoint."""
    folder = run / "checkpoints"
    name, known = read_pointer(folder, BEST), [path.name for path in checkpoint_folders(folder)]
    if name is None and known:
        step = step_of(folder / known[-1])
        raise ConfigError(
            f"{run}: no best checkpoint yet: it was stopped at step {step}, before its first validation; train it on"
        )
    if name is None:
        raise ConfigError(f"{run}: no checkpoint yet; train it first")
    if name not in known:
        raise TrainingError(
            f"{folder / BEST}: names {name!r:.60}, which is no checkpoint here; resume the run: that mends the file"
        )
    return folder / name


def weights_of(checkpoint: Path, file: str | None = None) -> str:
    """The checksum of the weights of a checkpoint, as its manifest has it: of those to translate with, or in `file`."""
    try:
        return Manifest.read(checkpoint / MANIFEST).files[file or weights_file(checkpoint)].sha256
    except (DataError, KeyError):
        raise TrainingError(f"{checkpoint}: manifest.json is missing or damaged") from None


def tokens_of(run: Path) -> int:
    """The target tokens that a run was trained on. The log has those up to its last train event; of a run that has
    ended, the checkpoint has the rest."""
    log = Log.read(run / LOG)
    return log.tokens + (tokens_after_the_log(run, log.stopped.step) if log.stopped else 0)
