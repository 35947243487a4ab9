"""`cclm compare` over several seeds: grouping into methods, pairing by seed, errors."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from scipy import stats
from scored_runs import LANGUAGES, scored_run

from cclm.cli.tables import print_comparisons
from cclm.errors import ConfigError
from cclm.evaluation.compare import compare as compare_runs
from cclm.evaluation.scores import read_lines

pytestmark = pytest.mark.slow
UNIFORM, TAU_5 = (
    f"curriculum={{gate: {{name: all}}, sampler: {{name: temperature, tau: {tau}}}}}" for tau in (".inf", 5)
)
GROUPS = {"all": LANGUAGES, "hrl": ("tur", "por"), "lrl": ("aze", "glg")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods with three seeds each; `ccl-m` is better than `uniform`, and `tau-5` is worse."""
    folder = tmp_path_factory.mktemp("methods")
    for seed in (1, 2, 3):
        for name, lost, changes in (("uniform", 0.3, [UNIFORM]), ("ccl-m", 0.2, []), ("tau-5", 0.33, [TAU_5])):
            place = scored_run(folder, f"{name}.{seed}", seed, *changes, lost=lost)
    return place.parent


def compare(*arguments: Any, **options: Any) -> dict[str, Any]:
    """The output of `cclm compare --json`."""
    return compare_runs(*arguments, **options).content()


def of(runs: Path, *names: str) -> list[Path]:
    return [runs / name for name in names]


def bleu(run: Path, lang: str) -> float:
    lines, references = (read_lines(run / f"translations/test.{lang}-eng{kind}.txt") for kind in ("", ".reference"))
    return float(sacrebleu.corpus_bleu(lines, [references]).score)


def test_methods_are_compared_by_a_paired_t_test_over_seeds(runs: Path) -> None:
    found = compare(of(runs, "uniform.1", "uniform.2", "ccl-m.3", "ccl-m.1", "uniform.3", "ccl-m.2"))
    assert (found["version"], found["metric"], found["split"]) == (1, "bleu", "test")
    assert found["baseline"]["name"] == "uniform"
    assert [facts["training_seed"] for facts in found["baseline"]["runs"]] == [1, 2, 3]
    (comparison,) = found["comparisons"]
    assert (comparison["name"], comparison["seeds"], comparison["left_out"]) == ("ccl-m", [1, 2, 3], [])
    assert [facts["run"] for facts in comparison["runs"]] == [str(runs / f"ccl-m.{seed}") for seed in (1, 2, 3)]
    rows = {name: (comparison["means"][name], langs) for name, langs in GROUPS.items()}
    rows |= {lang: (comparison["languages"][lang], (lang,)) for lang in LANGUAGES}
    for row, langs in rows.values():
        ours, theirs = (
            [np.mean([bleu(runs / f"{name}.{seed}", lang) for lang in langs]) for seed in (1, 2, 3)]
            for name in ("ccl-m", "uniform")
        )
        expected = stats.ttest_rel(ours, theirs)
        interval = expected.confidence_interval()
        assert (row["system"], row["baseline"]) == pytest.approx((np.mean(ours), np.mean(theirs)))
        assert (row["low"], row["high"], row["p"]) == pytest.approx((interval.low, interval.high, expected.pvalue))
        assert list(row["differences"].values()) == pytest.approx(np.subtract(ours, theirs))
    mean = comparison["means"]["all"]
    assert comparison["holm"] == mean["p"] < 0.05
    assert comparison["sentence"].startswith(f"ccl-m scores higher than uniform: {mean['difference']:+.2f} BLEU [")
    assert comparison["sentence"].endswith(", 3 seeds; with fewer than 5 seeds, a hint and no more")


def test_p_in_a_sentence_is_adjusted_for_the_number_of_methods(runs: Path) -> None:
    names = [f"{name}.{seed}" for name in ("uniform", "ccl-m", "tau-5") for seed in (1, 2, 3)]
    found = compare(of(runs, *names), metric="chrf")
    p = [comparison["means"]["all"]["p"] for comparison in found["comparisons"]]
    smaller, larger = sorted(p)
    adjusted = {smaller: 2 * smaller, larger: max(larger, 2 * smaller)}
    assert [comparison["holm"] for comparison in found["comparisons"]] == pytest.approx([adjusted[each] for each in p])
    assert all("after Holm, 3 seeds" in comparison["sentence"] for comparison in found["comparisons"])


