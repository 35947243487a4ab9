"""From a checkpoint to a self-contained folder to translate with, verified against the trained model.

ctranslate2/float32/
  model/                             CTranslate2's: model.bin, config.json, the vocabularies, vmap.txt if there are tags
  subwords/{lang}.model              SentencePiece, one model per source language
  cclm.json                          language pairs, checkpoint, result of the verification, files
"""

import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
import torch

from cclm.atomic import atomic_folder, holds_only
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import BOS, EOS, SPECIALS, UNK, Vocabulary
from cclm.errors import TrainingError
from cclm.formats.base import FileFacts
from cclm.formats.checkpoint import damage
from cclm.formats.export import MANIFEST, Checked, Export, Pair, Reserved
from cclm.formats.prepared import Layout
from cclm.formats.run_folder import weights_of
from cclm.model.interface import TranslationModel
from cclm.model.pretrained import log_probabilities
from cclm.recipe.schema import Recipe
from cclm.training.building import load_trained, shape_of, vocabularies_of
from cclm.training.checkpoint import load_weights
from cclm.training.run_inputs import data_of, recipe_of, tasks_of
from cclm.training.tasks import Task
from cclm.translation.convert import convert
from cclm.translation.convert_pretrained import convert_pretrained, positions_of
from cclm.translation.translator import END, POSITIONS, VOCABULARY_MAP, ExportError, Sample, Translator

SAMPLES = 64
"""Dev sentences on which an exported model is checked."""
MAX_LOSS_INCREASE = 0.25
"""Bits per token: a quantised model whose dev loss rises by more is refused."""

State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class TrainedFor:
    """The recipe, the data and the tasks of a model: what an export needs besides the weights."""

    recipe: Recipe
    prepared: Prepared
    tasks: Mapping[str, Task]

    @property
    def source(self) -> Vocabulary:
        """The vocabulary of the source side."""
        return vocabularies_of(self.recipe, self.prepared)[0]

    @property
    def target(self) -> Vocabulary:
        """The vocabulary of the target side."""
        return vocabularies_of(self.recipe, self.prepared)[1]

    @property
    def layout(self) -> Layout | None:
        """Of a pretrained model; None for ours."""
        return self.prepared.other.layout

    @cached_property
    def positions(self) -> int:
        """The longest sentence that the exported model takes."""
        return positions_of(self.prepared) if self.layout else POSITIONS

    def pair(self, task: Task) -> Pair:
        """What the manifest says of a task."""
        tag, start = task.direction.source_tag, task.direction.target_tag
        return Pair(
            source=task.source,
            target=task.target,
            subwords=self.prepared.model_file(task.source),
            tag=None if tag is None else self.source.symbols[tag],
            start=None if self.layout and start is None else self.target.symbols[BOS if start is None else start],
            **({"own_tag": True} if self.layout and self.layout.codes == "both" else {}),  # type: ignore[arg-type]
        )


def trained_for(run: Path, recipe: Recipe) -> TrainedFor:
    """What the model of a run was trained for."""
    prepared = data_of(run, recipe)
    return TrainedFor(recipe, prepared, tasks_of(run, recipe, prepared))


