"""`cclm export --to huggingface`, against transformers, CTranslate2 and SentencePiece, each used directly."""

import hashlib
import json
import unicodedata
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import sentencepiece
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

import cclm
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.formats.run_folder import best_of
from cclm.model.transformer import Transformer
from cclm.training.building import shape_of
from cclm.training.checkpoint import load_tensors
from cclm.training.run_inputs import recipe_of
from cclm.translation import huggingface
from cclm.translation.package import export_run
from cclm.translation.tokenizer import Table

pytestmark = pytest.mark.slow
RUNS = {
    "many-to-one": ("into_english", "aze", "eng"),
    "many-to-one-joint": ("into_english_jointly", "aze", "eng"),
    "one-to-many": ("out_of_english", "eng", "glg"),
    "many-to-many": ("both_ways", "eng", "glg"),
}
TEXTS = [
    "su ev 7.",
    "book house tree 12.",
    "naïve ☃ kitab",
    "<2glg> su </s> <s>",
    "dəniz\u2028quş",
    "\ufeff a\x00b\tc ",
]
ODD = [
    "",
    " ",
    "▁a ▁ b▁",
    "ﬁ ½ ① Ａ ™️ ❤️ 👨‍👩‍👧",
    "a\u00a0b\u3000c\u200b",
    "<unk><pad> <2eng>",
    unicodedata.normalize("NFD", "árvore água"),
]


class Exported:
    """A run, its export for Hugging Face as transformers loads it, and CTranslate2's model of the same weights."""

    def __init__(self, run: Path, pair: tuple[str, str], folder: Path) -> None:
        self.run, self.recipe = run, recipe_of(run)
        self.folder = export_run(run, "huggingface", folder / "hub")
        self.pair = next(
            pair_
            for pair_ in json.loads((self.folder / "cclm.json").read_text())["pairs"]
            if (pair_["source"], pair_["target"]) == pair
        )
        self.model = AutoModelForSeq2SeqLM.from_pretrained(self.folder).eval()
        self.tokenizer: Any = AutoTokenizer.from_pretrained(self.folder, subfolder=self.pair["tokenizer"])
        self.search = GenerationConfig.from_pretrained(self.folder / self.pair["tokenizer"])
        self.prepared = Prepared.open(run.parent.parent / "prepared")
        into = self.recipe.data.direction == "many-to-one"
        self.source = self.prepared.other if into else self.prepared.pivot
        self.target = self.prepared.pivot if into else self.prepared.other

    def rows(self, side: str, ids: list[int]) -> list[int]:
        """<pad> and <s> change places; source rows come after the target's, unless they are the same."""
        if side == "source" and not self.prepared.joint:
            return [len(self.target) + i for i in ids]
        return [{0: 1, 1: 0}.get(i, i) for i in ids]


@pytest.fixture(scope="module", params=RUNS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    run, source, target = RUNS[request.param]
    return Exported(request.getfixturevalue(run), (source, target), tmp_path_factory.mktemp(request.param))


@torch.no_grad()
def test_logits_are_those_of_the_trained_model(exported: Exported) -> None:
    ours = Transformer(shape_of(exported.recipe, exported.prepared), 1).eval()
    ours.load_state_dict(load_tensors(best_of(exported.run) / "model.safetensors"))
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(2, len(exported.source), (3, 9), generator=generator)
    target = torch.randint(3, len(exported.target), (3, 7), generator=generator)
    source[1, 5:] = 0  # padding
    expected = ours(source, target)
    found = exported.model(
        input_ids=torch.tensor(
            [exported.rows("source" if i else "target", [i])[0] for i in source.flatten().tolist()]
        ).view_as(source),
        attention_mask=(source != 0).long(),
        decoder_input_ids=torch.tensor([exported.rows("target", row) for row in target.tolist()]),
    ).logits[..., exported.rows("target", list(range(len(exported.target))))]
    torch.testing.assert_close(found.flatten(0, 1), expected, atol=1e-4, rtol=0)


def test_tokenizers_segment_as_sentencepiece_does(exported: Exported) -> None:
    name = exported.pair["subwords"]
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(exported.prepared.folder / "models" / name))
    lines = (exported.run.parents[2] / "text" / "glg.train.tsv").read_text(encoding="utf-8").splitlines()
    texts = [*TEXTS, *ODD, *(text for line in lines for text in line.split("\t"))]
    before = [exported.source.symbols.index(exported.pair["tag"])] if exported.pair["tag"] else []
    expected = []
    for text in texts:
        cleaned = text.replace("\u2028", " ").replace("\t", " ").replace("\ufeff", "").replace("\x00", "")
        ids = [exported.source.ids.get(subwords.id_to_piece(i), 3) for i in subwords.encode(cleaned)]
        expected.append(exported.rows("source", [*before, *ids, 2]))
    assert exported.tokenizer(texts)["input_ids"] == expected


