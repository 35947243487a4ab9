"""Studies and sweeps in an order, and on recipes, that the paper does not have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from off_path.cli import STATIC, cclm, contents, copy_of, done, refused, write_text

pytestmark = pytest.mark.slow
UNGATED = "curriculum.gate: {name: all}, curriculum.sampler: {name: temperature}"
SHORT = ["changes.benchmark.max_steps=1"]
STUDY = """version: 1
name: mini
recipe: recipe.yaml
changes: {benchmark.file: table.json, training.max_steps: 5}
seeds: [1, 2]
primary: [[ccl-m, proportional]]
endpoint: bleu
arms:
  proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 1}}
  ccl-m: {}
"""


def write_study(folder: Path) -> None:
    """Text, recipe, study, and a table in place of bitext models."""
    write_text(folder)
    (folder / "mini.yaml").write_text(STUDY)
    (folder / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 5.0, "aze": 5.0}}))


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of which nothing is done."""
    folder = tmp_path_factory.mktemp("untrained")
    write_study(folder)
    return folder


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study of two arms and two seeds that is done, and what it printed in the end."""
    folder = tmp_path_factory.mktemp("studied")
    write_study(folder)
    return folder, done(folder, "study", "mini.yaml").stdout


@pytest.fixture
def folder(untrained: Path, tmp_path: Path) -> Path:
    """A copy of the study of which nothing is done."""
    return copy_of(untrained, tmp_path)


@pytest.fixture
def finished(studied: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the study that is done."""
    return copy_of(studied[0], tmp_path)


def results(folder: Path) -> dict[str, Any]:
    """results.json of the study."""
    content: dict[str, Any] = json.loads((folder / "work" / "studies" / "mini" / "results.json").read_text())
    return content


def test_a_sweep_goes_on_after_its_runs_were_extended(folder: Path) -> None:
    """More steps for every run, in whose logs an end is now followed by another one."""
    sweep = ["sweep", "recipe.yaml", "benchmark.file=table.json", "--threshold", "0.3", "--aggregate", "max"]
    done(folder, *sweep, "training.max_steps=5")
    done(folder, *sweep, "training.max_steps=10")
    log = (folder / "work" / "runs" / "small-max-0.3" / "log.jsonl").read_text()
    assert log.count('"stopped"') == 2
    (leaf,) = json.loads((folder / "work" / "sweeps" / "small" / "sweep.json").read_text())["leaves"]
    assert leaf["steps"] == 10


def test_a_sweep_goes_on_after_a_shorter_benchmark(folder: Path) -> None:
    """The bitext models of the shorter one stay as they are, and their ends are no ends of those of the longer one."""
    done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=2")
    before = contents(folder / "work" / "cache" / "benchmark")
    gate = ["--threshold", "0.3", "--aggregate", "max"]
    done(folder, "sweep", "recipe.yaml", "benchmark.max_steps=4", "training.max_steps=5", *gate)
    after = contents(folder / "work" / "cache" / "benchmark")
    assert {path: after.get(path) for path in before} == before


def test_a_study_goes_on_after_its_runs_were_extended(finished: Path) -> None:
    """More steps for every trial: the same command trains the rest of them."""
    done(finished, "study", "mini.yaml", "changes.training.max_steps=10")
    assert {trial["steps"] for trial in results(finished)["trials"]} == {10}


def test_a_study_without_low_resource_languages_is_done(folder: Path) -> None:
    """There is no graph where there is nobody to admit, and arms with the gate `all` need none."""
    one_kind = ["changes.data.high_resource=[tur, aze]", "changes.data.low_resource=[]", "seeds=[1]", "primary=[]"]
    gate = "changes.curriculum.gate={name: all}"
    done(folder, "study", "mini.yaml", *one_kind, gate, "arms={one: {curriculum.sampler: {name: temperature, tau: 1}}}")


def test_two_models_without_a_point_of_bleu_exclude_no_gain(studied: tuple[Path, str]) -> None:
    """Scores that are all zero say nothing about a difference: no gain is said to be excluded."""
    folder, told = studied
    assert all(trial["scores"]["means"]["all"] < 0.05 for trial in results(folder)["trials"])  # shown as 0.0
    report = (folder / "work" / "studies" / "mini" / "report.md").read_text()
    nothing = "ccl-m and proportional both score 0.0 BLEU: no conclusion is possible"
    assert nothing in report
    assert nothing in told
    runs = [f"work/runs/{arm}.{seed}" for arm in ("proportional", "ccl-m") for seed in (1, 2)]
    assert nothing in done(folder, "compare", *runs).stdout.replace("\n", " ")
    assert "can be excluded" not in report + told


