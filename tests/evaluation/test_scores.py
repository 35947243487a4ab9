"""Scores compared with the SacreBLEU command on the same files; invalid input."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from cclm.evaluation.scores import bleu, read_lines, score

REFERENCES = [
    "The old teacher reads a book, doesn't she?",
    "We bought three apples at the market.",
    "Baku is the capital of Azerbaijan; Minsk is that of Belarus.",
    "It's raining\u2028again.",  # a line separator of Unicode's, inside of a sentence
    "My brother works in the hospital on Sundays.",
    "“Come in!”, said the child.",
] * 3
GOOD = [
    "The old teacher is reading a book, isn't she?",
    "We bought three apples on the market.",
    "Baku is the capital of Azerbaijan; Minsk that of Belarus.",
    "It is raining\u2028again.",
    "my brother works at the hospital on sundays.",
    "",
] * 3
POOR = ["The teacher has a book.", "We apples.", "Baku is.", "Rain.", "brother on Sundays works.", "Come in"] * 3
SYSTEMS = {"tur": (GOOD, REFERENCES), "aze": (POOR, REFERENCES), "bel": (REFERENCES[3:], REFERENCES[3:])}
GROUPS = {"high_resource": ["tur", "rus"], "low_resource": ["aze", "bel"]}


def command_line(folder: Path, hypotheses: list[str], *arguments: str, seed: int = 12345) -> Any:
    """The output of the `sacrebleu` command for the two files."""
    for name, lines in (("hyp", hypotheses), ("ref", REFERENCES)):
        (folder / name).write_bytes("".join(line + "\n" for line in lines).encode())
    program = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-w", "4", *arguments]
    environment = {**os.environ, "SACREBLEU_SEED": str(seed)}
    result = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["tur", "aze"])
def test_scores_equal_those_of_the_sacrebleu_command(lang: str, tmp_path: Path) -> None:
    hypotheses = SYSTEMS[lang][0]
    both = command_line(tmp_path, hypotheses, "-m", "bleu", "chrf")
    resampled = command_line(tmp_path, hypotheses, "-m", "bleu", "--confidence")
    read = (read_lines(tmp_path / "hyp"), read_lines(tmp_path / "ref"))
    assert read == SYSTEMS[lang]

    result = score({lang: read}, **GROUPS)
    scores = result.languages[lang]
    assert {metric["name"]: metric["score"] for metric in both} == {
        "BLEU": round(scores["bleu"], 4),
        "chrF2": round(scores["chrf"], 4),
    }
    assert (scores["bleu_low"] + scores["bleu_high"]) / 2 == pytest.approx(resampled["confidence_mean"], abs=1e-4)
    assert (scores["bleu_high"] - scores["bleu_low"]) / 2 == pytest.approx(resampled["confidence_var"], abs=1e-4)
    # Where the command line has the parts of a signature as keys, ours is one string.
    for name, printed in (("bleu", resampled), ("chrf", both[1])):
        parts = dict(part.split(":") for part in getattr(result.signature, name).split("|"))
        assert parts == {key: printed[key] for key in parts}


@pytest.mark.slow
def test_the_seed_sets_the_bootstrap(tmp_path: Path) -> None:
    printed = command_line(tmp_path, GOOD, "-m", "bleu", "--confidence", "--confidence-n", "50", seed=7)
    scores = score({"tur": (GOOD, REFERENCES)}, **GROUPS, bootstrap=50, seed=7).languages["tur"]
    assert (scores["bleu_low"] + scores["bleu_high"]) / 2 == pytest.approx(printed["confidence_mean"], abs=1e-4)
    other = score({"tur": (GOOD, REFERENCES)}, **GROUPS, bootstrap=50, seed=8).languages["tur"]
    assert other["bleu"] == scores["bleu"]
    assert other["bleu_low"] != scores["bleu_low"]


@pytest.mark.parametrize("before", [None, "99"])
def test_the_environment_is_restored(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before is not None:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    result = score(SYSTEMS, **GROUPS, bootstrap=10, seed=3)
    assert os.environ.get("SACREBLEU_SEED") == before
    assert "seed:3" in result.signature.bleu


def test_the_result_is_the_content_of_scores_json() -> None:
    result = score(SYSTEMS, **GROUPS, bootstrap=10)
    content = json.loads(result.text())
    assert list(content) == ["version", "signature", "languages", "means"]
    assert content["version"] == 1
    version = sacrebleu.__version__
    assert content["signature"] == {
        "sacrebleu": version,
        "bleu": f"nrefs:1|bs:10|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}",
    }
    assert list(content["languages"]) == ["tur", "aze", "bel"]
    assert list(content["languages"]["tur"]) == ["bleu", "bleu_low", "bleu_high", "chrf"]


def test_means_of_bleu_cover_all_languages_each_group_and_the_worst() -> None:
    result = score(SYSTEMS, **GROUPS, bootstrap=10)
    tur, aze, bel = (result.languages[lang]["bleu"] for lang in ("tur", "aze", "bel"))
    assert bel == pytest.approx(100)  # the references themselves
    assert aze < tur < bel
    means = {"all": (tur + aze + bel) / 3, "hrl": tur, "lrl": (aze + bel) / 2, "worst": aze}
    assert result.means.plain() == pytest.approx(means)


def test_the_mean_of_a_group_without_a_language_is_none() -> None:
    result = score({"aze": (POOR, REFERENCES)}, **GROUPS, bootstrap=10)
    bleu = result.languages["aze"]["bleu"]
    assert result.means.plain() == {"all": bleu, "hrl": None, "lrl": bleu, "worst": bleu}


def test_scores_lie_in_their_interval_and_are_case_sensitive() -> None:
    scores = score(SYSTEMS, **GROUPS).languages["tur"]
    assert scores["bleu_low"] < scores["bleu"] < scores["bleu_high"]
    lowered = [line.lower() for line in GOOD]
    assert score({"tur": (lowered, REFERENCES)}, **GROUPS, bootstrap=10).languages["tur"]["bleu"] < scores["bleu"]


def test_empty_translations_score_zero() -> None:
    scores = score({"aze": ([""] * len(REFERENCES), REFERENCES)}, **GROUPS, bootstrap=10).languages["aze"]
    assert scores == {"bleu": 0.0, "bleu_low": 0.0, "bleu_high": 0.0, "chrf": 0.0}


@pytest.mark.parametrize(
    ("systems", "groups", "message"),
    [
        ({"aze": (["a", "b"], ["a"])}, {}, "aze: 2 hypotheses for 1 references"),
        ({"aze": (["a"], ["a", "b"])}, {}, "aze: 1 hypotheses for 2 references"),
        ({"aze": ([], [])}, {}, "aze: all 0 references are empty"),
        ({"aze": (["a", "b"], ["", " "])}, {}, "aze: all 2 references are empty"),
        ({}, {}, "no language to score"),
        ({"slk": (["a"], ["a"])}, {}, "slk is neither high- nor low-resource; it must be exactly one of the two"),
        ({"aze": (["a"], ["a"])}, {"high_resource": ["aze"]}, "aze is both high- and low-resource"),
        ({"aze": (["a"], ["a"])}, {"bootstrap": 1}, "bootstrap must be at least 2 resamples; got 1"),
    ],
)
def test_invalid_input_to_score_is_refused(systems: dict[str, Any], groups: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score(systems, **{**GROUPS, **groups})


def test_sacrebleu_accepts_unequal_numbers_of_lines() -> None:
    # The reason for our refusal; should this fail one day, ours may go.
    assert sacrebleu.metrics.bleu.BLEU().corpus_score(["a b c d", "e f"], [["a b c d"]]).score == pytest.approx(100)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\nb", ["a", "b"]),
        ("a\u2028b\x0bc\x85d\r\ne\x1cf\n".encode(), ["a\u2028b\x0bc\x85d\r", "e\x1cf"]),
    ],
)
def test_only_a_newline_ends_a_line(content: bytes, lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    assert read_lines(tmp_path / "text") == lines


def test_invalid_utf8_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("a\nə\n".encode() + b"caf\xe9\n")
    with pytest.raises(ValueError, match=r"text, line 3: not UTF-8 \(invalid continuation byte\)"):
        read_lines(tmp_path / "text")


def test_bleu_equals_the_bleu_of_score() -> None:
    systems = {"aze": (["the cat sat on the mat today", "a b c d e"], ["the cat sat on a mat today", "a b c d e f"])}
    whole = score(systems, high_resource=[], low_resource=["aze"], bootstrap=2)
    assert bleu(*systems["aze"]) == whole.languages["aze"]["bleu"] > 10
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        bleu(["a"], ["a", "b"])
