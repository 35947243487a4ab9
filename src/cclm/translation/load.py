"""`cclm.load`: the best checkpoint of a run as a model to translate with. It is exported once and verified."""

from os import PathLike
from pathlib import Path
from typing import Literal

from cclm.errors import ConfigError
from cclm.formats.export import MANIFEST, Export
from cclm.training.directory import best_of, is_bitext, recipe_of, weights_of
from cclm.translation.model import Model

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
    """The folder of the exported model. It is made if it is missing, damaged or of another checkpoint."""
    folder = run / "ctranslate2" / quantization
    best = best_of(run)
    if not _is_current(folder, weights_of(best)):
        from cclm.translation.export import export_checkpoint  # imports torch: only when something is exported

        export_checkpoint(run, best, folder, exact=exported(run) if quantization == "int8" else None)
    return folder


def _is_current(folder: Path, weights: str) -> bool:
    """Whether the folder holds an undamaged export of these weights."""
    manifest = Export.find(folder / MANIFEST)
    if manifest is None or manifest.weights != weights:
        return False
    try:
        return manifest.files == {name: (folder / name).stat().st_size for name in manifest.files}
    except OSError:
        return False