def test_bounds_of_a_score_are_not_negative(finished: Path) -> None:
    """One sentence of twenty is translated, by a hand: BLEU lies between bounds of which neither is below 0."""
    run = finished / "work" / "runs" / "ccl-m.1"
    references = (run / "translations" / "test.tur-eng.reference.txt").read_text().splitlines()
    lines = [references[0], *("?" for _ in references[1:])]
    (run / "translations" / "test.tur-eng.txt").write_text("\n".join(lines) + "\n")
    score = json.loads(done(finished, "score", "work/runs/ccl-m.1", "--json").stdout)["languages"]["tur"]
    assert 0 <= score["bleu_low"] < score["bleu"] < score["bleu_high"]


def test_the_tokens_of_a_short_training_are_counted(studied: tuple[Path, str]) -> None:
    """Train events sum up 50 steps each; ten steps of at most 200 tokens are tokens too."""
    assert all(0 < trial["tokens"] <= 10 * 200 for trial in results(studied[0])["trials"])


def test_a_study_prints_its_result(studied: tuple[Path, str]) -> None:
    """The arms with their scores and what the primary comparison came to; the page comes last."""
    told = studied[1]
    assert re.search(r"^ccl-m\b.*\d\.\d", told, re.MULTILINE)
    assert re.search(r"^proportional\b.*\d\.\d", told, re.MULTILINE)
    assert told.splitlines()[-1] == "work/studies/mini/report.html"


def test_a_failed_trial_is_told_whole(finished: Path) -> None:
    """What was begun with other settings is told with its first line, which says so, and the setting below it."""
    changed = STUDY.replace("  ccl-m: {}", "  ccl-m: {curriculum.every: 4}")
    (finished / "mini.yaml").write_text(changed)
    result = cclm(finished, "study", "mini.yaml")
    assert result.returncode == 1
    assert "2 of 4 trials failed" in result.stderr
    for run in ("ccl-m.1", "ccl-m.2"):
        told = rf"  {run}: work/runs/{run} was begun with other settings[^\n]*\n +curriculum\.every: 5 -> 4"
        assert re.search(told, result.stderr)


def test_two_studies_may_have_an_arm_of_the_same_name(finished: Path) -> None:
    """Their trials are runs of their own: both studies are done, and the first is as it was."""
    before = contents(finished / "work")
    arms = "arms={proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 5}}}"
    done(finished, "study", "mini.yaml", "name=second", arms, "primary=[]", "seeds=[1]")
    after = contents(finished / "work")
    assert {path: after.get(path) for path in before} == before  # its runs, too
    trial = json.loads((finished / "work/studies/second/results.json").read_text())["trials"][0]
    assert trial["run"] == "runs/second.proportional.1"


def test_a_finished_study_done_again_changes_nothing(finished: Path) -> None:
    """Everything is there: no training begins, no file changes."""
    before = contents(finished)
    done(finished, "study", "mini.yaml")
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("command", "losses"),
    [
        (["study", "mini.yaml"], "a table of your own\n"),
        (["sweep", "recipe.yaml"],
         "would train: 2 bitext models, at most 20 steps, 4,000 target tokens, 200% of the training\n"),
        (["study", "mini.yaml", "changes.benchmark.file=null", "changes.benchmark.method=multilingual", *SHORT],
         "would train: 1 multilingual model, at most 1 steps, 200 target tokens, 20% of the training\n"),
        (["sweep", "recipe.yaml", "benchmark={method: multilingual}"],
         "would train: 1 multilingual model, at most 1 steps, 200 target tokens, 10% of the training\n"),
    ],
    ids=["study", "sweep", "study-multilingual", "sweep-multilingual"],
)  # fmt: skip
def test_a_study_and_a_sweep_have_a_dry_run(folder: Path, command: list[str], losses: str) -> None:
    """How many trainings, steps, tokens and how long it would take, and what of that is for L*; nothing is made."""
    before = contents(folder)
    told = done(folder, *command, "--dry-run").stdout
    assert re.search(r"^time +about \d+ \w+ at most", told, re.MULTILINE)
    assert re.search(r"\b(4|12) (trainings|trials|runs)\b", told)
    assert f"benchmark  {losses}" in told
    assert contents(folder) == before


def dry_run(folder: Path, *command: str) -> dict[str, str]:
    """The lines of a dry run by their first word; it changes nothing."""
    before = contents(folder)
    told = done(folder, *command, "--dry-run").stdout
    assert contents(folder) == before
    return {line.split()[0]: line.partition(" ")[2].strip() for line in told.splitlines()}


