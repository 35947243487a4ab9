"""Everything that can be known is checked before the first step of the first stage: no training is done for nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest
from off_path.cli import contents, copy_of, done, refused, trainings, write_text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with prepared text, and nothing trained."""
    folder = tmp_path_factory.mktemp("prepared")
    write_text(folder)
    (folder / "recipe.yaml").write_text(
        (folder / "recipe.yaml").read_text().replace("{max_steps: 10}", "{max_steps: 1}")
    )
    done(folder, "prepare", "recipe.yaml")
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy_of(prepared, tmp_path)


def test_other_bitext_steps_on_a_begun_run_are_refused_before_anything_is_trained(folder: Path) -> None:
    """The run keeps the L* that it was begun with; the message names the setting, before and now."""
    done(folder, "train", "recipe.yaml", "training.max_steps=5")
    before = contents(folder / "work")
    message = refused(folder, "train", "recipe.yaml", "training.max_steps=5", "benchmark.max_steps=2")
    assert contents(folder / "work") == before
    assert "benchmark" in message


@pytest.mark.parametrize("command", ["benchmark", "train"])
def test_a_language_without_a_dev_set_is_refused_before_anything_is_trained(folder: Path, command: str) -> None:
    """As `cclm doctor` says it: which language, and that data.cut.dev is the way out."""
    (folder / "text" / "aze.dev.tsv").unlink()
    message = refused(folder, command, "recipe.yaml")
    assert trainings(folder / "work") == []
    assert "aze" in message
    assert "data.cut.dev" in message


def test_an_empty_dev_set_is_refused_before_anything_is_trained(folder: Path) -> None:
    """A dev set of no pairs is as good as none."""
    (folder / "text" / "aze.dev.tsv").write_text("")
    message = refused(folder, "train", "recipe.yaml")
    assert trainings(folder / "work") == []
    assert "aze" in message


NOT_TO_BE_USED = [
    pytest.param("train", "graph.file=missing.json", "graph.file", id="graph-file-missing"),
    pytest.param("train", "benchmark.file=missing.json", "benchmark.file", id="benchmark-file-missing"),
    pytest.param("train", "benchmark.file=table.json", "aze", id="benchmark-file-without-a-language"),
    pytest.param("benchmark", "training.device=cuda:99", "training.device", id="benchmark-device"),
    pytest.param("train", "training.device=cuda:99", "training.device", id="train-device"),
]


@pytest.mark.parametrize(("command", "change", "named"), NOT_TO_BE_USED)
def test_what_cannot_be_used_is_refused_before_anything_is_trained(
    folder: Path, command: str, change: str, named: str
) -> None:
    """The message names the setting, or what it lacks."""
    (folder / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 4.0}}))
    message = refused(folder, command, "recipe.yaml", change)
    assert trainings(folder / "work") == []
    assert named in message


@pytest.fixture
def unread(prepared: Path, tmp_path: Path) -> Path:
    """The same text, not prepared yet."""
    folder = copy_of(prepared, tmp_path)
    shutil.rmtree(folder / "work")
    return folder


BEFORE_READING = [
    pytest.param(("curriculum.gate.threshold=-1",), "threshold", id="threshold"),
    pytest.param(("curriculum.sampler={name: fixed, weights: {tur: 1}}",), "aze", id="no-share-for-a-language"),
    pytest.param(("curriculum.gate={name: step, steps: {xyz: 3}}",), "xyz", id="step-of-an-unknown-language"),
    pytest.param(("data.high_resource=[]",), "high_resource", id="no-hrl"),
    pytest.param(("data.high_resource=[tur, aze]", "data.low_resource=[]"), "{name: all}", id="no-lrl"),
    pytest.param(("benchmark.file=missing.json",), "missing.json", id="benchmark-file-missing"),
    pytest.param(("benchmark.file=table.json",), "aze", id="benchmark-of-other-languages"),
    pytest.param(("graph.file=missing.json",), "missing.json", id="graph-file-missing"),
    pytest.param(("graph.file=graph.json",), "por", id="graph-of-other-languages"),
    pytest.param(("training.device=cuda:99",), "training.device", id="device"),
    pytest.param(("work=recipe.yaml",), "recipe.yaml: a file, and work needs a folder", id="work-is-a-file"),
    pytest.param(("work=recipe.yaml/sub",), "recipe.yaml: a file, and work needs a folder", id="work-below-a-file"),
    pytest.param(("training.device=mps",), "training.device", id="device-of-another-kind-of-machine"),
]


