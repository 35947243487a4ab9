"""Text in, text out: `cclm.load` and its model, against CTranslate2 given the symbols by hand."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

import cclm
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.translation import export
from cclm.translation.model import UnknownPair

TEXTS = ["su ev", "", "  ", "<2glg> su </s>", "naïve ☃ kitab", "dəniz\u2028quş", "ev su yol gün daş"]


def by_hand(run: Path, texts: list[str], subwords: str, tag: str | None, start: str) -> list[str]:
    """CTranslate2 and SentencePiece as their documents have it; symbols by the prepared vocabulary."""
    prepared = Prepared.open(run.parent.parent / "prepared")
    known = prepared.other
    segment = sentencepiece.SentencePieceProcessor(model_file=str(prepared.folder / "models" / subwords))
    translator = ctranslate2.Translator(str(run / "ctranslate2" / "float32" / "model"))
    found = []
    for text in texts:
        pieces = segment.encode(text.replace("\u2028", " ").strip(), out_type=str)
        source = [known.symbols[known.ids.get(piece, 3)] for piece in pieces]
        if not source:
            found.append("")
            continue
        options = {"beam_size": 2, "max_decoding_length": 256, "min_decoding_length": 0, "disable_unk": True}
        result = translator.translate_batch([[*([tag] if tag else []), *source]], [[start]], **options)
        symbols = [symbol for symbol in result[0].hypotheses[0] if symbol not in known.symbols[:9]]
        found.append("".join(symbols).replace(" ", "").replace("▁", " ").strip())
    return found


@pytest.mark.slow
def test_translations_are_those_of_ctranslate2_by_hand(into_english: Path, both_ways: Path) -> None:
    model = cclm.load(into_english)
    found = model.translate(TEXTS, source="aze", target="eng")
    assert found == by_hand(into_english, TEXTS, "aze.model", None, "<s>")
    assert (found[1], found[2]) == ("", "")
    assert len(set(found)) > 3  # there was something to mix up
    assert model.translate(TEXTS[::-1], source="aze") == found[::-1]
    joint = cclm.load(both_ways)
    assert joint.translate(TEXTS, "eng", "glg") == by_hand(both_ways, TEXTS, "joint.model", "<2glg>", "<2glg>")
    assert joint.translate(TEXTS, "glg", "eng") == by_hand(both_ways, TEXTS, "joint.model", "<2eng>", "<2eng>")
    assert joint.translate(TEXTS, "eng", "glg") != joint.translate(TEXTS, "eng", "aze")


def test_the_test_set_is_translated_by_the_same_path(into_english: Path) -> None:
    Evaluation(into_english).translate()
    text = (into_english / "translations" / "test.aze-eng.source.txt").read_text(encoding="utf-8")
    found = (into_english / "translations" / "test.aze-eng.txt").read_text(encoding="utf-8")
    assert cclm.load(into_english).translate(text.split("\n")[:-1], source="aze") == found.split("\n")[:-1]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("xyz", "eng", "does not translate from xyz to eng; it translates tur-eng, por-eng, aze-eng, glg-eng"),
        ("aze", "tur", "does not translate from aze to tur; it translates tur-eng"),
        (None, None, "from any language to any language there are tur-eng, por-eng, aze-eng, glg-eng: say which"),
    ],
)
def test_unknown_languages_are_refused_with_those_there_are(
    into_english: Path, source: str | None, target: str | None, message: str
) -> None:
    with pytest.raises(UnknownPair, match=message) as error:
        cclm.load(into_english).translate(["su"], source=source, target=target)
    assert isinstance(error.value, ValueError)


def test_a_code_may_be_spelt_otherwise(into_english: Path) -> None:
    model = cclm.load(into_english)
    assert model.translate(["su"], "az_Latn", "EN") == model.translate(["su"], "aze", "eng")


def test_one_text_is_no_list_of_texts(into_english: Path) -> None:
    with pytest.raises(TypeError, match="takes a list of texts; got one text"):
        cclm.load(into_english).translate("su", source="aze")


@pytest.mark.slow
def test_a_text_that_is_too_long_is_refused_by_its_number(into_english: Path, both_ways: Path) -> None:
    model = cclm.load(into_english)
    assert len(model.translate(["1 " * 340], source="aze")) == 1
    with pytest.raises(DataError, match=r"text 2: 1,6\d\d subwords; the model takes at most 1,023: divide it into"):
        model.translate(["su", "1 " * 800], source="aze")
    with pytest.raises(DataError, match="the model takes at most 1,022"):  # the tag takes a place
        cclm.load(both_ways).translate(["1 " * 800], "aze", "eng")


def test_an_export_is_made_once_and_again_for_other_weights(into_english: Path, tmp_path: Path) -> None:
    run = tmp_path / "work" / "runs" / "copy"
    shutil.copytree(into_english, run)
    shutil.copytree(into_english.parent.parent / "prepared", tmp_path / "work" / "prepared")
    cclm.load(run)
    folder = run / "ctranslate2" / "float32"
    made = folder.stat().st_ino
    facts = json.loads((folder / "cclm.json").read_text())
    assert facts["checkpoint"] == (run / "checkpoints" / "best").read_text().strip()
    assert facts["checked"]["samples"] == 64
    assert facts["checked"]["largest_difference"] < 1e-4
    cclm.load(run)
    assert folder.stat().st_ino == made
    for change in ("weights", "a file", "the manifest"):
        if change == "weights":
            names = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
            (run / "checkpoints" / "best").write_text(names[0])
        elif change == "a file":
            (folder / "model" / "model.bin").write_bytes(b"")
        else:
            (folder / "cclm.json").write_text("{")
        assert cclm.load(run).translate(["su"], source="aze")
        assert folder.stat().st_ino != made, change
        made = folder.stat().st_ino
    assert [path.name for path in folder.parent.iterdir()] == ["float32"]


@pytest.mark.slow
def test_int8_is_compared_with_float32_and_that_is_told(
    into_english: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MAX_LOSS_INCREASE", -1.0)
    with pytest.raises(TrainingError, match=r"int8 loses too much on this processor .* use float32"):
        cclm.load(into_english, quantization="int8")
    assert not (into_english / "ctranslate2" / "int8").exists()
    monkeypatch.undo()
    assert len(cclm.load(into_english, quantization="int8").translate(["su"], source="aze")) == 1
    assert "int8: dev loss " in capsys.readouterr().err
    folder = into_english / "ctranslate2"
    checked = json.loads((folder / "int8" / "cclm.json").read_text())["checked"]
    assert abs(checked["dev_loss"] - checked["dev_loss_float32"]) < 0.25
    size = {name: (folder / name / "model" / "model.bin").stat().st_size for name in ("int8", "float32")}
    assert size["int8"] < size["float32"]


def test_what_cannot_be_loaded_is_refused(into_english: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no run here"):
        cclm.load(tmp_path)
    run = tmp_path / "work" / "runs" / "copy"
    shutil.copytree(into_english, run, ignore=shutil.ignore_patterns("ctranslate2"))
    with pytest.raises(DataError, match="no prepared data; run `cclm prepare` first"):
        cclm.load(run)
    shutil.copytree(into_english.parent.parent / "prepared", tmp_path / "work" / "prepared")
    best = run / "checkpoints" / (run / "checkpoints" / "best").read_text().strip()
    weights = best / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(TrainingError, match=r"model.safetensors is damaged \(checksum\)"):
        cclm.load(run)
    weights.write_bytes(whole)
    (best / "manifest.json").write_text("{")
    with pytest.raises(TrainingError, match=r"manifest.json is missing or damaged"):
        cclm.load(run)
    (run.parent / "recipe.json").write_text((run / "config.yaml").read_text())
    with pytest.raises(ConfigError, match="a folder of bitext models; give one of them"):
        cclm.load(run.parent)


def test_an_export_that_is_there_is_used_without_torch(into_english: Path) -> None:
    cclm.load(into_english)
    program = "import sys, cclm; cclm.load(sys.argv[1]).translate(['su'], 'aze'); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(into_english)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
