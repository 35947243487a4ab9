"""The whole path on sentences that people can read: a model that has learnt 200 pairs by heart says them again."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from safetensors.torch import load_file
from translation.reference_model import beam_search

from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.data.readers.phrasebook import phrasebook_pairs
from cclm.data.vocabulary import EOS
from cclm.formats.run_folder import best_of
from cclm.model import Packing, Transformer
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.training.building import shape_of
from cclm.training.run_inputs import recipe_of
from cclm.training.session import train
from cclm.translation.model import exported, load
from cclm.translation.translator import Translator

CONTENT: dict[str, Any] = {
    "version": 1,
    "name": "overfit",
    "data": {"format": "tsv", "high_resource": ["tur"], "low_resource": []},
    "vocabulary": {"pieces": 300},
    "model": {"layers": 2, "heads": 4, "width": 64, "feed_forward": 128, "dropout": 0.0},
    "curriculum": {"gate": {"name": "all"}, "sampler": {"name": "temperature", "tau": 1.0}, "every": 100},
    "training": {
        "batch_tokens": 1024, "accumulate": 1, "learning_rate": 4.0e-3, "warmup": 30, "label_smoothing": 0.0,
        "max_steps": 200, "validate_every": 100, "device": "cpu", "precision": "fp32",
    },
}  # fmt: skip


def pairs(split: str, count: int) -> list[tuple[int, str, str]]:
    """(number, English, Turkish) of the phrasebook."""
    return list(islice(phrasebook_pairs(1, "tur", split), count))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained until it knows its pairs: training and dev set are the same, the test set is other sentences."""
    folder = tmp_path_factory.mktemp("overfit")
    (folder / "text").mkdir()
    learnt, others = pairs("train", 200), pairs("dev", 100)
    for split, lot in (("train", learnt), ("dev", learnt), ("test", others)):
        lines = [f"{english}\t{turkish}\n" for _, english, turkish in lot]
        (folder / "text" / f"tur.{split}.tsv").write_text("".join(lines), encoding="utf-8")
    torch.set_num_threads(1)
    content = CONTENT | {"work": str(folder / "work"), "data": CONTENT["data"] | {"path": str(folder / "text")}}
    recipe = check(Recipe, content, "overfit")
    made = folder / "work" / "runs" / "overfit"
    train(recipe, prepare(Plan(recipe.data, recipe.vocabulary), recipe.prepared, workers=1), None, None, made)
    return made


@pytest.mark.slow
def test_what_was_learnt_by_heart_comes_out_of_the_beam_again(run: Path) -> None:
    _, english, turkish = zip(*pairs("train", 200), strict=True)
    found = load(run).translate(turkish, source="tur", target="eng")
    assert sacrebleu.corpus_bleu(found, [english]).score > 95


class Searched:
    """The trained model as the textbook's beam asks for one."""

    def __init__(self, run: Path) -> None:
        recipe = recipe_of(run)
        self.prepared = Prepared.open(recipe.prepared)
        self.target_symbols = list(self.prepared.pivot.symbols)
        self._numbers = {symbol: number for number, symbol in enumerate(self.prepared.other.symbols)}
        self._model = Transformer(shape_of(recipe, self.prepared), recipe.seed).eval()
        self._model.load_state_dict(load_file(best_of(run) / "model.safetensors"))

    def encode(self, sources: Sequence[Sequence[str]]) -> tuple[torch.Tensor, Packing]:
        source = Packing(torch.tensor([[*(self._numbers[symbol] for symbol in sources[0]), EOS]]))
        return self._model.encode(source), source

    def logits(self, memory: tuple[torch.Tensor, Packing], targets: Sequence[Sequence[int]]) -> torch.Tensor:
        states = self._model.decode(Packing(torch.tensor(targets)), *memory)  # one source for all of them
        return self._model.logits(states).view(len(targets), len(targets[0]), -1)

    @torch.no_grad()
    def score(self, source: Sequence[str], target: Sequence[str], length_penalty: float) -> float:
        """What a beam ranks by. The rest of the probability, that of <unk>, is left out in both searches alike."""
        ids = [self.target_symbols.index(symbol) for symbol in ("<s>", *target)]
        logits = self.logits(self.encode([source]), [ids])[0]
        logits[:, self.target_symbols.index("<unk>")] = -torch.inf
        following = torch.tensor([*ids[1:], EOS])
        return float(logits.log_softmax(-1).gather(1, following[:, None]).sum()) / len(following) ** length_penalty


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 5])
def test_on_sentences_that_it_does_not_know_the_search_is_the_textbooks(run: Path, beam: int) -> None:
    """On those it knows, every search would find the same. Two hypotheses may score the same but for rounding, which
    differs between torch and CTranslate2: where the two searches part, their finds must be equally good."""
    model = Searched(run)
    corpus = model.prepared.corpus("tur", "test")
    sources = [[model.prepared.other.symbols[i] for i in corpus.pair(n)[0]] for n in range(len(corpus))]
    assert len(sources) == 100
    search: dict[str, Any] = {"beam": beam, "length_penalty": 1.0, "max_length": 40}
    ours = Translator(exported(run) / "model").translate_ids(sources, "<s>", **search)
    textbook = [beam_search(model, source, "<s>", **search) for source in sources]  # type: ignore[arg-type]
    parted = [i for i in range(len(sources)) if ours[i] != textbook[i]]
    assert len(parted) <= 2
    for i in parted:
        scores = [model.score(sources[i], found[i], search["length_penalty"]) for found in (ours, textbook)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert len({tuple(target) for target in ours}) > 50
