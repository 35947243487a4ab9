"""Off-target rates and scorers of one's own, in scores.json and on the terminal."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_tsv
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from trained_run import trained_run

from cclm.errors import ConfigError, DataError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.more_scores import scorers_of
from cclm.evaluation.score_table import print_scores
from cclm.evaluation.scores import read_lines

ROOT = Path(__file__).parent.parent.parent
ENGLISH = "The weather is very nice today and we are going to the market."
GALICIAN = "Hoxe vai moi bo tempo e imos ao mercado coa nosa avoa."


def trained(folder: Path, *changes: str) -> Path:
    write_tsv(folder / "text", train=80)
    return trained_run(folder, "training.max_steps=2", "training.validate_every=1", *changes)


def put(run: Path, pair: str, lines: list[str]) -> None:
    (run / "translations" / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.slow
def test_the_off_target_rate_is_py3langids(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path, "data.direction=one-to-many")
    evaluation = Evaluation(run)
    evaluation.translate()
    put(run, "eng-glg", [ENGLISH] * 5 + [GALICIAN] * 10 + [""] * 5)
    put(run, "eng-aze", [""] * 20)
    scores = evaluation.score()
    rows = scores["languages"]
    assert rows["glg"]["off_target"] == 1 / 3  # the empty ones are in no language
    assert "off_target" not in rows["aze"]
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(["tr", "pt", "az", "gl", "en"])
    for lang, code in (("tur", "tr"), ("por", "pt"), ("aze", "az"), ("glg", "gl")):
        lines = read_lines(run / f"translations/test.eng-{lang}.reference.txt")
        expected = sum(identifier.classify(line)[0] != code for line in lines) / len(lines)
        assert rows[lang]["off_target_references"] == expected
    assert re.fullmatch(r"py3langid [\d.]+ among aze, eng, glg, por, tur", scores["signature"]["off_target"])
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
    assert {key for row in without["languages"].values() for key in row} == {"bleu", "bleu_low", "bleu_high", "chrf"}
    assert "off_target" not in without["signature"]
    print_scores(without)
    assert "off-target" not in capfd.readouterr().out


def example(folder: Path) -> str:
    """The scorer of docs/scoring.md, as a command."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scoring.md").read_text(), flags=re.DOTALL)
    (folder / "exact.py").write_text(program)
    return shlex.join([sys.executable, str(folder / "exact.py")])


@pytest.mark.slow
def test_a_scorers_numbers_are_means_over_sentences_and_stay_while_the_translations_hold(tmp_path: Path) -> None:
    run = trained(tmp_path)
    evaluation = Evaluation(run)
    evaluation.translate()
    references = read_lines(run / "translations/test.aze-eng.reference.txt")
    put(run, "aze-eng", [*references[:5], *(line + " x" for line in references[5:])])
    command = [sys.executable, "-m", "cclm", "score", str(run), "--scorer", f"exact={example(tmp_path)}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["BLEU", "95", "%", "chrF", "exact"]
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("aze"))
    assert row[-1] == "0.25"
    scores = json.loads((run / "scores.json").read_text())
    assert {lang: row["exact"] for lang, row in scores["languages"].items()} == {
        "tur": 0,
        "por": 0,
        "aze": 0.25,
        "glg": 0,
    }
    assert scores["signature"]["scorers"] == {"exact": example(tmp_path)}
    assert "off_target" not in scores["languages"]["aze"]  # all translations are into English

    assert evaluation.scored() == scores
    assert evaluation.score() == scores
    fields = ["source", "language", "source_language", "target_language"]
    told = f"import json, sys; [print(json.dumps({{'id': s['id'], 'score': len(''.join(s[f] for f in {fields}))}}))"
    told += " for s in map(json.loads, sys.stdin)]"
    both = evaluation.score({"told": shlex.join([sys.executable, "-c", told])})
    assert set(both["signature"]["scorers"]) == {"exact", "told"}
    sources = read_lines(run / "translations/test.aze-eng.source.txt")
    assert both["languages"]["aze"]["told"] == pytest.approx(sum(map(len, sources)) / 20 + len("azeazeeng"))
    assert both["languages"]["aze"]["exact"] == 0.25

    before = (run / "scores.json").read_bytes()
    with pytest.raises(
        DataError, match=r"^scorer mine \(false\): ended with exit status 1; it may have said why above$"
    ):
        evaluation.score({"mine": "false"})
    assert (run / "scores.json").read_bytes() == before
    damaged = json.loads(before)
    del damaged["languages"]["aze"]["told"]
    (run / "scores.json").write_text(json.dumps(damaged))
    assert set(evaluation.score()["signature"]["scorers"]) == {"exact"}
    best = run / "checkpoints" / "best"
    best.write_text("step-00000001\n" if "2" in best.read_text() else "step-00000002\n")
    assert "scorers" not in evaluation.score()["signature"]


def test_scorers_are_named() -> None:
    assert scorers_of([]) == {}
    assert scorers_of(["comet-22=python x.py --a=b", "b=c"]) == {"comet-22": "python x.py --a=b", "b": "c"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["comet"], "--scorer comet: write NAME=COMMAND, the name of letters, digits"),
        (["comet= "], "--scorer comet= : write NAME=COMMAND"),
        (["=x"], "--scorer =x: write NAME=COMMAND"),
        (["a b=x"], "--scorer a b=x: write NAME=COMMAND"),
        (["chrf=x"], "--scorer chrf=x: 'chrf' is taken; give the scorer another name"),
        (["a=x", "a=y"], "--scorer a=y: 'a' is taken"),
    ],
)
def test_a_scorer_without_a_name_of_its_own_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        scorers_of(given)