def test_the_table_says_that_it_is_a_t_test_over_seeds(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    given = of(runs, *(f"{name}.{seed}" for name in ("uniform", "ccl-m") for seed in (1, 2, 3)))
    print_comparisons(compare_runs(given, samples=100))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "BLEU on the test sets, seeds 1 to 3 on average"
    assert lines[1].split() == ["uniform", "ccl-m", "difference", "95", "%", "p"]
    (comparison,) = compare(given)["comparisons"]
    shown = {line.split()[0]: line.split() for line in lines[2:9]}
    for title, row in {**comparison["languages"], "mean": comparison["means"]["all"]}.items():
        mark = ["**"] if row["p"] < 0.01 else ["*"] if row["p"] < 0.05 else []
        interval = [f"{row['low']:+.1f}", "to", f"{row['high']:+.1f}"]
        numbers = [f"{row['baseline']:.1f}", f"{row['system']:.1f}", f"{row['difference']:+.1f}"]
        assert shown[title] == [title, *numbers, *interval, f"{row['p']:.3f}", *mark]
    assert lines[9] == comparison["sentence"]
    assert lines[-1] == (
        "* p < 0.05, ** p < 0.01, two-sided: a paired t-test of the differences from seed to seed, not a bootstrap of"
        " sentences; not adjusted for the number of rows."
    )


def test_with_one_common_seed_its_sentences_are_resampled_and_other_runs_are_named(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    given = of(runs, "uniform.1", "uniform.2", "ccl-m.2", "ccl-m.3", "tau-5.1", "tau-5.2")
    found = compare(given, samples=100)
    one, several = found["comparisons"]
    assert (one["seeds"], several["seeds"]) == ([2], [1, 2])
    assert one["left_out"] == [str(runs / "uniform.1"), str(runs / "ccl-m.3")]
    (alone,) = compare(of(runs, "uniform.2", "ccl-m.2"), samples=100)["comparisons"]
    assert (one["languages"], one["means"]) == (alone["languages"], alone["means"])
    assert "licenses no claim about the method" in one["sentence"]
    assert ", 2 seeds" in several["sentence"]
    print_comparisons(compare_runs(given, samples=100))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    shown = "\n".join(lines)
    assert "BLEU on the test sets, seed 2" in lines
    assert "BLEU on the test sets, seeds 1, 2 on average" in lines
    assert f"left out, no run of the other with that seed: {runs / 'uniform.1'}, {runs / 'ccl-m.3'}" in lines
    assert "not a bootstrap of sentences; with a single seed, 100 resamples of the sentences" in shown


def test_one_run_of_each_method_or_runs_of_one_method_are_compared_run_by_run(runs: Path) -> None:
    for names in (("uniform.1", "ccl-m.2"), ("ccl-m.1", "ccl-m.2", "ccl-m.3")):
        found = compare(of(runs, *names), samples=100)
        assert [found["baseline"]["name"], *(one["name"] for one in found["comparisons"])] == list(names)
        for comparison in found["comparisons"]:
            assert "seeds" not in comparison
            assert "licenses no claim about the method" in comparison["sentence"]


def test_a_method_with_the_same_seed_twice_is_refused(runs: Path) -> None:
    shutil.copytree(runs / "ccl-m.2", runs / "again")
    message = r"again has the same method and the same seed \(2\) as .*ccl-m\.2: .* give only one of the two"
    with pytest.raises(ConfigError, match=message):
        compare(of(runs, "uniform.1", "uniform.2", "ccl-m.1", "ccl-m.2", "again"))


def test_methods_without_a_common_seed_are_refused(runs: Path) -> None:
    message = r"ccl-m has seed 3, uniform has seeds 1, 2: methods are paired by seed; give runs of both with the same"
    with pytest.raises(ConfigError, match=message):
        compare(of(runs, "uniform.2", "uniform.1", "ccl-m.3"))


def names_of(*given: Path) -> list[str]:
    found = compare(given)
    return [found["baseline"]["name"], *(comparison["name"] for comparison in found["comparisons"])]


def test_a_method_has_the_name_that_its_runs_share(tmp_path: Path) -> None:
    first, second, third, fourth = (
        scored_run(tmp_path, name, seed, *changes, lost=0.3)
        for name, seed, changes in (("plain", 1, [UNIFORM]), ("plain.2", 2, [UNIFORM]), ("x", 1, []), ("y", 2, []))
    )
    assert names_of(first, second, third, fourth) == ["plain", "x (2 runs)"]  # the folder of seed 1 may lack it
    for place, name in ((third, "mine"), (fourth, "mine.2")):
        content = json.loads((place / "config.yaml").read_text())
        (place / "config.yaml").write_text(json.dumps({**content, "name": name}))
    assert names_of(first, second, third, fourth) == ["plain", "mine"]
    elsewhere = [tmp_path / "work" / name / "plain" for name in ("one", "two")]
    for place, there in zip((third, fourth), elsewhere, strict=True):
        shutil.copytree(place, there)
    assert names_of(first, second, *elsewhere) == [str(first), str(elsewhere[0])]
