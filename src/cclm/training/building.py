"""The model that a recipe trains: ours from random parameters, ours as another run left it, or a pretrained one."""

from collections.abc import Mapping
from pathlib import Path

import torch

from cclm.data.prepared import Prepared
from cclm.data.pretrained import find_pretrained, is_run
from cclm.data.subwords import subwords_of
from cclm.data.vocabulary import Vocabulary
from cclm.errors import TrainingError
from cclm.formats.run_folder import best_of
from cclm.model import pretrained
from cclm.model.interface import TranslationModel
from cclm.model.transformer import Shape, Transformer
from cclm.recipe.model import DROPOUTS
from cclm.recipe.schema import Recipe
from cclm.training.checkpoint import load_weights
from cclm.training.run_inputs import recipe_of, sizes_of

EMBEDDINGS = {"source_embedding.weight": True, "target_embedding.weight": False}
"""The embeddings of our model, and whether each is of the source side."""


def model_of(recipe: Recipe, prepared: Prepared) -> TranslationModel:
    """The model at the beginning of a training."""
    if recipe.model.pretrained is None:
        return Transformer(shape_of(recipe, prepared), recipe.seed)
    _refuse_changed(recipe, prepared)
    if is_run(recipe.model.pretrained):
        return _continued(recipe, prepared, Path(recipe.model.pretrained))
    folder, start = find_pretrained(recipe.model.pretrained), _start(recipe, prepared)
    model = pretrained.load(folder.path, start)
    if folder.family == "marian" and not model.starts_from_zero:
        raise TrainingError(
            f"model.pretrained {folder.name}: its embedding of <pad>, which Marian's decoder starts from, is not zero:"
            " it was fine-tuned that way, and CTranslate2 could not translate with it; start from the original model"
        )
    return model


def _refuse_changed(recipe: Recipe, prepared: Prepared) -> None:
    """Other weights than those that the data was prepared for would silently give another result."""
    if subwords_of(recipe.data, recipe.vocabulary, recipe.model).inputs() != prepared.pretrained:
        raise TrainingError(
            f"model.pretrained {recipe.model.pretrained}: its files have changed since the data was prepared;"
            " restore them, or give the run another name and begin anew"
        )


def shape_of(recipe: Recipe, prepared: Prepared) -> Shape:
    """The shape of our model: the recipe's sizes, or those of the run it continues, and the vocabularies."""
    model, rates = sizes_of(recipe), _own_rates(recipe)
    source, target = vocabularies_of(recipe, prepared)
    dropout = rates.get("dropout", model.dropout)
    of_attention = rates.get("attention_dropout", model.attention_dropout)
    of_activation = rates.get("activation_dropout", model.activation_dropout)
    return Shape(
        source_symbols=len(source),
        target_symbols=len(target),
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        feed_forward=model.feed_forward,
        dropout=dropout,
        attention_dropout=dropout if of_attention is None else of_attention,
        activation_dropout=dropout if of_activation is None else of_activation,
        joint=prepared.joint,
    )


