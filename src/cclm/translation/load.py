"""The best checkpoint of a run as a model to translate with: exported once, and checked before it is used."""

from os import PathLike
from pathlib import Path
from typing import Literal

from cclm.errors import ConfigError
from cclm.training.directory import best_of, is_bitext, recipe_of, weights_of
from cclm.translation.model import MANIFEST, VERSION, Model, read_manifest

Quantization = Literal["float32", "int8"]


def load(run: str | PathLike[str], *, quantization: Quantization = "float32", threads: int | None = None) -> Model:
    """The model of a run: text in, text out."""
    directory = Path(run)
    if is_bitext(directory):
        raise ConfigError(f"{run}: a folder of bitext models; give one of them, as in {directory / 'aze'}")
    settings = recipe_of(directory).translation
    folder = exported(directory, quantization)
    return Model(folder, beam=settings.beam, length_penalty=settings.length_penalty, threads=threads)


def exported(run: Path, quantization: Quantization = "float32") -> Path:
    """The folder of the exported model; it is made if it is not there, or of another checkpoint."""
    folder = run / "ctranslate2" / quantization
    best = best_of(run)
    if not _is_of(folder, weights_of(best)):
        from cclm.translation.checkpoint_export import (
            export_checkpoint,  # torch: only where there is something to export
        )

        export_checkpoint(run, best, folder, exact=exported(run) if quantization == "int8" else None)
    return folder


def _is_of(folder: Path, weights: str) -> bool:
    """Whether the folder holds an undamaged export of these weights."""
    if not (folder / MANIFEST).is_file():
        return False
    try:
        content = read_manifest(folder)
        there = {name: (folder / name).stat().st_size for name in content["files"]}
        return (content["version"], content["weights"], content["files"]) == (VERSION, weights, there)
    except (OSError, ValueError, KeyError, TypeError):
        return False
