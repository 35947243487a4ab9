"""Gates and samplers of users, named in a recipe by their import path."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_recipe import events
from small_study import write_study
from warm_commands import warm

from cclm.errors import ConfigError
from cclm.formats.run import CONFIG
from cclm.recipe import load_recipe
from cclm.recipe.study import load_study
from cclm.simulate.scenario import load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
LOUDEST = "curriculum.sampler={name: my_module:Loudest, strength: 2}"


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    """Every test has a folder of its own with modules of the same names."""
    paths, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if name in ("my_module", "broken", "stranger"):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe, a study, and the example's module beside them."""
    shutil.copy(EXAMPLES / "my_module.py", tmp_path)
    write_study(tmp_path)
    return tmp_path


def refusal(folder: Path, *changes: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_recipe(str(folder / "recipe.yaml"), changes)
    return str(refused.value)


def test_a_module_beside_the_recipe_is_found(folder: Path) -> None:
    recipe = load_recipe(str(folder / "recipe.yaml"), [LOUDEST, "curriculum.gate={name: my_module:OneByOne}"])
    curriculum = recipe.curriculum.build(None, sizes={"tur": 20, "aze": 10}, benchmark=None)
    assert curriculum.admitted == ("tur",)
    assert curriculum.state_dict()["curriculum"]["sampler"] == "Loudest(strength=2)"
    curriculum.observe(step=5, dev_loss={"tur": 4.0, "aze": 5.0}, train_loss={"tur": 3.0, "aze": 4.0})
    assert curriculum.weights == pytest.approx({"tur": 9 / 25, "aze": 16 / 25})


def test_an_installed_module_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    shutil.copy(EXAMPLES / "my_module.py", tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    write_study(tmp_path)
    assert load_recipe(str(tmp_path / "recipe.yaml"), [LOUDEST]).curriculum.sampler.name == "my_module:Loudest"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("sampler={name: nowhere:Loudest}", "sampler: no module 'nowhere': neither installed nor beside the recipe"),
        ("sampler={name: nowhere.at.all:X}", "sampler: no module 'nowhere.at.all': neither installed nor beside"),
        ("sampler={name: my_module:Loudst}", "sampler: my_module has no 'Loudst'; did you mean 'Loudest'?"),
        ("sampler={name: my_module:Xyz}", "sampler: my_module has no 'Xyz'; it has Loudest, OneByOne"),
        ("sampler={name: json:Xyz}", "sampler: json has no 'Xyz'"),
        (
            "sampler={name: my_module:OneByOne}",
            "sampler: my_module:OneByOne is no sampler: a sampler is a class with a method weights(now)",
        ),
        ("gate={name: json:dumps}", "gate: json:dumps is no gate: a gate is a class with a method admit(now)"),
        (
            "sampler={name: my_module:Loudest, strenght: 2}",
            "sampler: my_module:Loudest takes no 'strenght'; did you mean 'strength'?",
        ),
        (
            "sampler={name: my_module:Loudest, strength: -1}",
            "sampler: my_module:Loudest cannot be made: ValueError: strength must be at least 0; got -1 (my_module.py,",
        ),
        (
            "sampler={name: my_module:Loudest, strength: [a]}",
            "sampler: my_module:Loudest cannot be made: TypeError: '<' not supported",
        ),
        (
            "sampler={name: 'my module:Loudest'}",
            "sampler.name must be a module and a class, as in my_module:Loudest",
        ),
    ],
)
def test_what_is_no_gate_or_sampler_is_refused_before_anything_is_trained(
    change: str, message: str, folder: Path
) -> None:
    assert f"{folder}/recipe.yaml: curriculum.{message}" in refusal(folder, f"curriculum.{change}")


STRANGERS = """
class Needy:
    needs = {"gradient_norm", "benchmark"}
    def __init__(self, strength): pass
    def weights(self, now): return {}

class Chooser:
    def __init__(self, **settings): self.settings = settings
    @property
    def needs(self): return {"benchmark"} if self.settings.get("competent") else set()
    def weights(self, now): return {lang: 1 for lang in now.admitted}

class Failing:
    def weights(self, now): return {lang: now.dev_loss[lang] for lang in now.admitted}

class Near:
    def __init__(self, graph, threshold): self.near = graph.nearest
    def admit(self, now): return {lang: {"reason": "first"} for lang in now.waiting}
"""


def test_missing_arguments_unknown_signals_and_broken_modules_are_refused(folder: Path) -> None:
    (folder / "stranger.py").write_text(STRANGERS)
    (folder / "broken.py").write_text("import json\n\n)\n")
    assert "stranger:Needy needs strength: give it beside the name" in refusal(
        folder, "curriculum.sampler={name: stranger:Needy}"
    )
    assert "stranger:Needy needs gradient_norm; beside dev_loss, cclm has benchmark, train_loss" in refusal(
        folder, "curriculum.sampler={name: stranger:Needy, strength: 1}"
    )
    assert "broken cannot be imported: unmatched ')' (broken.py, line 3)" in refusal(
        folder, "curriculum.sampler={name: broken:X}"
    )