def vocabularies_of(recipe: Recipe, prepared: Prepared) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the source and of the target."""
    into_pivot = recipe.data.direction == "many-to-one"
    return (prepared.other, prepared.pivot) if into_pivot else (prepared.pivot, prepared.other)


def _own_rates(recipe: Recipe) -> dict[str, float]:
    """The dropout rates that a recipe sets. `dropout` also applies to attention and activation if these are not set."""
    model = recipe.model
    given = {name: getattr(model, name) for name in DROPOUTS if name in model.model_fields_set}
    base = dict.fromkeys(DROPOUTS, given["dropout"]) if "dropout" in given else {}
    return base | {name: rate for name, rate in given.items() if rate is not None}


def _start(recipe: Recipe, prepared: Prepared) -> pretrained.Start:
    vocabulary, model = prepared.other, recipe.model
    layout = vocabulary.layout
    assert layout is not None
    ids = {symbol: i for i, symbol in enumerate(vocabulary.symbols)}
    known = [i for i in vocabulary.tags.values() if vocabulary.symbols[i] not in layout.new]
    new = {ids[symbol]: [ids[start]] if start else known for symbol, start in layout.new.items()}
    _refuse_long(recipe, prepared)
    lora = pretrained.Adapters(model.lora.rank, model.lora.alpha, model.lora.dropout) if model.lora else None
    return pretrained.Start(
        pad=layout.pad,
        symbols=len(vocabulary),
        new=new,
        dropouts=_own_rates(recipe),
        freeze=model.freeze,
        lora=lora,
        seed=recipe.seed,
    )


def _refuse_long(recipe: Recipe, prepared: Prepared) -> None:
    """Position embeddings are a table of fixed length in some models: training would fail at the first longer batch."""
    most = int(find_pretrained(str(recipe.model.pretrained)).config.get("max_position_embeddings", 1 << 31))
    for lang, splits in prepared.sizes.items():
        for split in {"train", "dev"} & splits.keys():
            longest = int(prepared.corpus(lang, split).lengths.max()) + 2  # a code and </s>
            if longest > most:
                raise TrainingError(
                    f"{split} set of {lang}: a sentence of {longest:,} subwords; model.pretrained"
                    f" {recipe.model.pretrained} has {most:,} positions; set data.max_tokens or shorten the dev set"
                )


def _continued(recipe: Recipe, prepared: Prepared, run: Path) -> Transformer:
    """Our model with the best weights of another run; `_grown` adds embeddings for symbols that it did not have."""
    model = Transformer(shape_of(recipe, prepared), recipe.seed)
    saved = load_weights(best_of(run))
    before = subwords_of(recipe.data, recipe.vocabulary, recipe.model).before  # type: ignore[attr-defined]
    sides = vocabularies_of(recipe, prepared)
    olds = vocabularies_of(recipe_of(run), before)
    for name, is_source in EMBEDDINGS.items():
        if name in saved:
            old, new = (pair[0] if is_source else pair[1] for pair in (olds, sides))
            saved[name] = _grown(saved[name], old, new)
    try:
        model.load_state_dict(saved)
    except RuntimeError as error:
        raise TrainingError(
            f"model.pretrained {run}: its weights do not fit this recipe: {str(error).splitlines()[-1].strip()};"
            " the direction and the vocabularies must be those of that run"
        ) from None
    return model


def _grown(weight_VD: torch.Tensor, old: Vocabulary, new: Vocabulary) -> torch.Tensor:
    """The embedding of a vocabulary that has grown: new pieces are the mean of the old ones that they consist of."""
    rows = [weight_VD]
    tags = set(new.tags.values())
    mean_of_tags = weight_VD[list(old.tags.values())].mean(dim=0)
    for i in range(len(old), len(new)):
        parts = split(new.symbols[i].rstrip(" "), old.ids) if i not in tags else []
        rows.append((weight_VD[parts].mean(dim=0) if parts else mean_of_tags)[None])
    return torch.cat(rows)


def split(piece: str, ids: Mapping[str, int]) -> list[int]:
    """The ids of the fewest known pieces that a piece consists of; characters that no piece has are left out."""
    best: list[tuple[int, int, list[int]]] = [(0, 0, [])]  # per prefix: characters left out, pieces, their ids
    for end in range(1, len(piece) + 1):
        left, count, path = best[end - 1]
        choices = [(left + 1, count, path)]
        for begin in range(end):
            if piece[begin:end] in ids:
                left, count, path = best[begin]
                choices.append((left, count + 1, [*path, ids[piece[begin:end]]]))
        best.append(min(choices, key=lambda choice: choice[:2]))
    return best[-1][2]


def load_trained(recipe: Recipe, prepared: Prepared, saved: Mapping[str, torch.Tensor]) -> TranslationModel:
    """The model of a checkpoint."""
    model = (
        model_of(recipe, prepared) if prepared.other.layout else Transformer(shape_of(recipe, prepared), recipe.seed)
    )
    model.load_trained(saved)
    return model.eval()
