"""Vocabularies: reserved tags, the union of pieces, and segmentation equal to SentencePiece's."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import sentencepiece
from corpora import sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from cclm.data.vocabulary import BOS, EOS, PAD, REPEATED, UNK, Segmenter, Vocabulary, limit_repeats, train_model
from cclm.errors import DataError
from cclm.formats.prepared import VocabularyFile

TEXT = [pair[1] for pair in sentences("glg", 0, 500)] + [f"<2aze> é <2glg> {i}" for i in range(300)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "glg.model"
    path.write_bytes(train_model(TEXT, pieces=150, character_coverage=1.0, name="glg"))
    return path


def vocabulary_of(model: Path) -> Vocabulary:
    pieces = [piece for piece in Segmenter(model).pieces if piece]
    return Vocabulary.join([dict.fromkeys(pieces, 1)], ["aze", "glg"])


def test_a_tag_typed_into_a_text_stays_text(model: Path) -> None:
    segmenter, vocabulary = Segmenter(model), vocabulary_of(model)
    numbers = segmenter.encode(["<2aze> casa"])[0]
    ids = vocabulary.table(segmenter)[numbers].tolist()
    assert set(ids).isdisjoint({*vocabulary.tags.values(), PAD, BOS, EOS, UNK})
    assert vocabulary.decode(ids) == "<2aze> casa"


def test_many_texts_are_encoded_like_each_alone(model: Path) -> None:
    segmenter = Segmenter(model)
    texts = [f"su ev {number} ☃" for number in range(100)]
    assert segmenter.encode(texts) == [segmenter.encode([text])[0] for text in texts]


def test_reserved_symbols_come_first_and_have_no_text() -> None:
    vocabulary = Vocabulary.join([{"▁a": 3, "b": 5}, {"b": 1, "c": 0}], ["aze", "bel"])
    assert vocabulary.symbols == ("<pad>", "<s>", "</s>", "<unk>", "<2aze>", "<2bel>", "b", "▁a", "c")
    assert vocabulary.counts == (0, 0, 0, 0, 0, 0, 6, 3, 0)
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert vocabulary.tag_id("bel") == 5
    assert vocabulary.decode([BOS, 5, 7, 6, UNK, EOS, PAD]) == "ab⁇"


def test_a_piece_that_looks_like_a_reserved_symbol_does_not_become_one() -> None:
    vocabulary = Vocabulary.join([{"<s>": 9, "<2aze>": 9, "a": 1}], ["aze"])
    assert vocabulary.symbols == ("<pad>", "<s>", "</s>", "<unk>", "<2aze>", "<2aze> ", "<s> ", "a")
    assert vocabulary.ids == {"<2aze>": 5, "<s>": 6, "a": 7}
    assert vocabulary.decode([4, 5, 1, 6, 7]) == "<2aze><s>a"


def test_an_unknown_tag_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="no tag for 'xyz' in the vocabulary; known languages: aze, bel"):
        Vocabulary.join([], ["aze", "bel"]).tag_id("xyz")


def test_it_survives_json() -> None:
    vocabulary = Vocabulary.join([{'"▁quote': 3, "ə\\": 5}], ["aze"])
    text = vocabulary.file().text()
    assert Vocabulary.of(VocabularyFile.parse(text, "x")) == vocabulary
    content = json.loads(text) | {"version": 3}
    with pytest.raises(DataError, match="x: version 3; this program reads 1"):
        VocabularyFile.parse(json.dumps(content), "x")


def test_a_repeated_passage_enters_up_to_a_limit() -> None:
    once = [f"sentence number {i} of a text in which no two are alike" for i in range(200)]
    same = ["the same sentence again and again, and once more"] * 10_000
    assert list(limit_repeats(once)) == once
    left = list(limit_repeats([*same, *once]))
    assert left[-200:] == once
    assert REPEATED < sum(map(len, left[:-200])) < 1.1 * REPEATED


def test_isolated_repeated_sentences_are_all_used() -> None:
    text = [x for i in range(3000) for x in (f"sentence number {i}", "Thank you.", "(Applause)")]
    assert list(limit_repeats(text)) == text


def test_passages_that_are_repeated_in_turn_enter_up_to_a_limit() -> None:
    passage = [f"sentence number {i} of a passage" for i in range(50)]
    assert len(list(limit_repeats(passage * 100))) < 500


def test_more_characters_than_pieces_get_a_piece_each() -> None:
    text = ["".join(chr(0xAC00 + 7 * i + k) for k in range(7)) for i in range(60)]
    model = sentencepiece.SentencePieceProcessor(
        model_proto=train_model(text, pieces=100, character_coverage=1.0, name="kor")
    )
    assert model.get_piece_size() == 7 * 60 + 2  # the space and the unknown piece


def test_learning_depends_only_on_the_text(model: Path) -> None:
    again = train_model(TEXT, pieces=150, character_coverage=1.0, name="glg")
    assert again == model.read_bytes()


def test_a_small_text_gets_fewer_pieces_instead_of_an_error() -> None:
    few = train_model(["a b c"] * 3, pieces=8000, character_coverage=1.0, name="tiny")
    assert len(few) > 0


def test_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="no text to learn the subwords of glg from"):
        train_model([], pieces=100, character_coverage=1.0, name="glg")


def test_text_without_letters_is_an_error_that_names_the_language() -> None:
    with pytest.raises(DataError, match="SentencePiece could not learn the subwords of glg"):
        train_model([" ", "  "], pieces=100, character_coverage=1.0, name="glg")


def test_a_file_that_is_not_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(b"no model")
    with pytest.raises(DataError, match=r"x.model: not a SentencePiece model"):
        Segmenter(tmp_path / "x.model")
    with pytest.raises(DataError, match=r"none.model: not a SentencePiece model"):
        Segmenter(tmp_path / "none.model")


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet=sorted(set("".join(TEXT))), max_size=60))
def test_any_text_of_known_characters_decodes_back_to_its_normalised_form(model: Path, text: str) -> None:
    segmenter, vocabulary = Segmenter(model), vocabulary_of(model)
    ids = vocabulary.table(segmenter)[segmenter.encode([text])[0]]
    assert vocabulary.decode(ids.tolist()) == segmenter.normalize(text)


def test_numbers_are_those_of_the_command_line_tools(model: Path, tmp_path: Path) -> None:
    if shutil.which("spm_encode") is None:
        pytest.skip("spm_encode is not installed (apt-get install sentencepiece)")
    lines = [*TEXT, "unha frase que ninguén escribiu", "Ωmega"]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = ["spm_encode", f"--model={model}", "--output_format=id", str(tmp_path / "in.txt")]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [" ".join(map(str, numbers)) for numbers in Segmenter(model).encode(lines)] == theirs
