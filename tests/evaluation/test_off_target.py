"""Off-target rates in scores.json and in the terminal."""

import re
import sys
from pathlib import Path

import pytest
from corpora import write_tsv
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from trained_run import trained_run

from cclm.cli.tables import print_scores
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import off_target, read_lines

ENGLISH = "The weather is very nice today and we are going to the market."
GALICIAN = "Hoxe vai moi bo tempo e imos ao mercado coa nosa avoa."


def trained(folder: Path, *changes: str) -> Path:
    write_tsv(folder / "text", train=80)
    return trained_run(folder, "training.max_steps=2", "training.validate_every=1", *changes)


def put(run: Path, pair: str, lines: list[str]) -> None:
    (run / "translations" / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_the_off_target_rate_ignores_empty_lines() -> None:
    def identify(line: str) -> str:
        return "por" if "ão" in line else "glg"

    assert off_target(["o pan", "", "o pão", " ", "non", "son"], "glg", identify) == 1 / 4
    assert off_target(["o pan"], "por", identify) == 1.0
    assert off_target(["", "\t"], "glg", identify) is None


@pytest.mark.slow
def test_off_target_rates_come_from_py3langid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path, "data.direction=one-to-many")
    evaluation = Evaluation(run)
    evaluation.translate()
    put(run, "eng-glg", [ENGLISH] * 5 + [GALICIAN] * 10 + [""] * 5)
    put(run, "eng-aze", [""] * 20)
    scores = evaluation.score()
    rows = scores.languages
    assert rows["glg"]["off_target"] == 1 / 3  # the empty ones are in no language
    assert "off_target" not in rows["aze"]
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(["tr", "pt", "az", "gl", "en"])
    for lang, code in (("tur", "tr"), ("por", "pt"), ("aze", "az"), ("glg", "gl")):
        lines = read_lines(run / f"translations/test.eng-{lang}.reference.txt")
        expected = sum(identifier.classify(line)[0] != code for line in lines) / len(lines)
        assert rows[lang]["off_target_references"] == expected
    assert re.fullmatch(r"py3langid [\d.]+ among aze, eng, glg, por, tur", scores.signature.off_target)
    assert evaluation.scored() == scores

    print_scores(scores)
    shown = capfd.readouterr().out
    assert "off-target" in shown.splitlines()[0]
    assert f"33.3% ({rows['glg']['off_target_references']:.1%})" in shown
    assert f"- ({rows['aze']['off_target_references']:.1%})" in shown

    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    without = evaluation.score()
    assert capfd.readouterr().err == (
        "no off-target rates: language identification needs py3langid: pip install 'ccl-m[langid]'\n"
    )
    assert {key for row in without.languages.values() for key in row} == {"bleu", "bleu_low", "bleu_high", "chrf"}
    assert without.signature.off_target == ""
    print_scores(without)
    assert "off-target" not in capfd.readouterr().out
