"""`cclm.load`: the best checkpoint of a run as a model to translate with. It is exported once and verified."""

import warnings
from os import PathLike
from pathlib import Path
from typing import Literal

from cclm.data.prepared import Prepared
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, DataError
from cclm.formats.base import sha256
from cclm.formats.export import MANIFEST, Export
from cclm.formats.run import MADE_FROM, MadeFrom
from cclm.training.directory import best_of, is_bitext, recipe_of, weights_of
from cclm.training.lock import Lock, announce
from cclm.translation.model import Model

Quantization = Literal["float32", "int8"]


def load(run: str | PathLike[str], *, quantization: Quantization = "float32", threads: int | None = None) -> Model:
    """The model of a run: text in, text out. More threads than cores are of no use and not started."""
    directory = Path(run)
    if threads is not None and threads > (cores := available_cores()):
        warnings.warn(f"{threads} threads are more than the {cores} cores: {cores} are used", stacklevel=2)
        threads = cores
    if is_bitext(directory):
        raise ConfigError(f"{run}: a folder of bitext models; give one of them, as in {directory / 'aze'}")
    settings = recipe_of(directory).translation
    folder = exported(directory, quantization)
    return Model(folder, beam=settings.beam, length_penalty=settings.length_penalty, threads=threads)


def exported(run: Path, quantization: Quantization = "float32") -> Path:
    """The folder of the exported model. It is made if it is missing, damaged or of another checkpoint.

    Another process that exports it is waited for.
    """
    folder = run / "ctranslate2" / quantization
    if _is_current(folder, weights_of(best_of(run))):
        return folder
    from cclm.translation.export import export_checkpoint  # imports torch: only when something is exported

    exact = exported(run) if quantization == "int8" else None
    with Lock(folder, file=folder.with_name(f".{quantization}.lock"), wait=announce):
        best = best_of(run)
        if not _is_current(folder, weights_of(best)):
            export_checkpoint(run, best, folder, exact=exact)
    return folder


def _is_current(folder: Path, weights: str) -> bool:
    """Whether the folder holds an undamaged export of these weights."""
    manifest = Export.find(folder / MANIFEST)
    if manifest is None or manifest.weights != weights:
        return False
    try:
        # The size first: a truncated file is found without reading the whole model.
        return all(
            (folder / name).stat().st_size == file.bytes and sha256(folder / name) == file.sha256
            for name, file in manifest.files.items()
        )
    except (OSError, ValueError):  # ValueError: a name with a NUL
        return False


def refuse_other_data(run: Path, prepared: Prepared) -> None:
    """Refuses prepared data that a run was not trained on: its vocabularies and test sets are not the run's.

    The data of a single run is found by its fingerprint; this is for runs that are translated together, as one system.
    A folder without made_from.json was not written by a training and is not checked.
    """
    path = run / MADE_FROM
    trained_on = MadeFrom.read(path).data if path.exists() else None
    if trained_on not in (None, prepared.fingerprint):
        raise DataError(
            f"{run} was trained on data {str(trained_on)[:16]}, but {prepared.folder} holds data"
            f" {prepared.fingerprint[:16]}: train all runs of the folder on the same data"
        )