@pytest.mark.parametrize(("changes", "named"), BEFORE_READING)
@pytest.mark.parametrize("command", ["train", "run"])
def test_what_needs_no_text_is_refused_before_any_is_read(
    unread: Path, command: str, changes: tuple[str, ...], named: str
) -> None:
    """Preparing a large corpus takes minutes, its bitext models hours: neither is begun."""
    (unread / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 4.0}}))
    graph = {"version": 1, "k": 9, "high_resource": ["tur"], "low_resource": ["por"]}
    (unread / "graph.json").write_text(json.dumps(graph | {"similarity": {"por": {"tur": 0.5}}}))
    message = refused(unread, command, "recipe.yaml", *changes)
    assert named in message
    assert message.count("\n") == 1
    assert not (unread / "work").exists()


def test_a_dev_set_without_a_pair_is_refused_before_any_training_text_is_read(unread: Path) -> None:
    """That of the last language: a line that is no pair stands in the training text of the first one."""
    (unread / "text" / "aze.dev.tsv").write_text("one side alone\t\n")
    with (unread / "text" / "tur.train.tsv").open("a") as file:
        file.write("no pair\n")
    message = refused(unread, "prepare", "recipe.yaml")
    assert "the dev set of aze has no pair with text on both sides" in message


@pytest.mark.parametrize("command", ["benchmark", "train", "run", "sweep"])
def test_a_missing_dev_set_is_refused_before_any_text_is_read(unread: Path, command: str) -> None:
    """Which splits there are is known from the names of the files."""
    (unread / "text" / "aze.dev.tsv").unlink()
    assert "aze: no dev set" in refused(unread, command, "recipe.yaml")
    assert not (unread / "work").exists()


def test_a_graph_of_languages_of_one_kind_is_refused_before_any_text_is_read(unread: Path) -> None:
    """In words of recipes."""
    assert "data.low_resource is empty" in refused(unread, "graph", "recipe.yaml", "data.low_resource=[]")
    assert not (unread / "work").exists()


@pytest.mark.parametrize("command", ["benchmark", "sweep"])
def test_a_device_that_is_not_there_is_refused_before_any_text_is_read(unread: Path, command: str) -> None:
    """By every command that trains; in one line, and not by the process of each bitext model."""
    message = refused(unread, command, "recipe.yaml", "training.device=cuda:99")
    assert message.startswith("cclm: training.device 'cuda:99'")
    assert message.count("\n") == 1
    assert not (unread / "work").exists()


@pytest.mark.parametrize(
    "command", [["train"], ["sweep", "--threshold", "0.3", "--aggregate", "max"]], ids=lambda c: c[0]
)
def test_a_device_that_is_not_there_is_refused_before_other_data_is_prepared(folder: Path, command: list[str]) -> None:
    """In a folder where something was trained before, too."""
    done(folder, "benchmark", "recipe.yaml")
    before = contents(folder / "work")
    changes = ["vocabulary.pieces=80", "training.device=cuda:99"]
    message = refused(folder, command[0], "recipe.yaml", *command[1:], *changes)
    assert message.startswith("cclm: training.device 'cuda:99'")
    assert contents(folder / "work") == before


UNTRAINABLE = """version: 1
name: small
recipe: recipe.yaml
seeds: [1]
baseline: plain
primary: [[other, plain]]
arms: {plain: {}, other: {curriculum.sampler: {name: fixed, weights: {tur: 1}}}}
"""