@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 5])
def test_generate_translates_as_ctranslate2_does(exported: Exported, beam: int) -> None:
    search = GenerationConfig.from_pretrained(exported.folder / exported.pair["tokenizer"], num_beams=beam)
    search.early_stopping = beam > 1
    batch = exported.tokenizer(TEXTS, padding=True, return_tensors="pt")
    found = exported.tokenizer.batch_decode(
        exported.model.generate(**batch, generation_config=search), skip_special_tokens=True
    )
    model = cclm.load(exported.run)
    fast = ctranslate2.Translator(str(exported.run / "ctranslate2" / "float32" / "model"))
    pair = model.pair(exported.pair["source"], exported.pair["target"])
    sources = model.encode(TEXTS, pair)
    results = fast.translate_batch(
        sources, [[exported.pair["start"]]] * len(sources), beam_size=beam, max_decoding_length=256,
        min_decoding_length=0, disable_unk=True, use_vmap=exported.recipe.restricts,
    )  # fmt: skip
    assert found == [model._decoded(result.hypotheses[0], pair) for result in results]
    assert len(set(found)) > 1


def test_source_symbols_and_foreign_pieces_are_never_generated(exported: Exported) -> None:
    suppressed = set(exported.search.suppress_tokens)
    table, targets = exported.model.config.vocab_size, len(exported.target)
    assert set(range(targets, table)) <= suppressed  # the source's half, where there is one
    assert 3 in suppressed  # <unk>
    if exported.recipe.restricts:
        own = exported.prepared.segmenter(exported.pair["target"]).pieces
        foreign = {i for piece, i in exported.target.ids.items() if piece not in own}
        assert foreign <= suppressed
        assert not {exported.target.ids[piece] for piece in own if piece} & suppressed


def test_every_class_is_stock_and_the_card_tells_how_to_use_it(exported: Exported) -> None:
    config = json.loads((exported.folder / "config.json").read_text())
    assert (config["model_type"], "auto_map" in config) == ("m2m_100", False)
    assert not (exported.folder / "tokenizers" / "modeling.py").exists()
    card = (exported.folder / "README.md").read_text(encoding="utf-8")
    assert 'AutoTokenizer.from_pretrained(".", subfolder="tokenizers/' in card
    assert ("`model(labels=...)` does not" in card) is not exported.prepared.joint
    with pytest.raises(ConfigError, match="cclm translates with a run"):
        cclm.load(exported.folder)


def test_an_export_with_other_numbers_is_withdrawn(
    into_english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = best_of(into_english) / "model.safetensors"
    before = hashlib.sha256(weights.read_bytes()).hexdigest()
    made = huggingface.weights

    def wrong(state: Any, table: Table) -> Any:
        return {name: tensor + 0.01 * name.endswith("fc1.bias") for name, tensor in made(state, table).items()}

    monkeypatch.setattr(huggingface, "weights", wrong)
    with pytest.raises(TrainingError, match=r"hub: the export was withdrawn: its logits are not the trained model's"):
        export_run(into_english, "huggingface", tmp_path / "hub")
    monkeypatch.setattr(huggingface, "weights", lambda state, table: {"odd": torch.zeros(1)})
    with pytest.raises(TrainingError, match="weights that M2M100 does not have or lacks: odd"):
        export_run(into_english, "huggingface", tmp_path / "hub")
    assert list(tmp_path.iterdir()) == []
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == before


def test_a_tokenizer_that_segments_otherwise_is_withdrawn(
    into_english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "clean", lambda text: (text.upper(), ()))
    with pytest.raises(TrainingError, match=r"the tokenizer of tur segments \d+ of \d+ sentences in another way"):
        export_run(into_english, "huggingface", tmp_path / "hub")


def test_a_damaged_checkpoint_is_not_exported(into_english: Path, tmp_path: Path) -> None:
    import shutil

    run = Path(shutil.copytree(into_english.parent.parent, tmp_path / "work", symlinks=True)) / "runs" / "small"
    (best_of(run) / "model.safetensors").write_bytes(b"")
    with pytest.raises((TrainingError, DataError), match=r"model\.safetensors"):
        export_run(run, "huggingface", tmp_path / "hub")
