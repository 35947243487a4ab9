"""`cclm compare` on trained runs with prepared translations: results, output, errors."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpora import write_tsv
from trained_run import trained_run

from cclm.cli.tables import print_comparisons
from cclm.errors import ConfigError, DataError
from cclm.evaluation.compare import compare as compare_runs
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import read_lines
from cclm.experiments.benchmark import RECIPE

LANGUAGES = ("tur", "por", "aze", "glg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs `fair` (some words missing), an identical copy, `shuffled`, and `poor` (many words missing)."""
    place = tmp_path_factory.mktemp("compare")
    write_tsv(place / "text", train=80)
    runs = trained_run(place, "training.max_steps=2", "training.validate_every=2", "name=fair").parent
    Evaluation(runs / "fair").translate()
    rng = np.random.default_rng(3)
    for name, lost in (("fair", 0.15), ("poor", 0.5)):
        if name != "fair":
            shutil.copytree(runs / "fair", runs / name)
        for lang in LANGUAGES:
            lines = read_lines(runs / name / f"translations/test.{lang}-eng.reference.txt")
            kept = [" ".join(word for word in line.split() if rng.random() >= lost) for line in lines]
            put(runs / name, lang, kept)
    shutil.copytree(runs / "fair", runs / "double")
    shutil.copytree(runs / "fair", runs / "shuffled")
    for lang in LANGUAGES:
        lines = read_lines(runs / f"fair/translations/test.{lang}-eng.txt")
        put(runs / "shuffled", lang, list(rng.permutation(lines)))
    return runs


def put(run: Path, lang: str, lines: list[str], kind: str = "") -> None:
    path = run / "translations" / f"test.{lang}-eng{kind}.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def compare(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The output of `cclm compare --json`."""
    return compare_runs(*arguments, **options).content()


@pytest.mark.slow
def test_a_double_does_not_differ_and_shuffled_output_loses(folder: Path) -> None:
    found = compare([folder / name for name in ("fair", "double", "shuffled")], samples=500)
    assert (found["version"], found["metric"], found["split"], found["samples"]) == (1, "bleu", "test", 500)
    assert found["baseline"]["name"] == "fair"
    assert found["baseline"]["made_from"]["split"] == "test"
    double, shuffled = found["comparisons"]
    for row in (*double["languages"].values(), *double["means"].values()):
        assert (row["difference"], row["low"], row["high"], row["p"]) == (0, 0, 0, 1)
    assert double["sentence"].startswith(
        "on these test sentences, no difference detected between double and fair: +0.00"
    )
    assert list(shuffled["languages"]) == list(LANGUAGES)
    assert list(shuffled["means"]) == ["all", "hrl", "lrl"]
    for row in (*shuffled["languages"].values(), *shuffled["means"].values()):
        assert row["high"] < 0
        assert row["p"] < 0.01
    assert shuffled["holm"] == pytest.approx(2 * shuffled["means"]["all"]["p"])  # the smaller of two
    assert double["holm"] == 1
    assert "shuffled scores lower than fair" in shuffled["sentence"]
    assert shuffled["sentence"].endswith("licenses no claim about the method")


@pytest.mark.slow
def test_groups_are_those_of_the_recipe_and_chrf_is_chrf(folder: Path) -> None:
    found = compare([folder / "fair", folder / "poor"], metric="chrf", samples=100)
    (poor,) = found["comparisons"]
    differences = {lang: row["difference"] for lang, row in poor["languages"].items()}
    for name, langs in (("all", LANGUAGES), ("hrl", ("tur", "por")), ("lrl", ("aze", "glg"))):
        assert poor["means"][name]["difference"] == pytest.approx(np.mean([differences[lang] for lang in langs]))
    scores = Evaluation(folder / "poor").score()
    assert {lang: row["system"] for lang, row in poor["languages"].items()} == pytest.approx(
        {lang: row["chrf"] for lang, row in scores.languages.items()}
    )