def test_an_arm_that_cannot_be_trained_is_refused_before_the_study_is_declared(unread: Path) -> None:
    """The message names the arm; a study that is mended afterwards is not taken for a changed one."""
    (unread / "study.yaml").write_text(UNTRAINABLE)
    message = refused(unread, "study", "study.yaml")
    assert "arm other: curriculum" in message
    assert not (unread / "work").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("data.low_resource=[]", "curriculum.gate={name: all}"),  # the default gate has nobody to admit
        ("benchmark.file=missing.json", "benchmark.file missing.json"),
        ("graph.file=missing.json", "graph.file missing.json"),
    ],
)
def test_doctor_says_that_training_would_refuse_the_recipe(unread: Path, change: str, named: str) -> None:
    told = done(unread, "doctor", "recipe.yaml", change)
    assert "`cclm train` will refuse this recipe" in told.stdout
    assert named in told.stdout


def test_a_finished_run_needs_no_device(folder: Path) -> None:
    """The page of a run that was trained elsewhere can be made on any machine."""
    done(folder, "train", "recipe.yaml", "training.max_steps=5")
    done(folder, "run", "recipe.yaml", "training.max_steps=5", "training.device=cuda:99")


def test_text_that_is_not_found_is_refused_with_the_names_that_were_tried(unread: Path) -> None:
    """And with the files that are there: most often, one of the two has a typing error."""
    message = refused(unread, "train", "recipe.yaml", "data.format=tmx")
    assert "tur.train.tmx" in message
    assert "aze.dev.tsv" in message


def test_a_run_without_any_test_set_ends_with_a_page_without_scores(folder: Path) -> None:
    """Known before the first step: `cclm run` ends with a page without scores, and does not fail after the training."""
    for path in (folder / "text").glob("*.test.tsv"):
        path.unlink()
    told = done(folder, "run", "recipe.yaml", "training.max_steps=5")
    assert "no test set" in told.stderr
    assert (folder / "work" / "runs" / "small" / "report.html").is_file()


def test_a_sweep_without_low_resource_languages_is_refused_before_anything_is_trained(folder: Path) -> None:
    """There is nobody to admit, hence no threshold to look for."""
    message = refused(folder, "sweep", "recipe.yaml", "data.high_resource=[tur, aze]", "data.low_resource=[]")
    assert trainings(folder / "work") == []
    assert "low_resource" in message


STUDY = """version: 1
name: mini
recipe: recipe.yaml
seeds: [1]
arms: {ccl-m: {}}
"""
SWEEP = ["sweep", "recipe.yaml", "training.max_steps=5", "--threshold", "0.3", "--aggregate", "max"]


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (SWEEP, "vocabulary.pieces=80"),
        (SWEEP, "benchmark.max_steps=2"),
        (["study", "mini.yaml", "changes.training.max_steps=5"], "changes.vocabulary.pieces=80"),
        (["study", "mini.yaml", "changes.training.max_steps=5"], "changes.benchmark.max_steps=2"),
    ],
    ids=["sweep-pieces", "sweep-benchmark", "study-pieces", "study-benchmark"],
)
def test_settings_that_its_runs_were_not_begun_with_are_refused_before_anything_is_made(
    folder: Path, command: list[str], change: str
) -> None:
    """Neither other data nor other bitext models are made for runs that could not use them."""
    (folder / "mini.yaml").write_text(STUDY)
    done(folder, *command)
    before = contents(folder / "work")
    message = refused(folder, *command, change)
    key, _, value = change.removeprefix("changes.").partition("=")
    assert re.search(rf"{re.escape(key)}: \d+ -> {value}", message)
    assert contents(folder / "work") == before


@pytest.mark.parametrize(
    "command",
    [["train", "recipe.yaml", "training.max_steps=5"], SWEEP, ["study", "mini.yaml", "changes.training.max_steps=5"]],
    ids=lambda command: command[0],
)
def test_other_text_than_a_run_was_begun_with_is_refused_before_it_is_prepared(
    folder: Path, command: list[str]
) -> None:
    """By the dry run as well. The message names the split; with the first text, everything is found again."""
    (folder / "mini.yaml").write_text(STUDY)
    done(folder, *command)
    before, path = contents(folder / "work"), folder / "text" / "aze.train.tsv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "one more house.\tbir ev daha.\n", encoding="utf-8")
    for options in ((), ("--dry-run",)):
        assert "was begun with other text: aze.train changed; restore it" in refused(folder, *command, *options)
    assert contents(folder / "work") == before
    path.write_text(text, encoding="utf-8")
    done(folder, *command)
    assert contents(folder / "work") == before
