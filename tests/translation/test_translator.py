"""CTranslate2's search against a textbook beam over the torch model, and what a translator promises its callers."""

import random
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import pytest
from translation.reference_model import TAGS, Reference, beam_search, taught

from cclm.errors import ConfigError, DataError
from cclm.translation.convert import convert
from cclm.translation.translator import DEVICE, POSITIONS, Translator, device_for


def exported(model: Reference, folder: Path) -> Path:
    sides = {"source_symbols": model.source_symbols, "target_symbols": model.target_symbols}
    convert(model.state(), heads=model.heads, folder=folder, **sides)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model, whose translations are of no use, but differ from source to source.

    For that, the last norm has weights of either sign: the tied embedding else makes each token its own successor.
    """
    model = Reference()
    model.state()["decoder.norm.weight"][::2] *= -1
    return exported(model, tmp_path_factory.mktemp("untrained") / "model")


def random_sources(model: Reference, count: int, longest: int) -> list[list[str]]:
    chance = random.Random(7)
    pieces = model.source_symbols[7:]
    return [[chance.choice(TAGS), *chance.choices(pieces, k=chance.randint(1, longest))] for _ in range(count)]


SOURCES = random_sources(Reference(), 40, 30)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [False, True], ids=["separate", "joint"])
def test_greedy_and_beam_output_equal_a_textbook_beam_search(joint: bool, tmp_path: Path) -> None:
    model = taught(Reference(joint=joint))
    translator = Translator(exported(model, tmp_path / "model"), threads=2)
    sources = random_sources(model, 100, 9)
    found = []
    for beam, prefix, length_penalty in [(1, "<2bel>", 1.0), (5, "<2bel>", 1.0), (5, "<s>", 1.0), (5, "<2aze>", 0.5)]:
        search = {"beam": beam, "length_penalty": length_penalty, "max_length": 12}
        ours = translator.translate_ids(sources, prefix, **search)  # type: ignore[arg-type]
        assert ours == [beam_search(model, source, prefix, **search) for source in sources]  # type: ignore[arg-type]
        found.append(ours)
    greedy, best = found[:2]
    # There was something to get wrong: lengths differ, some sentences are cut, and the beam finds what greed does not.
    assert len({len(target) for target in best}) > 4
    assert max(len(target) for target in greedy) == 12
    assert sum(a != b for a, b in zip(greedy, best, strict=True)) > 10


def test_order_is_kept_whatever_the_batches_and_threads(folder: Path) -> None:
    alone = Translator(folder)
    one_by_one = [alone.translate_ids([source], "<s>", 2, 1.0, 8)[0] for source in SOURCES]
    assert len({tuple(target) for target in one_by_one}) > 5
    for threads, batch_tokens in [(1, 64), (2, 64), (2, 4096), (1, 1)]:
        translator = Translator(folder, threads=threads, batch_tokens=batch_tokens)
        assert translator.translate_ids(SOURCES, "<s>", 2, 1.0, 8) == one_by_one


def test_an_empty_source_gives_an_empty_target_in_its_place(folder: Path) -> None:
    translator = Translator(folder)
    whole = translator.translate_ids(SOURCES[:3], "<s>", 2, 1.0, 8)
    with_gaps = translator.translate_ids([[], SOURCES[0], [], *SOURCES[1:3], []], "<s>", 2, 1.0, 8)
    assert with_gaps == [[], whole[0], [], whole[1], whole[2], []]
    assert translator.translate_ids([[], []], "<s>", 2, 1.0) == [[], []]
    assert translator.translate_ids([], "<s>", 2, 1.0) == []


def test_progress_counts_every_sentence_once(folder: Path) -> None:
    told: list[int] = []
    Translator(folder, batch_tokens=64).translate_ids([[], *SOURCES], "<s>", 2, 1.0, 8, progress=told.append)
    assert sum(told) == 41
    assert len(told) > 10


def test_batches_keep_to_the_budget_of_tokens(folder: Path) -> None:
    # 40 sources of one length, 4 tokens with </s>: a budget of 40 holds ten of them, so there are four batches.
    told: list[int] = []
    same = [["<2aze>", "▁s1", "▁s2"]] * 40
    Translator(folder, batch_tokens=40).translate_ids(same, "<s>", 1, 1.0, 4, progress=told.append)
    assert told == [0, 10, 10, 10, 10]


def test_neither_the_start_nor_the_end_is_in_a_translation(folder: Path) -> None:
    targets = Translator(folder).translate_ids(SOURCES, "<2glg>", 5, 1.0, 8)
    assert all(target[0] != "<2glg>" for target in targets)
    assert all("</s>" not in target for target in targets)


@pytest.mark.parametrize("beam", [1, 5])
def test_a_translation_may_be_empty_but_never_unknown(beam: int, tmp_path: Path) -> None:
    # The last norm gives (1, ..., 1) always, whose product with the embedding is a token's score: 64 for <unk>,
    # 32 for </s>, 0 plus or minus 1 for all others.
    model = Reference()
    state = model.state()
    state["decoder.norm.weight"][...], state["decoder.norm.bias"][...] = 0, 1
    state["target_embedding.weight"][2:4] = [[1], [2]]
    translator = Translator(exported(model, tmp_path / "model"))
    assert translator.translate_ids(SOURCES[:2], "<s>", beam, 1.0, 8) == [[], []]


def test_translations_end_at_the_greatest_length(folder: Path) -> None:
    assert max(len(target) for target in Translator(folder).translate_ids(SOURCES, "<s>", 5, 1.0, 3)) == 3


def test_a_source_longer_than_the_table_loses_its_end_with_a_warning(folder: Path) -> None:
    translator = Translator(folder)
    longest = ["▁s1", "▁s2", "▁s3"] * 341  # 1023 tokens; </s> takes the last of 1024 positions
    assert len(longest) == POSITIONS - 1
    whole = translator.translate_ids([longest], "<s>", 1, 1.0, 4)
    with pytest.warns(UserWarning, match="sources of over 1023 tokens are translated without their end: 1"):
        cut = translator.translate_ids([[*longest, "▁s5", "▁s6"]], "<s>", 1, 1.0, 4)
    assert cut == whole


@pytest.mark.parametrize(
    ("source", "prefix", "beam", "max_length", "message"),
    [
        (["▁s1"], "<2xyz>", 1, 8, "the model has no target symbol '<2xyz>'"),
        (["<2xyz>", "▁s1"], "<s>", 1, 8, "source 0: the model has no source symbol '<2xyz>'"),
        (["▁s1", "</s>"], "<s>", 1, 8, "source 0 contains </s>, which the model adds itself"),
        (["▁s1"], "<s>", 0, 8, "beam must be at least 1; got 0"),
        (["▁s1"], "<s>", 1, 0, "max_length must be at least 1 and below the model's 1024 positions; got 0"),
        (["▁s1"], "<s>", 1, 1024, "max_length must be at least 1 and below the model's 1024 positions; got 1024"),
    ],
)
def test_what_cannot_be_translated_is_refused(
    folder: Path, source: Sequence[str], prefix: str, beam: int, max_length: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Translator(folder).translate_ids([list(source)], prefix, beam, 1.0, max_length)


def test_a_sample_longer_than_the_table_is_not_scored(folder: Path) -> None:
    with pytest.raises(ValueError, match="a sample of 1025 tokens cannot be scored: the model has 1024 positions"):
        Translator(folder).score([(["▁s1"], ["<s>"] + ["▁t1"] * 1024)])


def test_a_translator_needs_a_model_and_a_thread(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no exported model is there"):
        Translator(tmp_path)
    with pytest.raises(ValueError, match="threads and batch_tokens must be at least 1; got 0 and 768"):
        Translator(folder, threads=0)


def test_auto_translates_on_a_gpu_where_ctranslate2_finds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEVICE, raising=False)
    for gpus, device in ((0, "cpu"), (2, "cuda")):
        monkeypatch.setattr(ctranslate2, "get_cuda_device_count", lambda gpus=gpus: gpus)
        assert device_for("auto") == device
        assert device_for("cpu") == "cpu"
    monkeypatch.setenv(DEVICE, "cpu")
    assert device_for("auto") == "cpu"
    monkeypatch.setenv(DEVICE, "toaster")
    with pytest.raises(
        ConfigError, match="environment variable CCLM_TRANSLATION_DEVICE is 'toaster': cpu, cuda or auto"
    ):
        device_for("auto")


@pytest.mark.skipif(ctranslate2.get_cuda_device_count() > 0, reason="there is a GPU")
def test_a_gpu_that_cannot_be_used_is_named_with_the_way_out(folder: Path) -> None:
    with pytest.raises(DataError, match=r"cannot use the GPU \(.*CCLM_TRANSLATION_DEVICE=cpu"):
        Translator(folder, device="cuda")