def export_checkpoint(run: Path, best: Path, folder: Path, exact: Path | None = None) -> None:
    """Exports the weights of a checkpoint: as float32, or as int8 if an `exact` export is given to compare with."""
    model = trained_for(run, recipe_of(run))
    if problem := damage(best):
        raise TrainingError(f"{best}: {problem}")
    state = load_weights(best)
    quantization = "int8" if exact else "float32"
    try:
        with atomic_folder(folder, is_ours=holds_only(MANIFEST, "model", "subwords")) as staging:
            write_files(state, model, staging, quantization)
            samples, translator = dev_samples(model), Translator(staging / "model", positions=model.positions)
            if exact:
                checked = _compare_with_float32(
                    translator, Translator(exact / "model", positions=model.positions), model, samples
                )
            else:
                checked = _compare_with_trained(translator, trained(model, state), model, samples)
            facts = {"checkpoint": best.name, "weights": weights_of(best), "quantization": quantization}
            write_manifest(model, staging, checked=checked, **facts)
    except (ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TrainingError(f"{folder}: {best.name} could not be exported: {reason}") from None


def export_unchecked(state: State, model: TrainedFor, folder: Path) -> None:
    """Exports weights without comparing numbers: for dev BLEU during training, once per validation."""
    write_files(state, model, folder, "float32")
    write_manifest(model, folder)


def write_files(state: State, model: TrainedFor, folder: Path, quantization: str) -> None:
    """Writes the CTranslate2 model and what splits the text of its pairs."""
    kind = None if quantization == "float32" else quantization
    if model.layout:
        convert_pretrained(trained(model, state), model.prepared, folder / "model", kind)
    else:
        convert(
            {name: tensor.cpu().numpy() for name, tensor in state.items()},
            heads=shape_of(model.recipe, model.prepared).heads,
            source_symbols=model.source.symbols,
            target_symbols=model.target.symbols,
            folder=folder / "model",
            quantization=kind,
        )
    if rows := [f"{tag}\t{' '.join(pieces)}\n" for tag, pieces in own_pieces(model).items()]:
        (folder / "model" / VOCABULARY_MAP).write_text("".join(rows), encoding="utf-8")
    (folder / "subwords").mkdir()
    for name in {model.pair(task).subwords for task in model.tasks.values()}:
        path, copied = model.prepared.folder / "models" / name, folder / "subwords" / name
        shutil.copytree(path, copied) if path.is_dir() else shutil.copyfile(path, copied)


def own_pieces(model: TrainedFor) -> dict[str, list[str]]:
    """The target symbols that belong to each target language, by its tag; empty if the model has no tags.

    They are the pieces of the language's own SentencePiece model, or, with a joint one, those that occur in its
    training text. A piece that is written like a reserved symbol is left out: its symbol has a space, which separates
    symbols in the vocabulary map.
    """
    prepared, symbols = model.prepared, model.target.symbols
    found: dict[str, list[str]] = {}
    if model.layout:  # a pretrained model has subwords for many more languages than its tags say
        return found
    for task in model.tasks.values():
        if task.direction.target_tag is None:
            continue
        if prepared.joint:
            ids = [model.target.ids[piece] for piece in prepared.pieces_of(task.target)]
        else:
            ids = [i for i in model.target.table(prepared.segmenter(task.target)).tolist() if i != UNK]
        found[symbols[task.direction.target_tag]] = [symbols[i] for i in ids if not symbols[i].endswith(" ")]
    return found


def write_manifest(model: TrainedFor, folder: Path, **facts: str | Checked) -> None:
    """Writes cclm.json, last: it lists all other files of the folder."""
    manifest_of(model, folder, **facts).write(folder / MANIFEST)


def manifest_of(model: TrainedFor, folder: Path, **facts: str | Checked) -> Export:
    """The manifest of an export whose files are in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return Export(
        **facts,  # type: ignore[arg-type]
        pairs=[model.pair(task) for task in model.tasks.values()],
        reserved=Reserved(source=len(SPECIALS) + len(model.source.tags), target=len(SPECIALS) + len(model.target.tags)),
        **({"positions": model.positions} if model.layout else {}),  # type: ignore[arg-type]
        files={path.relative_to(folder).as_posix(): FileFacts.of(path) for path in files},
    )


# --- verification -----------------------------------------------------------------------------------------------------


def verify(
    translator: Translator,
    logprob_of: Callable[[Sequence[str], Sequence[str]], Sequence[float]],
    samples: Sequence[Sample],
    *,
    tolerance: float = 1e-4,
) -> float:
    """The largest difference between log-probabilities of the export and of the model that it was made from.

    `logprob_of(source, target)` gives the latter, natural, for every token of the target after the first, and for
    </s>. An export that differs by more than `tolerance` is withdrawn: its folder is removed, and ExportError raised.
    """
    if not samples:
        raise ValueError("an export cannot be verified without samples")
    largest = 0.0
    for (source, target), ours in zip(samples, translator.score(samples), strict=True):
        theirs = np.asarray(logprob_of(source, target), dtype=np.float64)
        if ours.shape != theirs.shape:
            raise ValueError(f"logprob_of gives {theirs.size} numbers for a target that has {ours.size} with {END}")
        # np.maximum, unlike max, propagates NaN.
        largest = float(np.maximum(largest, np.max(np.abs(ours - theirs))))
    if not largest <= tolerance:
        shutil.rmtree(translator.folder)
        raise ExportError(
            f"{translator.folder}: the export was withdrawn, its log-probabilities differ from the model's by up to "
            f"{largest:.2g}; {tolerance:g} is allowed"
        )
    return largest


def dev_samples(model: TrainedFor) -> list[Sample]:
    """The first dev sentences of every task in turn, as symbols."""
    in_turn = zip_longest(*(_samples_of(model, task) for task in model.tasks.values()))
    return list(islice((sample for turn in in_turn for sample in turn if sample), SAMPLES))


def _samples_of(model: TrainedFor, task: Task) -> Iterator[Sample]:
    corpus = model.prepared.corpus(task.language, "dev")
    pair = model.pair(task)
    before = [pair.tag] if pair.tag else []
    first = [pair.start] if pair.start else []
    for index in range(min(SAMPLES, len(corpus))):
        other, pivot = (side.tolist() for side in corpus.pair(index))
        from_ids, to_ids = (other, pivot) if task.direction.to_pivot else (pivot, other)
        if from_ids and max(len(from_ids), len(to_ids)) + 2 < model.positions:
            yield (
                [*before, *map(model.source.symbols.__getitem__, from_ids)],
                [*first, *map(model.target.symbols.__getitem__, to_ids)],
            )


def trained(model: TrainedFor, state: State) -> TranslationModel:
    """The trained model itself."""
    return load_trained(model.recipe, model.prepared, state)


def _compare_with_trained(
    translator: Translator, trained: TranslationModel, model: TrainedFor, samples: list[Sample]
) -> Checked:
    """float32: every log-probability must be the trained model's."""
    difference = verify(translator, _log_probabilities(trained, model), samples)
    return Checked(samples=len(samples), largest_difference=difference)


def _log_probabilities(
    trained: TranslationModel, model: TrainedFor
) -> Callable[[Sequence[str], Sequence[str]], list[float]]:
    """A function that gives the trained model's log-probability of each target symbol after the first, and of </s>."""
    source_ids = {symbol: i for i, symbol in enumerate(model.source.symbols)}
    target_ids = {symbol: i for i, symbol in enumerate(model.target.symbols)}
    end, before = (model.layout.end, [model.layout.start]) if model.layout else (EOS, [])

    def of(source: Sequence[str], target: Sequence[str]) -> list[float]:
        ids = [*before, *(target_ids[symbol] for symbol in target)]
        found = log_probabilities(trained, [*(source_ids[symbol] for symbol in source), end], ids)
        return [float(found[position, i]) for position, i in enumerate([*ids[1:], end])]

    return of


def _compare_with_float32(
    quantised: Translator, exact: Translator, model: TrainedFor, samples: list[Sample]
) -> Checked:
    """int8: rounding changes single probabilities too much to compare them, so dev loss and translations are compared.

    The result is printed on stderr; a dev loss that rises by more than MAX_LOSS_INCREASE is refused.
    """
    before, after = _dev_loss(exact, samples), _dev_loss(quantised, samples)
    starts = all(model.pair(task).start for task in model.tasks.values())
    both = (_greedy(translator, samples, starts) for translator in (exact, quantised))
    same = sum(a == b for a, b in zip(*both, strict=True))
    result = (
        f"dev loss {after:.3f} bits per token, {before:.3f} in float32;"
        f" {same} of {len(samples)} translations are the same"
    )
    if not after - before <= MAX_LOSS_INCREASE:
        raise ValueError(f"int8 loses too much on this processor ({result}); use float32")
    print(f"int8: {result}", file=sys.stderr, flush=True)
    return Checked(samples=len(samples), dev_loss=after, dev_loss_float32=before, same_translations=same)


def _dev_loss(translator: Translator, samples: list[Sample]) -> float:
    found = [value for row in translator.score(samples) for value in row.tolist()]
    return -math.fsum(found) / len(found) / math.log(2)


def _greedy(translator: Translator, samples: list[Sample], starts: bool) -> list[list[str]]:
    """The translations of the sources. With `starts`, each target's first symbol is given."""
    return [
        translator.translate_ids([list(source)], target[0] if starts else None, 1, 1.0)[0] for source, target in samples
    ]
