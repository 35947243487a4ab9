"""From a checkpoint to a model to translate with, which has been shown to compute what was trained."""

import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch

from cclm.atomic import atomic_folder
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import BOS, EOS, SPECIALS, Vocabulary
from cclm.errors import TrainingError
from cclm.formats.checkpoint import damage
from cclm.model.transformer import Transformer
from cclm.recipe.schema import Recipe
from cclm.training.checkpoint import load_tensors
from cclm.training.directory import recipe_of, tasks_of, weights_of
from cclm.training.session import shape_of
from cclm.training.tasks import Task
from cclm.translation.export import export
from cclm.translation.model import MANIFEST, VERSION
from cclm.translation.translate import Sample, Translator, verify

SAMPLES = 64
"""Dev sentences on which an exported model is checked."""
MOST_LOST = 0.25
"""Bits a token: a quantised model whose loss is higher by more than this is not used."""


def export_checkpoint(run: Path, best: Path, folder: Path, exact: Path | None = None) -> None:
    """Exports the weights as they are, or as int8 where an `exact` export is given to compare with."""
    recipe = recipe_of(run)
    prepared = Prepared.open(recipe.prepared, verify=False)
    made = tasks_of(run, recipe, prepared)
    source, target = _sides(recipe, prepared)
    if problem := damage(best):
        raise TrainingError(f"{best}: {problem}")
    state = load_tensors(best / "model.safetensors")

    def checked(model: Path) -> dict[str, Any]:
        samples, translator = _samples(prepared, made, source, target), Translator(model)
        if exact:
            return _check_close(translator, Translator(exact / "model"), samples)
        return _check_exact(translator, _trained(recipe, prepared, state), source, target, samples)

    try:
        with atomic_folder(folder, is_ours=lambda old: (old / MANIFEST).is_file()) as staging:
            facts = {"checkpoint": best.name, "weights": weights_of(best)}
            export_weights(
                state, recipe, prepared, made, staging, quantization="int8" if exact else None, check=checked, **facts
            )
    except (ValueError, OSError) as error:
        raise TrainingError(f"{best} could not be exported: {error}") from None


def export_weights(
    state: dict[str, torch.Tensor],
    recipe: Recipe,
    prepared: Prepared,
    made: dict[str, Task],
    folder: Path,
    *,
    quantization: str | None = None,
    check: Callable[[Path], dict[str, Any]] = lambda model: {},
    **facts: Any,
) -> None:
    """A model for these tasks in `folder`; `check` may refuse it, and what it gives is told of the model."""
    source, target = _sides(recipe, prepared)
    export(
        {name: tensor.cpu().numpy() for name, tensor in state.items()},
        heads=recipe.model.heads,
        source_symbols=source.symbols,
        target_symbols=target.symbols,
        folder=folder / "model",
        quantization=quantization,
    )
    _complete(folder, prepared, made, source, target, **facts, **check(folder / "model"))


def _sides(recipe: Recipe, prepared: Prepared) -> tuple[Vocabulary, Vocabulary]:
    """The vocabulary of the source, and that of the target."""
    sides = (prepared.other, prepared.pivot)
    return sides if recipe.data.direction == "many-to-one" else (sides[1], sides[0])


def _trained(recipe: Recipe, prepared: Prepared, state: dict[str, torch.Tensor]) -> Transformer:
    model = Transformer(shape_of(recipe, prepared), recipe.seed)
    model.load_state_dict(state)
    return model.eval()


def _complete(
    staging: Path, prepared: Prepared, made: dict[str, Task], source: Vocabulary, target: Vocabulary, **facts: Any
) -> None:
    """All that text needs on its way in and out, and what it was made from."""
    pairs = [_pair(task, source, target, prepared) for task in made.values()]
    (staging / "subwords").mkdir()
    for name in {pair["subwords"] for pair in pairs}:
        shutil.copyfile(prepared.folder / "models" / name, staging / "subwords" / name)
    files = sorted(path for path in staging.rglob("*") if path.is_file())
    content = {
        "version": VERSION,
        **facts,
        "pairs": pairs,
        "reserved": {"source": len(SPECIALS) + len(source.tags), "target": len(SPECIALS) + len(target.tags)},
        "files": {path.relative_to(staging).as_posix(): path.stat().st_size for path in files},
    }
    (staging / MANIFEST).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _pair(task: Task, source: Vocabulary, target: Vocabulary, prepared: Prepared) -> dict[str, Any]:
    tag, start = task.direction.source_tag, task.direction.target_tag
    return {
        "source": task.source,
        "target": task.target,
        "subwords": f"{'joint' if prepared.joint else task.source}.model",
        "tag": None if tag is None else source.symbols[tag],
        "start": target.symbols[BOS if start is None else start],
    }


