"""A study: every arm with every seed, compared as declared; what is done stays done, and what fails is marked."""

import json
import math
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from small_recipe import events
from small_study import write_study

from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.statistics import paired_bootstrap
from cclm.experiments.study import run as run_study
from cclm.recipe.study import built_in_studies, load_study
from cclm.report.pages import write_study as write_page

pytestmark = pytest.mark.slow
TUNE = """tune:
  arms:
    ccl-m: {curriculum.gate.threshold: [0.3, 0.2]}
    uniform: {curriculum.sampler.tau: [.inf, 1]}
"""
MORE = f"""  bitext: {{}}
  placebo: {{curriculum.gate: {{name: step}}}}
  dds: {{curriculum: {{gate: {{name: all}}, sampler: {{name: multidds-s, every: 1}}}}}}
after: {{placebo: [ccl-m]}}
{TUNE}"""
TRIES = {"ccl-m": {0.3: "ccl-m-threshold-0.3.0", 0.2: "ccl-m-threshold-0.2.0"},
         "uniform": {".inf": "uniform-tau-inf.0", 1: "uniform-tau-1.0"}}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def done(folder: Path) -> dict[str, Any]:
    """The results of a study with five arms and two seeds, of which two arms are tuned."""
    page = run_study(load_study(str(write_study(folder, MORE))))
    assert page == folder / "work" / "studies" / "mini" / "report.html"
    content: dict[str, Any] = json.loads(page.with_name("results.json").read_text())
    return content


def runs(folder: Path) -> Path:
    return folder / "work" / "runs"


def test_every_trial_is_there_with_its_scores(folder: Path, done: dict[str, Any]) -> None:
    named = [(trial["arm"], trial["seed"]) for trial in done["trials"]]
    assert sorted(named) == [(arm, seed) for arm in ("bitext", "ccl-m", "dds", "placebo", "uniform") for seed in (1, 2)]
    for trial in done["trials"]:
        assert trial["state"] == "finished"
        kept = json.loads((folder / "work" / trial["run"] / "scores.json").read_text())
        assert trial["scores"]["languages"] == kept["languages"]
    assert {trial["run"] for trial in done["trials"] if trial["arm"] == "bitext"} == {"runs/bitext", "runs/bitext.2"}


def test_the_arms_differ_in_nothing_else(folder: Path, done: dict[str, Any]) -> None:
    made = {name: json.loads((runs(folder) / name / "made_from.json").read_text()) for name in ("ccl-m.2", "uniform.2")}
    for content in made.values():
        del content["recipe"]["curriculum"], content["recipe"]["name"]
    assert made["ccl-m.2"] == made["uniform.2"]
    assert made["ccl-m.2"]["recipe"]["seed"] == 2
    assert made["ccl-m.2"]["benchmark"] == done["benchmark"]["losses"]  # of one seed, for all


def test_the_placebo_admits_at_the_steps_of_the_run_it_waited_for(folder: Path, done: dict[str, Any]) -> None:
    for seed in (1, 2):
        theirs, mine = (
            {event["language"]: event["step"] for event in events(runs(folder) / f"{arm}.{seed}", "admitted")}
            for arm in ("ccl-m", "placebo")
        )
        assert mine == theirs
        assert set(mine) == {"aze"}


def test_the_declared_comparison_is_a_paired_t_test_over_seeds(done: dict[str, Any]) -> None:
    def means(arm: str) -> list[float]:
        found = [trial["scores"]["languages"] for trial in done["trials"] if trial["arm"] == arm]
        return [sum(row["chrf"] for row in languages.values()) / len(languages) for languages in found]

    (primary,) = (comparison for comparison in done["comparisons"] if comparison["primary"])
    assert (primary["first"], primary["second"], primary["metric"], primary["over"]) == (
        "ccl-m",
        "uniform",
        "chrf",
        "all",
    )
    expected = stats.ttest_rel(means("ccl-m"), means("uniform"))
    assert primary["p"] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (primary["low"], primary["high"]) == pytest.approx((interval.low, interval.high))
    assert primary["holm"] == primary["p"]
    assert all(comparison["holm"] is None for comparison in done["comparisons"] if not comparison["primary"])
    assert {comparison["second"] for comparison in done["comparisons"]} == {"uniform"}


