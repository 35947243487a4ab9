"""The simulation: built-in and custom scenarios, comparison of thresholds, terminal and JSON output."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from cclm.cli.entry import cli
from cclm.errors import ConfigError
from cclm.simulate import BUILT_IN, compare_thresholds, load_scenario, simulate
from cclm.simulate.display import SimulationView
from cclm.simulate.run import LearningCurves


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *arguments], catch_exceptions=False)


def quiet(name: str = "related", *changes: str) -> Any:
    return load_scenario(name, ["learning.sentence_sd=0", *changes])


def test_the_papers_sets_have_the_papers_figures() -> None:
    related, o2m = load_scenario("related"), load_scenario("related-o2m")
    assert (related.sizes["aze"], related.benchmark["aze"], o2m.benchmark["aze"]) == (5940, 7.87, 9.703)
    assert related.graph.nearest == {"aze": "tur", "bel": "rus", "glg": "por", "slk": "ces"}
    assert load_scenario("diverse").graph.nearest == {"bos": "fra", "mar": "bul", "hin": "bul", "mkd": "bul"}


def test_loss_falls_from_the_start_to_the_plateau() -> None:
    curves = LearningCurves(quiet())
    assert curves.losses() == dict.fromkeys(sorted(curves.losses()), 13.0)
    curves.train(dict.fromkeys(curves.losses(), 1 / 8), 10**9)
    assert curves.losses()["tur"] == pytest.approx(4.344, abs=1e-3)
    # The plateau of an LRL: a bit above the mean of the HRLs' L*, 4.276, unless its own L* is lower.
    assert curves.losses()["aze"] == pytest.approx(5.27575, abs=1e-3)
    assert curves.losses()["slk"] == pytest.approx(5.205, abs=1e-3)


def test_the_distance_to_the_plateau_is_halved_at_the_pace_with_exponent_one() -> None:
    curves = LearningCurves(quiet("related", "learning.exponent=1", "learning.transfer=0"))
    curves.train({"tur": 1.0}, 750)
    assert curves.losses()["tur"] == pytest.approx((13 + 4.344) / 2)
    assert curves.losses()["rus"] == 13.0
    assert curves.losses()["aze"] == pytest.approx(5.27575 + (13 - 5.27575) / 1.5)  # half of each step: similarity .50


def test_the_noise_of_a_probe_falls_with_the_square_root_of_the_sample() -> None:
    def spread(sample: int) -> float:
        curves = LearningCurves(load_scenario("related", [f"curriculum.dev_sample={sample}"]))
        errors = [curves.probe(step)["tur"] - 13.0 for step in range(400)]
        return float((sum(e * e for e in errors) / 400) ** 0.5)

    assert spread(64) == pytest.approx(1 / 8, rel=0.15)
    assert spread(256) == pytest.approx(1 / 16, rel=0.15)


def test_a_higher_threshold_admits_later() -> None:
    outcomes = compare_thresholds(quiet())
    steps = [outcomes[t].admissions["aze"]["step"] for t in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert steps == sorted(set(steps))
    assert steps[0] > 0


def test_the_second_phase_admits_the_remaining_languages() -> None:
    outcome = simulate(quiet("related", "curriculum.gate.threshold=5", "second_phase=2000", "max_steps=3000"))
    assert outcome.admissions["bel"]["step"] == 2000
    assert outcome.rounds[-1]["waiting"] == []
    never = simulate(quiet("related", "curriculum.gate.threshold=5", "second_phase=null", "max_steps=3000"))
    assert set(never.rounds[-1]["waiting"]) == {"aze", "bel", "glg", "slk"}


def test_the_draws_add_up_to_the_steps() -> None:
    outcome = simulate(quiet("related", "max_steps=5000"))
    assert sum(outcome.steps_on.values()) == pytest.approx(5000)


@pytest.mark.parametrize(
    "sampler",
    ["{name: chi-square}", "{name: temperature}", "{name: chi-square, loss: dev}", "{name: size-and-competence}"],
)
def test_other_samplers_can_be_simulated(sampler: str) -> None:
    outcome = simulate(quiet("related", f"curriculum.sampler={sampler}", "max_steps=1000"))
    assert len(outcome.rounds) == 11


def test_settings_of_the_sampler_that_are_no_defaults_are_printed() -> None:
    quick = ("related", "--no-thresholds", "max_steps=200")
    assert run(*quick).stdout.splitlines()[1].endswith("  sampler: inverse-competence")
    printed = run(*quick, "curriculum.sampler={name: temperature, tau: 2}").stdout
    assert printed.splitlines()[1].endswith("  sampler: temperature tau=2.0")


def test_thresholds_are_compared_only_with_a_competence_gate() -> None:
    assert compare_thresholds(quiet("related", "curriculum.gate={name: all}")) == {}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_scenario_runs_and_is_printed(name: str) -> None:
    result = run(name, "--no-thresholds", "max_steps=3000", "curriculum.gate.threshold=0.1")
    assert result.exit_code == 0
    assert "no model is trained" in result.stdout
    assert " admitted: HRLs-evaluated" in result.stdout


def test_the_terminal_shows_competence_weights_admissions_and_thresholds() -> None:
    result = run("learning.sentence_sd=0")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "related, many-to-one"
    assert any(line.split()[:3] == ["step", "tur", "rus"] for line in lines)
    assert any(line.startswith("step") and "slk admitted: HRLs-evaluated competence 0.9" in line for line in lines)
    assert any(line.strip().startswith("1.0") and "50,000*" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_json_has_every_round() -> None:
    result = run("diverse", "--json", "max_steps=1000", "--no-thresholds")
    content = json.loads(result.stdout)
    assert content["version"] == 1
    assert [record["step"] for record in content["rounds"]] == list(range(0, 1001, 100))
    assert content["scenario"]["name"] == "diverse, many-to-one"
    assert content["thresholds"] == {}
    compared = json.loads(run("diverse", "--json", "max_steps=1000").stdout)
    assert list(compared["thresholds"]) == ["0.5", "0.6", "0.7", "0.8", "0.9", "1"]


def test_a_scenario_printed_as_yaml_loads_as_the_same_scenario(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(run("related", "--yaml").stdout)
    mine = load_scenario(str(tmp_path / "mine.yaml"))
    assert mine == load_scenario("related")
    assert simulate(mine).rounds == simulate(load_scenario("related")).rounds


def test_a_custom_scenario_needs_few_lines(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(
        "version: 1\n"
        "high_resource: {deu: {size: 1000000, benchmark: 3.5}}\n"
        "low_resource: {nds: {size: 2000, benchmark: 7.5}}\n"
        "similarity: {nds: {deu: 0.6}}\n"
    )
    result = run(str(tmp_path / "two.yaml"), "max_steps=20000")
    assert result.exit_code == 0
    assert "nds admitted" in result.stdout


def test_a_language_that_is_never_admitted_is_named() -> None:
    result = run("related", "--no-thresholds", "second_phase=null", "max_steps=1000")
    assert "never admitted: aze, bel, glg, slk" in result.stdout


def test_the_picture_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    result = run("related", "--no-thresholds", "max_steps=1000", "--svg", str(tmp_path / "x.svg"))
    assert result.exit_code == 0
    picture = (tmp_path / "x.svg").read_text()
    assert picture.startswith("<svg")
    assert "url(http" not in picture
    assert "@font-face" not in picture


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("nope", [], "no scenario 'nope': give one of related, related-o2m, diverse, diverse-o2m, thousand, or a YAML"),
        ("nope.yaml", [], "nope.yaml: No such file or directory"),
        ("related", ["version=2"], "related: version must be one of 1; got 2"),
        ("related", ["similarity.aze.tur=1.5"], "similarity of aze to tur is 1.5"),
        ("related", ["high_resource={}"], "high_resource: no language"),
        ("related", ["low_resource.aze.size=0"], "low_resource.aze.size should be greater than or equal to 1; got 0"),
        ("related", ["low_resource.aze.sice=5"], "unknown key 'low_resource.aze.sice'; did you mean 'size'?"),
        ("related", ["curriculum.gate.threshold=-1"], "curriculum: threshold must be a number of at least 0; got -1.0"),
    ],
)
def test_an_invalid_scenario_is_refused(name: str, changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_scenario(name, changes)
    assert message in str(error.value)


def test_methods_that_need_a_model_are_refused() -> None:
    with pytest.raises(ConfigError, match="multidds-s needs gradients of a model"):
        simulate(quiet("related", "curriculum.sampler={name: multidds-s}"))


def test_an_unmeasured_start_is_shown_as_a_dash() -> None:
    scenario = quiet("related", "max_steps=200")
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(SimulationView(scenario, simulate(scenario), {}))
    assert "- 25%" in console.export_text()