# --- checks -----------------------------------------------------------------------------------------------------------


def _samples(prepared: Prepared, made: dict[str, Task], source: Vocabulary, target: Vocabulary) -> list[Sample]:
    """The first dev sentences of every task in turn."""
    in_turn = zip_longest(*(_dev(prepared, task, source, target) for task in made.values()))
    return list(islice((sample for turn in in_turn for sample in turn if sample), SAMPLES))


def _dev(prepared: Prepared, task: Task, source: Vocabulary, target: Vocabulary) -> Iterator[Sample]:
    corpus = prepared.corpus(task.language, "dev")
    pair = _pair(task, source, target, prepared)
    for index in range(min(SAMPLES, len(corpus))):
        other, pivot = (side.tolist() for side in corpus.pair(index))
        from_ids, to_ids = (other, pivot) if task.direction.to_pivot else (pivot, other)
        if from_ids:
            before = [pair["tag"]] if pair["tag"] else []
            yield (
                [*before, *map(source.symbols.__getitem__, from_ids)],
                [pair["start"], *map(target.symbols.__getitem__, to_ids)],
            )


def _check_exact(
    translator: Translator, model: Transformer, source: Vocabulary, target: Vocabulary, samples: list[Sample]
) -> dict[str, Any]:
    """The log-probabilities must be the trained model's."""
    off = verify(translator, _log_probabilities(model, source, target), samples)
    return {"quantization": "float32", "checked": {"samples": len(samples), "largest_difference": off}}


def _log_probabilities(
    model: Transformer, source: Vocabulary, target: Vocabulary
) -> Callable[[Sequence[str], Sequence[str]], list[float]]:
    """What the trained model gives each symbol of a target after its first, and its end."""
    into, out_of = {s: i for i, s in enumerate(target.symbols)}, {s: i for i, s in enumerate(source.symbols)}

    @torch.no_grad()
    def of(source_symbols: Sequence[str], target_symbols: Sequence[str]) -> list[float]:
        ids = [into[symbol] for symbol in target_symbols]
        logits = model(torch.tensor([[*(out_of[s] for s in source_symbols), EOS]]), torch.tensor([ids]))
        found = torch.log_softmax(logits, dim=-1)
        return [float(found[place, i]) for place, i in enumerate([*ids[1:], EOS])]

    return of


def _check_close(quantised: Translator, exact: Translator, samples: list[Sample]) -> dict[str, Any]:
    """What rounding costs is measured and told: single probabilities move too far to be compared one by one."""
    before, after = _dev_loss(exact, samples), _dev_loss(quantised, samples)
    same = sum(a == b for a, b in zip(_greedy(exact, samples), _greedy(quantised, samples), strict=True))
    told = f"dev loss {after:.3f} bits a token, {before:.3f} in float32; {same} of {len(samples)} translations the same"
    if not after - before <= MOST_LOST:
        raise ValueError(f"int8 loses too much on this processor ({told}); use float32")
    print(f"int8: {told}", file=sys.stderr, flush=True)
    checked = {"samples": len(samples), "dev_loss": after, "dev_loss_float32": before, "same_translations": same}
    return {"quantization": "int8", "checked": checked}


def _dev_loss(translator: Translator, samples: list[Sample]) -> float:
    found = [value for row in translator.score(samples) for value in row.tolist()]
    return -math.fsum(found) / len(found) / math.log(2)


def _greedy(translator: Translator, samples: list[Sample]) -> list[list[str]]:
    return [translator.translate_ids([list(source)], target[0], 1, 1.0)[0] for source, target in samples]