def test_a_tuned_arm_takes_the_value_whose_log_has_the_lowest_macro_dev_loss(
    folder: Path, done: dict[str, Any]
) -> None:
    assert {arm: [one["value"] for one in facts["tries"]] for arm, facts in done["tuning"]["arms"].items()} == {
        arm: list(tries) for arm, tries in TRIES.items()
    }
    steps = 0
    for arm, tries in TRIES.items():
        macro = {}
        for value, run in tries.items():
            (stopped,) = events(runs(folder) / run, "stopped")
            steps += stopped["step"]
            losses = next(e for e in events(runs(folder) / run, "validation") if e["step"] == stopped["best"])
            macro[value] = sum(losses["dev_loss"].values()) / len(losses["dev_loss"])
            assert json.loads((runs(folder) / run / "made_from.json").read_text())["recipe"]["seed"] == 0
            assert not (runs(folder) / run / "scores.json").exists()  # test data plays no part
        facts = done["tuning"]["arms"][arm]
        assert [one["macro"] for one in facts["tries"]] == pytest.approx(list(macro.values()))
        best = min(macro, key=lambda value: macro[value])
        assert [one["value"] for one in facts["tries"] if one["chosen"]] == [best]
        assert done["study"]["arms"][arm][facts["key"]] == best
        for seed in (1, 2):
            made = json.loads((runs(folder) / f"{arm}.{seed}" / "made_from.json").read_text())["recipe"]["curriculum"]
            section, name = facts["key"].split(".")[1:]
            assert made[section][name] == (math.inf if best == ".inf" else best)
    assert done["tuning"]["steps"] == steps
    kept = json.loads((folder / "work" / "studies" / "mini" / "tuned.json").read_text())
    assert kept == {"version": 1, **done["tuning"]}


def test_a_study_given_the_chosen_values_writes_the_same_without_the_tuning(folder: Path, done: dict[str, Any]) -> None:
    changes = [f"arms.{arm}={json.dumps(done['study']['arms'][arm])}".replace('".inf"', ".inf") for arm in TRIES]
    page = run_study(load_study(str(folder / "mini.yaml"), ["name=untuned", "tune=null", *changes]))
    expected = {name: part for name, part in done.items() if name != "tuning"}
    expected["study"] = {**done["study"], "name": "untuned"}
    assert page.with_name("results.json").read_text() == json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
    declared = {"version": 1, "seeds": [1, 2], "primary": [["ccl-m", "uniform"]], "endpoint": "chrf"}
    assert page.with_name("declared.json").read_text() == json.dumps(declared, indent=1) + "\n"
    assert not page.with_name("tuned.json").exists()
    assert ">Tuning</h2>" not in page.read_text()
    assert ">Tuning</h2>" in (folder / "work" / "studies" / "mini" / "report.html").read_text()


def test_epochs_are_draws_over_batches(folder: Path, done: dict[str, Any]) -> None:
    trial = next(trial for trial in done["trials"] if trial["arm"] == "ccl-m" and trial["seed"] == 1)
    assert sum(trial["draws"].values()) == 60
    assert trial["macro_at"]["50"] == events(runs(folder) / "ccl-m.1", "validation")[2]["macro"]
    assert all(trial["epochs"][lang] <= trial["draws"][lang] for lang in trial["draws"])


def test_done_again_nothing_is_trained(folder: Path, done: dict[str, Any]) -> None:
    stamps = {path: path.stat().st_mtime_ns for path in runs(folder).rglob("*") if path.is_file()}
    before = (folder / "work" / "studies" / "mini" / "results.json").read_bytes()
    page = run_study(load_study(str(folder / "mini.yaml")))
    assert {path: path.stat().st_mtime_ns for path in runs(folder).rglob("*") if path.is_file()} == stamps
    assert page.with_name("results.json").read_bytes() == before
    assert write_page(page.parent) == page


