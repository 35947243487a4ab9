"""`cclm export RUN`: a folder that translates without cclm, with a script and a model card.

The exported model is compared with the trained one before the folder appears.

FOLDER/
  README.md        the model card
  translate.py     translates standard input, with the libraries that the card names
  cclm.json        language pairs, checkpoint, search, result of the verification, files
  ...              the model: `cclm.translation.export` (CTranslate2), `cclm.translation.huggingface` and, for runs
                   that started from a model of Hugging Face's, `cclm.translation.huggingface_pretrained`
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from cclm.atomic import atomic_folder, refuse_foreign
from cclm.errors import ConfigError, TrainingError
from cclm.formats.base import FileFacts
from cclm.formats.checkpoint import damage
from cclm.formats.export import MANIFEST, Checked, Export, Search
from cclm.formats.run_folder import best_of, is_bitext, weights_of
from cclm.training.checkpoint import load_weights
from cclm.training.run_inputs import recipe_of
from cclm.translation.card import Facts, model_card
from cclm.translation.export import State, TrainedFor, manifest_of, trained, trained_for
from cclm.translation.model import Quantization, exported, search_of

Target = Literal["ctranslate2", "huggingface"]
CARD, SCRIPT = "README.md", "translate.py"
SCRIPTS = Path(__file__).parent / "exports"
"""What is copied into an export: its script, by target."""


def export_run(run: Path, to: Target, folder: Path | None = None, quantization: Quantization = "float32") -> Path:
    """Exports the best checkpoint of a run; returns the folder, by default `RUN/export/...`.

    The folder appears once the exported model has been compared with the trained one. An earlier export is replaced.
    """
    if is_bitext(run):
        raise ConfigError(f"{run}: a folder of bitext models; give one of them, as in {run / 'aze'}")
    recipe_of(run)  # before a folder is made for what may not be a run
    if to == "huggingface" and find_spec("transformers") is None:
        raise ConfigError("an export to Hugging Face needs transformers: pip install 'ccl-m[hf]'")
    name = f"{to}-{quantization}" if quantization != "float32" else to
    folder = folder or run / "export" / name
    refuse_foreign(folder, lambda old: Export.find(old / MANIFEST) is not None)
    _refuse_changed(folder)
    _refuse_fixed(folder)
    write = _to_huggingface if to == "huggingface" else _to_ctranslate2
    with _as_training_error(folder), atomic_folder(folder, is_ours=_is_ours) as staging:
        manifest, model, parameters = write(run, staging, quantization)
        script = f"{to}_pretrained.py" if model.layout else f"{to}.py"
        shutil.copyfile(SCRIPTS / script, staging / SCRIPT)
        card = model_card(Facts(run, model, manifest, parameters))
        (staging / CARD).write_text(card, encoding="utf-8")
        texts = {name: FileFacts.of(staging / name) for name in (CARD, SCRIPT)}
        manifest.model_copy(update={"texts": texts}).write(staging / MANIFEST)
    return folder


def _is_ours(folder: Path) -> bool:
    manifest = Export.find(folder / MANIFEST)
    return manifest is not None and not _changes(folder, manifest)


def _refuse_changed(folder: Path) -> None:
    """Raises FileExistsError if an export that would be replaced has files that its user has added or edited."""
    manifest = Export.find(folder / MANIFEST)
    if manifest and (changes := _changes(folder, manifest)):
        reason = (
            f"{changes[0]} was added or changed after the export; nothing was changed: move it, or choose another path"
        )
        raise FileExistsError(errno.EEXIST, reason, str(folder))


def _refuse_fixed(folder: Path) -> None:
    """Raises ConfigError if the folder may be empty, but not be replaced: it is in use, or cannot be renamed."""
    if folder.is_dir() and (os.path.samefile(folder, os.curdir) or os.path.ismount(folder)):
        raise ConfigError(
            f"{folder}: the current folder, or one that a disk is mounted on, cannot be replaced by an export;"
            f" give a folder in it, as in --output {folder / 'model'}"
        )


def _changes(folder: Path, manifest: Export) -> list[str]:
    """The files in an export that its user has added or edited. Those of the model may be damaged."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]
    names = [path.relative_to(folder).as_posix() for path in paths]
    added = [name for name in names if name not in {MANIFEST, CARD, SCRIPT, *manifest.files}]
    edited = [name for name, facts in manifest.texts.items() if name in names and FileFacts.of(folder / name) != facts]
    return added + edited


@contextmanager
def _as_training_error(folder: Path) -> Iterator[None]:
    """Turns an ExportError into a TrainingError that names the folder of the export."""
    try:
        yield
    except ValueError as error:  # ExportError among them
        raise TrainingError(f"{folder}: the export was withdrawn: {error}") from None


def _to_ctranslate2(run: Path, staging: Path, quantization: Quantization) -> tuple[Export, TrainedFor, int]:
    """Copies the verified export that `cclm translate` uses."""
    recipe = recipe_of(run)
    made = exported(run, quantization, restrict=recipe.restricts)
    manifest = Export.read(made / MANIFEST)
    for name in manifest.files:
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / name, staging / name)
    model = trained_for(run, recipe)
    facts = {"search": search_of(recipe), "to": "ctranslate2"} | _special(model)
    return manifest.model_copy(update=facts), model, _parameters(best_of(run))


def _to_huggingface(run: Path, staging: Path, quantization: Quantization) -> tuple[Export, TrainedFor, int]:
    from cclm.model.pretrained import quiet
    from cclm.translation import huggingface

    recipe, best = recipe_of(run), best_of(run)
    if problem := damage(best):
        raise TrainingError(f"{best}: {problem}")
    model, state = trained_for(run, recipe), load_weights(best)
    with quiet():
        if model.layout:
            checked = _write_pretrained(state, model, search_of(recipe), staging)
        else:
            huggingface.write_model(state, model, search_of(recipe), staging)
            checked = huggingface.check(state, model, staging)
    manifest = manifest_of(model, staging, checked=checked, checkpoint=best.name, weights=weights_of(best))
    pairs = [
        pair.model_copy(update={"tokenizer": "." if model.layout else f"tokenizers/{name}"})
        for name, pair in zip(model.tasks, manifest.pairs, strict=True)
    ]
    facts = {"pairs": pairs, "quantization": quantization, "search": search_of(recipe), "to": "huggingface"}
    return (
        manifest.model_copy(update=facts | _special(model)),
        model,
        sum(tensor.numel() for tensor in state.values()),
    )


def _write_pretrained(state: State, model: TrainedFor, search: Search, staging: Path) -> Checked:
    from cclm.model.pretrained import Pretrained
    from cclm.translation.huggingface_pretrained import check_pretrained, write_pretrained

    ours = trained(model, state)
    assert isinstance(ours, Pretrained)
    write_pretrained(ours, model, search, staging)
    return check_pretrained(ours, model, staging)


def _special(model: TrainedFor) -> dict[str, dict[str, int]]:
    """The field of the manifest that the scripts of pretrained models need."""
    if not model.layout:
        return {}
    from cclm.translation.huggingface_pretrained import special_symbols

    return {"special": special_symbols(model)}


def _parameters(checkpoint: Path) -> int:
    return sum(tensor.numel() for tensor in load_weights(checkpoint).values())