def test_a_dry_run_of_a_study_says_what_is_done_and_reused(finished: Path) -> None:
    """Nothing is left of a finished study; with one arm and one seed more, only their trials are."""
    told = dry_run(finished, "study", "mini.yaml")
    (data,) = (finished / "work" / "cache" / "prepared").glob("[0-9a-f]*")
    (graph,) = (finished / "work" / "cache" / "graph").glob("[0-9a-f]*")
    assert told["trials"] == "4 trials: 2 arms, 2 seeds; 4 are done"
    assert told["prepare"] == f"nothing to do: work/cache/prepared/{data.name} is reused"
    assert told["graph"] == f"nothing to do: work/cache/graph/{graph.name} is reused"
    assert "at most 0 steps, 0 target tokens" in told["in"]
    (finished / "work" / "runs" / "ccl-m.2" / "scores.json").unlink()
    assert dry_run(finished, "study", "mini.yaml")["trials"].endswith("; 3 are done")
    told = dry_run(
        finished, "study", "mini.yaml", "name=more", "arms.late={curriculum.gate.threshold: 0.9}", "seeds=[1, 3]"
    )
    assert told["trials"] == "6 trials: 3 arms, 2 seeds; 2 are done"
    assert "at most 20 steps" in told["in"]  # four trials of five steps


def test_a_dry_run_knows_tuned_arms_arms_that_wait_and_bitext_models(folder: Path) -> None:
    """What tuned.json has chosen and when languages were admitted decide which runs are those of the study."""
    more = """  late: {curriculum.gate: {name: step}}
  bitext: {}
after: {late: [ccl-m]}
tune: {arms: {ccl-m: {curriculum.gate.threshold: [0.3, 0.2]}}}
"""
    short = STUDY.replace("benchmark.file: table.json", "benchmark.max_steps: 2").replace("[1, 2]", "[1]")
    (folder / "mini.yaml").write_text(short + more)
    told = dry_run(folder, "study", "mini.yaml")
    assert (told["trials"], told["tuning"]) == ("4 trials: 4 arms, 1 seeds", "2 trainings")
    done(folder, "study", "mini.yaml")
    told = dry_run(folder, "study", "mini.yaml")
    assert (told["trials"], told["tuning"]) == ("4 trials: 4 arms, 1 seeds; 4 are done", "2 trainings; 2 are done")
    assert "at most 0 steps" in told["in"]
    (folder / "work" / "studies" / "mini" / "tuned.json").unlink()
    told = dry_run(folder, "study", "mini.yaml")
    assert (told["trials"], told["tuning"]) == ("4 trials: 4 arms, 1 seeds; 2 are done", "2 trainings; 2 are done")


def test_a_dry_run_of_a_study_says_what_is_no_longer_used(finished: Path) -> None:
    """Other data beside what is there, which is named; an arm with data of its own leaves that of the others in use."""
    (data,) = (finished / "work" / "cache" / "prepared").glob("[0-9a-f]*")
    told = dry_run(finished, "study", "mini.yaml", "name=other", "changes.vocabulary.pieces=80")
    assert told["prepare"] == f"would be done; no longer used, and kept: work/cache/prepared/{data.name}"
    assert told["trials"] == "4 trials: 2 arms, 2 seeds"
    told = dry_run(finished, "study", "mini.yaml", "name=other", "arms.few={vocabulary.pieces: 80}")
    assert told["prepare"] == "few: would be done"


def test_a_dry_run_of_a_sweep_says_what_is_done_reused_and_no_longer_used(finished: Path) -> None:
    sweep = ["sweep", "recipe.yaml", "benchmark.file=table.json", "training.max_steps=5", "--aggregate", "max"]
    done(finished, *sweep, "--threshold", "0.3")
    (data,) = (finished / "work" / "cache" / "prepared").glob("[0-9a-f]*")
    told = dry_run(finished, *sweep, "--threshold", "0.3", "--threshold", "0.4")
    assert told["sweep"] == "2 runs at most, those that decide alike are trained once; 1 is done"
    assert told["prepare"] == f"nothing to do: work/cache/prepared/{data.name} is reused"
    assert "at most 5 steps" in told["in"]
    told = dry_run(finished, *sweep, "name=other", "vocabulary.pieces=80")
    assert told["prepare"] == f"would be done; no longer used, and kept: work/cache/prepared/{data.name}"


def test_a_dry_run_of_a_sweep_refuses_what_the_sweep_refuses(folder: Path) -> None:
    sweep = ["sweep", "recipe.yaml", "benchmark.file=table.json", "--aggregate", "max", "--threshold", "0.3"]
    done(folder, *sweep, "training.max_steps=5")
    assert "curriculum.every: 5 -> 4" in refused(folder, *sweep, "curriculum.every=4", "--dry-run")