@pytest.mark.slow
def test_the_table_has_one_row_per_language_and_explains_its_marks(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    print_comparisons(compare_runs([folder / name for name in ("fair", "poor", "double")], samples=1000))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    heads = [line.split() for line in lines if "difference  " in line]
    assert heads == [
        [*names, "difference", "95", "%", "p", "SacreBLEU's", "p"] for names in (("fair", "poor"), ("fair", "double"))
    ]
    rows = [line.split() for line in lines]
    for name in (*LANGUAGES, "mean", "HRLs", "LRLs"):
        first, second = (row for row in rows if row and row[0] == name)
        assert "**" in first
        assert "**" not in second
        assert second[3:8] == ["+0.0", "+0.0", "to", "+0.0", "1.000"]
    assert sum("licenses no claim about the method" in line for line in lines) == 2
    assert lines[-1].startswith("* p < 0.05, ** p < 0.01, two-sided: 1,000 resamples of the sentences of each language")
    assert "adjusted for 2 comparisons" in lines[-1]


@pytest.mark.slow
def test_runs_with_different_references_are_refused(folder: Path, tmp_path: Path) -> None:
    lines = read_lines(folder / "fair/translations/test.aze-eng.reference.txt")
    shutil.copytree(folder / "fair", folder / "other")
    put(folder / "other", "aze", [*lines[:2], "another", *lines[3:]], ".reference")
    message = r"other: the references of aze are not those of .*fair \(line 3\): compare runs over the same test"
    with pytest.raises(ConfigError, match=message):
        compare([folder / "fair", folder / "other"])
    shutil.copytree(folder.parent, tmp_path / "work")  # another work folder, whose test set is one sentence shorter
    manifest = tmp_path / "work" / "prepared" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["sizes"]["aze"]["test"] = 19
    manifest.write_text(json.dumps(content))
    shorter = tmp_path / "work" / "runs" / "fair"
    for kind in ("", ".reference", ".source"):
        put(shorter, "aze", read_lines(shorter / f"translations/test.aze-eng{kind}.txt")[:-1], kind)
    with pytest.raises(ConfigError, match=r"references of aze are not those of .*fair \(19 lines and 20\)"):
        compare([folder / "fair", shorter])


@pytest.mark.slow
def test_the_bitext_folder_is_one_system_and_is_translated_first(folder: Path) -> None:
    bitext, cached = folder / "bitext", folder / "cache" / "0123456789abcdef"
    cached.mkdir(parents=True)
    bitext.symlink_to(cached)
    for lang in LANGUAGES:  # each of them the same model as `fair`
        shutil.copytree(folder / "fair", bitext / lang)
        shutil.rmtree(bitext / lang / "translations")
    shutil.copy(folder / "fair" / "config.yaml", bitext / RECIPE)
    shutil.copytree(folder / "fair", folder / "fresh")
    shutil.rmtree(folder / "fresh" / "translations")
    found = compare([folder / "fresh", bitext], samples=100)
    assert (folder / "fresh" / "translations" / "test.json").exists()
    assert (bitext / "translations" / "test.json").exists()
    assert found["comparisons"][0]["means"]["all"]["p"] == 1
    assert found["comparisons"][0]["name"] == "bitext"
    with pytest.raises(ConfigError, match=r"bitext/aze translates aze; .*fair translates tur, por, aze, glg: compare"):
        compare([folder / "fair", bitext / "aze"])
    made_from = bitext / "tur" / "made_from.json"
    made_from.write_text(json.dumps({**json.loads(made_from.read_text()), "data": "0123456789abcdef0123"}))
    with pytest.raises(DataError, match=r"bitext/tur was trained on data 0123456789abcdef, but .* holds data"):
        Evaluation(bitext)


@pytest.mark.slow
def test_runs_with_the_same_name_are_named_by_their_paths(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder.parent, tmp_path / "work")
    other = tmp_path / "work" / "runs" / "fair"
    found = compare([folder / "fair", other], samples=100)
    assert [found["baseline"]["name"], found["comparisons"][0]["name"]] == [str(folder / "fair"), str(other)]


def test_a_single_run_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "cclm", "compare", "a"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give two runs or more: the first is what the others are compared with" in done.stderr


@pytest.mark.slow
def test_the_command_prints_json(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "cclm",
        "compare",
        "fair",
        "poor",
        "--metric",
        "chrf",
        "--samples",
        "100",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["comparisons"][0]["means"]["all"]["difference"] < 0
    assert found["comparisons"][0]["training_seed"] == 1