def test_what_was_declared_cannot_be_changed_afterwards(folder: Path, done: dict[str, Any]) -> None:
    differs = "differs from what was declared before the first run; give the study another name"
    with pytest.raises(ConfigError, match=rf"{differs}\n  endpoint: 'chrf'"):
        run_study(load_study(str(folder / "mini.yaml"), ["endpoint=bleu"]))
    with pytest.raises(ConfigError, match=rf"{differs}.*\n  tune\.seed: 0 -> 3"):
        run_study(load_study(str(folder / "mini.yaml"), ["tune.seed=3"]))
    with pytest.raises(ConfigError, match=rf"{differs}.*\n  tune: .* -> None"):
        run_study(load_study(str(folder / "mini.yaml"), ["tune=null"]))


def test_a_trial_that_fails_is_marked_and_the_others_go_on(folder: Path, done: dict[str, Any]) -> None:
    """A run of other settings stands in the place of a trial, on which another one waits."""
    name = "failing"
    shutil.rmtree(runs(folder) / "placebo.2")
    path, config = (runs(folder) / "ccl-m.2" / file for file in ("made_from.json", "config.yaml"))
    before, settings = path.read_text(), config.read_text()
    path.write_text(before.replace('"learning_rate": 0.01', '"learning_rate": 0.02'))
    config.write_text(settings.replace("studies/mini/", f"studies/{name}/"))  # as if this study had begun it
    try:
        with pytest.raises(TrainingError, match=r"2 of 10 trials failed; run the same command to try them again"):
            run_study(load_study(str(folder / "mini.yaml"), [f"name={name}"]))
    finally:
        path.write_text(before)
        config.write_text(settings)
    content = json.loads((folder / "work" / "studies" / name / "results.json").read_text())
    failed = {
        f"{trial['arm']}.{trial['seed']}": trial["why"] for trial in content["trials"] if trial["state"] == "failed"
    }
    assert set(failed) == {"ccl-m.2", "placebo.2"}
    assert "learning_rate: 0.02 -> 0.01" in failed["ccl-m.2"]
    assert failed["placebo.2"] == "waits for ccl-m.2, which failed"
    assert content["arms"]["ccl-m"]["seeds"] == 1
    assert "failed" in (folder / "work" / "studies" / name / "report.html").read_text()
    run_study(load_study(str(folder / "mini.yaml"), [f"name={name}"]))  # mended: now all are there
    content = json.loads((folder / "work" / "studies" / name / "results.json").read_text())
    assert content["comparisons"] == done["comparisons"]


def test_an_arm_whose_tuning_fails_is_marked_and_tuned_when_it_is_mended(folder: Path, done: dict[str, Any]) -> None:
    name, run = "ill-tuned", runs(folder) / "ccl-m-threshold-0.2.0"
    log, path = (run / "log.jsonl").read_bytes(), run / "made_from.json"
    path.write_text(path.read_text().replace('"learning_rate": 0.01', '"learning_rate": 0.02'))
    with pytest.raises(TrainingError, match=r"4 of 10 trials failed; run the same command to try them again"):
        run_study(load_study(str(folder / "mini.yaml"), [f"name={name}"]))
    content = json.loads((folder / "work" / "studies" / name / "results.json").read_text())
    why = {f"{trial['arm']}.{trial['seed']}": trial["why"] for trial in content["trials"] if trial["why"]}
    assert set(why) == {"ccl-m.1", "ccl-m.2", "placebo.1", "placebo.2"}
    assert why["ccl-m.1"].startswith("its tuning failed: ccl-m-threshold-0.2.0: ")
    assert why["ccl-m.1"].endswith("learning_rate: 0.02 -> 0.01")
    assert why["placebo.2"] == "waits for ccl-m.2, which failed"
    assert content["arms"]["uniform"] == done["arms"]["uniform"]
    whole, failed = content["tuning"]["arms"]["ccl-m"]["tries"]
    assert (whole["chosen"], failed["chosen"], failed["macro"]) == (False, False, None)
    assert content["tuning"]["arms"]["uniform"] == done["tuning"]["arms"]["uniform"]
    assert content["tuning"]["steps"] < done["tuning"]["steps"]
    assert "failed: " in (folder / "work" / "studies" / name / "report.md").read_text()
    shutil.rmtree(run)
    others = {path: path.stat().st_mtime_ns for path in runs(folder).rglob("*") if path.is_file()}
    run_study(load_study(str(folder / "mini.yaml"), [f"name={name}"]))
    assert (run / "log.jsonl").read_bytes() == log
    assert {path: path.stat().st_mtime_ns for path in others} == others
    content = json.loads((folder / "work" / "studies" / name / "results.json").read_text())
    assert content["tuning"] == done["tuning"]
    assert content["comparisons"] == done["comparisons"]