def test_a_study_of_static_methods_trains_no_bitext_models(folder: Path) -> None:
    """Nothing needs L* there. A study that was begun with L* keeps it, even if the arms that asked for it are gone."""
    begun = STUDY.replace("benchmark.file: table.json, ", "").replace("[1, 2]", "[1]")
    begun = begun.replace("primary: [[ccl-m, proportional]]\n", "")
    uniform = "  uniform: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 100}}\n"
    (folder / "mini.yaml").write_text(begun.replace("  ccl-m: {}\n", uniform))
    assert "bitext models" not in done(folder, "study", "mini.yaml", "--dry-run").stdout
    done(folder, "study", "mini.yaml")
    assert not (folder / "work" / "benchmark.json").exists()
    assert results(folder)["benchmark"]["losses"] == {}
    assert {trial["state"] for trial in results(folder)["trials"]} == {"finished"}
    before = contents(folder / "work" / "runs" / "proportional.1")
    (folder / "gated.yaml").write_text(begun.replace("name: mini", "name: gated"))
    done(folder, "study", "gated.yaml", *SHORT)
    assert contents(folder / "work" / "runs" / "proportional.1") == before  # of the first study
    own = folder / "work" / "runs" / "gated.proportional.1" / "made_from.json"
    kept = own.read_bytes()
    static = begun.replace("name: mini", "name: gated").replace("  ccl-m: {}\n", "")
    (folder / "gated.yaml").write_text(static)
    done(folder, "study", "gated.yaml", *SHORT)
    assert own.read_bytes() == kept


def test_arms_of_a_study_may_have_reference_losses_of_their_own(folder: Path) -> None:
    trained = "benchmark: {method: multilingual, file: null, max_steps: 2}"
    short = f"  short: {{{trained}, curriculum.sampler: {{name: size-and-competence}}}}\n"
    none = f"  none: {{benchmark: {{method: none, file: null}}, {UNGATED}}}\n"
    (folder / "mini.yaml").write_text(STUDY.replace("[1, 2]", "[1]") + short + none)
    done(folder, "study", "mini.yaml")
    found = results(folder)
    assert found["benchmark"]["arms"].keys() == {"short", "none"}
    assert found["benchmark"]["arms"]["short"] > 0
    assert found["benchmark"]["arms"]["none"] is None
    (table,) = (folder / "work" / "cache" / "benchmark").glob("*/benchmark.json")
    made = {arm: json.loads((folder / f"work/runs/{arm}.1/made_from.json").read_text()) for arm in ("short", "ccl-m")}
    assert made["short"]["benchmark"] == json.loads(table.read_text())["losses"]
    assert made["ccl-m"]["benchmark"] == {"tur": 5.0, "aze": 5.0}
    again = done(folder, "study", "mini.yaml").stderr
    assert "step 5" not in again  # nothing is trained again


def test_an_arm_may_start_from_a_finished_run(folder: Path) -> None:
    """Its subwords are those of that run: it has data of its own, and the other arms keep theirs."""
    changes = ["benchmark.file=table.json", "training.max_steps=5", *STATIC]
    done(folder, "train", "recipe.yaml", "name=first", "vocabulary.pieces=80", *changes)
    started = "arms.started={model.pretrained: work/runs/first}"
    done(folder, "study", "mini.yaml", "seeds=[1]", started)
    trials = results(folder)["trials"]
    assert [trial["arm"] for trial in trials if trial["scores"]] == ["proportional", "ccl-m", "started"]
    runs = [folder / "work/runs" / f"{arm}.1/config.yaml" for arm in ("proportional", "started")]
    keys = [path.read_text().splitlines()[0].split()[3] for path in runs]
    assert keys[0] != keys[1]  # of the prepared data


def test_a_static_method_trains_no_bitext_models(folder: Path) -> None:
    """Nothing needs L* there: the run is done without it, and its page has no competence."""
    done(folder, "run", "recipe.yaml", "training.max_steps=5", *STATIC)
    assert not (folder / "work" / "benchmark.json").exists()
    assert not (folder / "work" / "runs" / "bitext").exists()
    page = (folder / "work" / "runs" / "small" / "report.html").read_text()
    data = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert [language["benchmark"] for language in data["languages"]] == [None, None]
    # A chart without a number is not drawn.
    assert {value for curve in data["rounds"]["competence"] for value in curve} == {None}
    assert None not in {value for curve in data["rounds"]["dev_loss"] for value in curve}