def test_reference_losses_are_trained_only_for_what_needs_them(folder: Path) -> None:
    (folder / "stranger.py").write_text(STRANGERS)

    def needs(sampler: str) -> bool:
        changes = ["curriculum.gate={name: all}", f"curriculum.sampler={sampler}"]
        return load_recipe(str(folder / "recipe.yaml"), changes).curriculum.needs_benchmark

    assert not needs("{name: my_module:Loudest}")
    assert not needs("{name: stranger:Chooser, shape: round}")
    assert needs("{name: stranger:Chooser, competent: true}")


def test_a_sampler_that_fails_before_training_is_named(folder: Path) -> None:
    (folder / "stranger.py").write_text(STRANGERS)
    changes = ["curriculum.gate={name: all}", "curriculum.sampler={name: stranger:Failing}"]
    recipe = load_recipe(str(folder / "recipe.yaml"), changes)
    with pytest.raises(ConfigError) as refused:
        recipe.curriculum.build(None, sizes={"tur": 1}, benchmark=None)
    assert str(refused.value) == (
        "curriculum: stranger:Failing failed before training: KeyError: 'tur' (stranger.py, line 14)"
    )


def test_a_gate_gets_the_language_graph_if_it_takes_one(folder: Path) -> None:
    from small_recipe import GRAPH

    (folder / "stranger.py").write_text(STRANGERS)
    recipe = load_recipe(str(folder / "recipe.yaml"), ["curriculum.gate={name: stranger:Near, threshold: high}"])
    gate = recipe.curriculum.gate.build(GRAPH)
    assert gate.near == {"aze": "tur", "glg": "por"}  # type: ignore[attr-defined]


def test_a_failure_of_our_own_is_not_blamed_on_the_settings() -> None:
    recipe = load_recipe("phrasebook", ["curriculum.gate={name: all}", "curriculum.sampler={name: temperature}"])
    with pytest.raises(TypeError):
        recipe.curriculum.build(None, sizes=None, benchmark=None)  # type: ignore[arg-type]


def test_a_simulation_takes_a_sampler_of_ones_own(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "my_module.py", tmp_path)
    command = [sys.executable, "-m", "cclm", "simulate", "related", LOUDEST, "--no-thresholds"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "sampler: my_module:Loudest" in done.stdout
    wrong = subprocess.run(
        [*command[:-2], "curriculum.sampler={name: my_module:Loud}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert wrong.returncode == 2
    assert "related: curriculum.sampler: my_module has no 'Loud'; did you mean 'Loudest'?" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    with pytest.raises(ConfigError, match="no module 'nowhere'"):
        load_scenario("related", ["curriculum.sampler={name: nowhere:Loud}"])


@pytest.mark.slow
def test_a_run_with_a_gate_and_a_sampler_of_ones_own_is_trained_resumed_and_reported(folder: Path) -> None:
    command = ["run", "recipe.yaml", LOUDEST, "training.max_steps=20"]
    command += ["curriculum.gate={name: my_module:OneByOne, rounds: 2}"]
    done = warm(*command, folder=folder)
    assert done.returncode == 0, done.stderr
    run = folder / "work" / "runs" / "small"
    assert "my_module:Loudest" in (run / CONFIG).read_text()
    assert "gate my_module:OneByOne, my_module:Loudest sampling" in (run / "report.html").read_text()
    assert "my_module:Loudest" in done.stderr + done.stdout
    assert [(e["step"], e["language"]) for e in events(run, "admitted")] == [(10, "aze")]
    saved = json.loads((run / "checkpoints" / "step-00000020" / "curriculum.json").read_text())
    assert "losses" in saved["memory"]["sampler"]
    assert not (folder / "work" / "cache" / "benchmark").exists()  # nothing needs L*
    longer = warm(*command, "training.max_steps=30", folder=folder)
    assert longer.returncode == 0, longer.stderr
    assert "resuming from step 20" in longer.stderr + longer.stdout


@pytest.mark.slow
def test_a_study_compares_a_sampler_of_ones_own_in_processes_of_its_own(folder: Path) -> None:
    own = '  loudest: {curriculum.sampler: {name: "my_module:Loudest", strength: 2}}\n'
    study = write_study(folder, own)
    done = warm("study", str(study), "changes.training.max_steps=10", folder=folder.parent)
    assert done.returncode == 0, done.stderr
    assert "loudest" in done.stdout


@pytest.mark.slow
def test_a_sweep_takes_a_sampler_of_ones_own(folder: Path) -> None:
    grid = ["--threshold", "0.3", "--aggregate", "avg"]
    done = warm("sweep", "recipe.yaml", LOUDEST, "training.max_steps=10", *grid, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "my_module:Loudest" in (folder / "work" / "runs" / "small-avg-0.3" / CONFIG).read_text()


def test_a_module_beside_the_study_is_found(folder: Path, tmp_path: Path) -> None:
    elsewhere = folder / "studies"
    elsewhere.mkdir()
    (folder / "my_module.py").rename(elsewhere / "my_module.py")
    text = (folder / "mini.yaml").read_text() + '  loudest: {curriculum.sampler: {name: "my_module:Loudest"}}\n'
    (elsewhere / "mini.yaml").write_text(text)
    assert "loudest" in load_study(str(elsewhere / "mini.yaml")).arms
    (elsewhere / "mini.yaml").write_text(text.replace("Loudest", "Loudst"))
    with pytest.raises(ConfigError, match="my_module has no 'Loudst'"):
        load_study(str(elsewhere / "mini.yaml"))
