"""Translations with subwords of their target language alone, against a beam search that masks all others."""

import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch
from pydantic import ValidationError
from small_recipe import recipe
from translation.reference_model import Reference, beam_search, taught

import cclm
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.evaluation.evaluate import Evaluation
from cclm.formats.export import MANIFEST, Export
from cclm.formats.scores import Scores
from cclm.translation.convert import convert
from cclm.translation.translator import VOCABULARY_MAP, Translator


@pytest.fixture(scope="module")
def model() -> Reference:
    torch.set_num_threads(1)
    return taught(Reference(), steps=80)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_a_restricted_search_is_a_beam_search_over_the_allowed_symbols(
    beam: int, model: Reference, tmp_path: Path
) -> None:
    convert(
        model.state(),
        heads=model.heads,
        source_symbols=model.source_symbols,
        target_symbols=model.target_symbols,
        folder=tmp_path / "model",
    )
    allowed = {"<2aze>": [f"▁t{i}" for i in range(0, 15, 2)], "<2bel>": [f"▁t{i}" for i in range(8)]}
    rows = (f"{tag}\t{' '.join(symbols)}\n" for tag, symbols in allowed.items())
    (tmp_path / "model" / VOCABULARY_MAP).write_text("".join(rows))
    free, restricted = Translator(tmp_path / "model"), Translator(tmp_path / "model", restrict=True)
    changed = 0
    for tag, symbols in allowed.items():
        sources = [[tag, *(f"▁s{(7 * i + j) % 39}" for j in range(1 + i % 6))] for i in range(8)]
        found = restricted.translate_ids(sources, tag, beam, 1.0, 20)
        expected = [
            beam_search(model, s, tag, beam=beam, length_penalty=1.0, max_length=20, allowed=symbols) for s in sources
        ]
        assert found == expected
        assert {symbol for row in found for symbol in row} <= {*symbols, tag, "<s>", "<pad>"}
        changed += sum(a != b for a, b in zip(found, free.translate_ids(sources, tag, beam, 1.0, 20), strict=True))
    assert changed > 3  # the restriction has an effect


@pytest.mark.slow
def test_a_mixed_list_of_targets_has_no_foreign_subword(out_of_english: Path) -> None:
    prepared = Prepared.open(out_of_english.parent.parent / "prepared")
    model, texts = cclm.load(out_of_english), ["house water 7.", "book", "tree sea stone bird 12."]
    foreign = 0
    for target in ("tur", "glg", "aze", "por", "tur"):
        own = sentencepiece.SentencePieceProcessor(model_file=str(prepared.folder / "models" / f"{target}.model"))
        known = {own.id_to_piece(i) for i in range(own.get_piece_size())}
        foreign += len(set(prepared.other.ids) - known)
        pair = model.pair("eng", target)
        encoded = model.encode(texts, pair)
        for symbols in model._translator.translate_ids(encoded, pair.start, 2, 1.0):
            assert {*symbols} <= known
    assert foreign > 100  # there was something to leave out


def test_the_pieces_of_a_joint_model_are_those_of_the_training_text(both_ways: Path) -> None:
    prepared = Prepared.open(both_ways.parent.parent / "prepared")
    segmenter = prepared.segmenter("eng")
    for language in ("aze", "eng"):
        seen: set[str] = set()
        for other in prepared.languages if language == "eng" else (language,):
            lines = (both_ways.parents[2] / "text" / f"{other}.train.tsv").read_text(encoding="utf-8").splitlines()
            texts = [line.split("\t")[0 if language == "eng" else 1] for line in lines]
            seen |= {segmenter.pieces[i] for ids in segmenter.encode(texts) for i in ids}
        assert set(prepared.pieces_of(language)) == seen - {""}


@pytest.mark.slow
def test_scores_say_whether_decoding_was_restricted(out_of_english: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(out_of_english.parent.parent, tmp_path / "work", symlinks=True)) / "runs" / "small"
    assert Evaluation(run).score().signature.restrict is True
    assert Scores.read(run / "scores.json").signature.plain()["restrict"] is True
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("restrict: true", "restrict: false"))
    assert Evaluation(run).scored() is None  # other translations
    assert Evaluation(run).score().signature.plain()["restrict"] is False


def test_an_export_without_a_map_is_made_again(out_of_english: Path, tmp_path: Path) -> None:
    work = Path(shutil.copytree(out_of_english.parent.parent, tmp_path / "work", symlinks=True))
    run = work / "runs" / "small"
    cclm.load(run)
    folder = run / "ctranslate2" / "float32"
    (folder / "model" / VOCABULARY_MAP).unlink()
    with pytest.raises(DataError, match=r"no vmap\.txt to restrict translations with; delete its folder"):
        Translator(folder / "model", restrict=True)
    manifest = Export.read(folder / MANIFEST)
    files = {name: facts for name, facts in manifest.files.items() if VOCABULARY_MAP not in name}
    manifest.model_copy(update={"files": files}).write(folder / MANIFEST)
    cclm.load(run)
    assert (folder / "model" / VOCABULARY_MAP).is_file()


def test_many_to_one_cannot_be_restricted(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r"translation\.restrict: true needs data\.direction one-to-many"):
        type(recipe(tmp_path)).model_validate(
            {**recipe(tmp_path).model_dump(), "translation": {"restrict": True}}  # many-to-one
        )


def test_a_recipe_that_does_not_set_it_is_written_as_before(tmp_path: Path) -> None:
    assert recipe(tmp_path).model_dump()["translation"] == {"beam": 5, "length_penalty": 1.0}
    assert recipe(tmp_path).restricts is False
    one_to_many = recipe(tmp_path, "data.direction=one-to-many", "translation.restrict=false")
    assert one_to_many.model_dump()["translation"]["restrict"] is False