def test_one_seed_is_compared_by_its_sentences_and_has_what_scorers_gave(folder: Path, done: dict[str, Any]) -> None:
    """The runs of seed 1 are there: nothing is trained. One of them is given a score of another program."""
    echo = "import json, sys; [print(json.dumps({'id': s['id'], 'score': 2})) for s in map(json.loads, sys.stdin)]"
    scores = runs(folder) / "ccl-m.1" / "scores.json"
    before = scores.read_text()
    Evaluation(scores.parent).score({"echo": shlex.join([sys.executable, "-c", echo])})
    page = run_study(load_study(str(write_study(folder, TUNE)), ["name=one", "seeds=[1]"]))
    scores.write_text(before)
    write_study(folder, MORE)
    content = json.loads(page.with_name("results.json").read_text())

    lines = {arm: Evaluation(runs(folder) / f"{arm}.1").lines() for arm in ("ccl-m", "uniform")}
    ours, theirs = ({lang: texts[0] for lang, texts in lines[arm].items()} for arm in ("ccl-m", "uniform"))
    references = {lang: texts[1] for lang, texts in lines["uniform"].items()}
    groups = {"all": ["tur", "aze"], "hrl": ["tur"], "lrl": ["aze"]}
    for metric in ("chrf", "bleu"):
        languages, means = paired_bootstrap(ours, theirs, references, groups=groups, metric=metric)
        for over in groups:
            (one,) = (
                one
                for one in content["comparisons"]
                if (one["first"], one["second"], one["metric"], one["over"]) == ("ccl-m", "uniform", metric, over)
            )
            expected = means[over]
            assert (one["low"], one["high"], one["p"]) == (expected.low, expected.high, expected.p)
            assert one["mean"] == pytest.approx(expected.difference)
            assert one["resamples"] == 2000
            assert one["sentence"].endswith("licenses no claim about the method")
            assert one.get("languages") == (
                {lang: asdict(row) for lang, row in languages.items()} if over == "all" else None
            )
    (primary,) = (one for one in content["comparisons"] if one["primary"])
    assert primary["holm"] == primary["p"]
    wanted = {"all": 2.0, "hrl": 2.0, "lrl": 2.0, "languages": {"tur": 2.0, "aze": 2.0}}
    found = {arm: row.get("more_scores") for arm, row in content["arms"].items()}
    assert found == {"uniform": None, "ccl-m": {"echo": wanted}}
    assert "bootstrap of the test sentences, one seed" in page.read_text()
    assert "### echo" in page.with_name("report.md").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seeds=[1, 1]", "must not name a seed twice"),
        ("seeds=[]", "seeds"),
        ("primary=[[ccl-m, nobody]]", "has no arm 'nobody'; the arms are uniform, ccl-m"),
        ("primary=[[ccl-m, ccl-m]]", "must not compare an arm with itself"),
        ("arms.bitext={seed: 3}", "takes no changes"),
        ("after={ccl-m: [uniform], uniform: [ccl-m]}", "depend on one another"),
        ("after={ccl-m: [nobody]}", "has no arm 'nobody'"),
        ("arms.odd={curriculum.every: never}", "curriculum.every"),
        ("recipe=nothing", "no recipe 'nothing'"),
        ("primary=[[a, b], [a, b], [a, b], [a, b]]", "primary"),
    ],
)
def test_a_study_that_cannot_be_is_refused(folder: Path, change: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_study(str(write_study(folder)), [change])


def test_bitext_neither_waits_nor_is_waited_for(folder: Path) -> None:
    with pytest.raises(ConfigError, match="after must not contain bitext"):
        load_study(str(write_study(folder, "  bitext: {}\nafter: {ccl-m: [bitext]}\n")))
    write_study(folder, MORE)


def test_the_studies_that_come_with_the_package_can_be_loaded() -> None:
    assert {load_study(name).name for name in built_in_studies()} == {"paper", "phrasebook", "phrasebook-exploratory"}
    with pytest.raises(ConfigError, match="no study 'nothing': give a YAML file or one of paper, phrasebook"):
        load_study("nothing")
