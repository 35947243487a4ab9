"""One work folder, many settings: finished work is kept by what made it, and nothing is replaced behind one's back."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from off_path.cli import (
    STATIC,
    cclm,
    contents,
    copy_of,
    done,
    finish,
    lost,
    start,
    start_warm,
    trainings,
    wait_for,
    write_text,
)

from cclm.data.prepared import Prepared
from cclm.experiments.benchmark import _fingerprint
from cclm.recipe import load_recipe
from cclm.training.device import device_of

pytestmark = pytest.mark.slow
KINDS = ("prepared", "graph", "benchmark")
ONWARD = ("name=other", "training.max_steps=5")
"""Another run beside the finished one."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a recipe has gone from text to report."""
    folder = tmp_path_factory.mktemp("whole")
    write_text(folder)
    done(folder, "run", "recipe.yaml")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to do with as one likes."""
    return copy_of(whole, tmp_path)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text and recipe alone."""
    folder = tmp_path_factory.mktemp("untrained")
    write_text(folder)
    return folder


@pytest.fixture
def text(untrained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy_of(untrained, tmp_path)


def losses(folder: Path) -> dict[str, float]:
    """L* as benchmark.json has it now."""
    table: dict[str, float] = json.loads((folder / "work" / "benchmark.json").read_text())["losses"]
    return table


def runs_of(before: dict[str, str]) -> dict[str, str]:
    """The files of the finished run: its directory stays where it is, so they keep their paths too."""
    return {path: digest for path, digest in before.items() if path.startswith("runs/small/")}


def entries(folder: Path, kind: str) -> set[str]:
    """The keys in the cache of a kind."""
    return {path.name for path in (folder / "work" / "cache" / kind).iterdir() if not path.name.startswith(".")}


def current(folder: Path, kind: str) -> str:
    """The key that `prepared`, `graph.json` or `benchmark.json` points at."""
    pointer = folder / "work" / (kind if kind == "prepared" else f"{kind}.json")
    inside = pointer.resolve().relative_to((folder / "work" / "cache" / kind).resolve())
    return inside.parts[0]


OTHER_SETTINGS = [
    pytest.param(
        ["prepare", "recipe.yaml", "vocabulary.pieces=80"],
        id="prepare-pieces",
    ),
    pytest.param(
        ["prepare", "recipe.yaml", "data.high_resource=[tur, por]"],
        id="prepare-one-language-more",
    ),
    pytest.param(
        ["graph", "recipe.yaml", "graph.k=5"],
        id="graph-k",
    ),
    pytest.param(
        ["benchmark", "recipe.yaml", "training.patience=40"],
        id="benchmark-patience",
    ),
    pytest.param(
        ["benchmark", "recipe.yaml", "benchmark.max_steps=20"],
        id="benchmark-max_steps",
    ),
    pytest.param(["train", "recipe.yaml", *ONWARD], id="train-another-name"),
    pytest.param(
        ["train", "recipe.yaml", *ONWARD, "data.direction=one-to-many"],
        id="train-direction",
    ),
]


@pytest.mark.parametrize("command", OTHER_SETTINGS)
def test_other_settings_replace_no_finished_file(folder: Path, command: list[str]) -> None:
    """Everything finished is still there, to the byte: the run in its place, what it was made from anywhere."""
    before = contents(folder / "work")
    done(folder, *command)
    after = contents(folder / "work")
    assert {path: after.get(path) for path in runs_of(before)} == runs_of(before)
    assert lost(before, folder / "work") == []


def test_a_run_translates_the_same_after_other_pieces_were_prepared(folder: Path) -> None:
    """A run belongs to the data it was trained on, whatever is current now."""
    (folder / "lines.txt").write_text("ev kitap su 7.\nyol gün 12.\n")
    translate = ["translate", "work/runs/small", "--source", "tur", "--input", "lines.txt"]
    before = done(folder, *translate).stdout
    shutil.rmtree(folder / "work" / "runs" / "small" / "ctranslate2")  # the export that was made of it
    done(folder, "prepare", "recipe.yaml", "vocabulary.pieces=60")
    assert done(folder, *translate).stdout == before


def test_the_first_settings_find_everything_done_after_others_were_used(folder: Path) -> None:
    """Going back costs nothing: no stage is done again and no file changes."""
    done(folder, "benchmark", "recipe.yaml", "vocabulary.pieces=80", "benchmark.max_steps=5")
    before = contents(folder / "work")
    again = done(folder, "run", "recipe.yaml")
    assert len(re.findall("skipped: nothing has changed", again.stderr)) == 7
    assert lost(before, folder / "work") == []


def test_a_run_goes_on_after_its_text_was_moved(folder: Path) -> None:
    """The same text elsewhere is the same data: only the page, which has the settings, is drawn again."""
    (folder / "text").rename(folder / "elsewhere")
    before = contents(folder / "work" / "cache")
    again = done(folder, "run", "recipe.yaml", "data.path=elsewhere")
    assert re.findall(r"^(\w+) +done in", again.stderr, re.MULTILINE) == ["report"]
    done(folder, "train", "recipe.yaml", "data.path=elsewhere", "training.max_steps=15")
    assert contents(folder / "work" / "cache") == before


def test_a_longer_benchmark_leaves_the_shorter_one_as_it_was(folder: Path) -> None:
    """L* is a function of the settings, not of what was done before."""
    before = losses(folder)
    done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=20")
    assert losses(folder) != before
    done(folder, "benchmark", "recipe.yaml")
    assert losses(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        "training.patience=40",
        "training.stop_on=worst",
    ],
)
def test_settings_that_do_not_change_l_star_do_not_train_it_again(folder: Path, change: str) -> None:
    """These bitext models have taken all their steps: more patience, or how the shared model stops, changes nothing."""
    before = losses(folder)
    told = done(folder, "train", "recipe.yaml", *ONWARD, change)
    assert "bitext" not in told.stderr
    assert losses(folder) == before


def test_two_trainings_at_once_share_one_benchmark(text: Path) -> None:
    """The second waits for the bitext models of the first, or trains others of them meanwhile."""
    done(text, "prepare", "recipe.yaml")
    slow = ["benchmark.max_steps=400", "training.validate_every=100", "training.max_steps=5"]
    first = start_warm(text, "train", "recipe.yaml", "name=one", *slow)
    wait_for(lambda: trainings(text / "work"), first)
    second = start_warm(text, "train", "recipe.yaml", "name=two", *slow)
    results = [finish(first), finish(second)]
    assert [result.returncode for result in results] == [0, 0], [result.stderr for result in results]
    assert len(trainings(text / "work")) == 4  # two bitext models, two runs


def test_two_preparations_at_once_come_to_the_same_data(text: Path) -> None:
    """Both succeed, and what is there in the end is whole."""
    both = [start_warm(text, "prepare", "recipe.yaml"), start_warm(text, "prepare", "recipe.yaml")]
    assert [finish(process).returncode for process in both] == [0, 0]
    assert "nothing to do" in done(text, "prepare", "recipe.yaml", "--dry-run").stdout


def precision_here() -> str:
    """What `auto` stands for with the small model of these tests."""
    return device_of("cpu", "auto", width=16).precision


def test_automatic_precision_after_a_given_one_is_not_stuck(text: Path) -> None:
    """What `auto` stands for here differs from what was given before: L* of either is made and kept."""
    other = "bf16" if precision_here() == "fp32" else "fp32"
    done(text, "benchmark", "recipe.yaml", f"training.precision={other}")
    before, first = contents(text / "work"), losses(text)
    done(text, "benchmark", "recipe.yaml", "training.precision=auto")
    assert losses(text) != first
    assert len(entries(text, "benchmark")) == 2
    again = done(text, "benchmark", "recipe.yaml", "training.precision=auto")
    assert "bitext" not in again.stderr
    assert lost(before, text / "work") == []


@pytest.mark.parametrize("names", ["given-then-auto", "auto-then-given"])
def test_automatic_precision_and_what_it_stands_for_share_one_benchmark(text: Path, names: str) -> None:
    """L* is the same for both: the second finds it, and no file of it changes."""
    words = [precision_here(), "auto"] if names == "given-then-auto" else ["auto", precision_here()]
    done(text, "benchmark", "recipe.yaml", f"training.precision={words[0]}")
    before = contents(text / "work")
    told = done(text, "benchmark", "recipe.yaml", f"training.precision={words[1]}")
    assert "bitext" not in told.stderr
    assert contents(text / "work") == before


def test_a_benchmark_whose_key_has_the_word_auto_is_found(text: Path) -> None:
    """As earlier versions kept it."""
    done(text, "benchmark", "recipe.yaml", f"training.precision={precision_here()}")
    recipe = load_recipe(str(text / "recipe.yaml"), ["training.precision=auto"])
    prepared = Prepared.open(text / "work" / "prepared")
    earlier = _fingerprint(recipe, prepared)
    entry = text / "work/cache/benchmark" / current(text, "benchmark")
    table = json.loads((entry / "benchmark.json").read_text())
    (entry / "benchmark.json").write_text(json.dumps(table | {"fingerprint": earlier}))
    entry.rename(entry.with_name(earlier[:16]))
    for precision in ("auto", precision_here()):
        told = done(text, "benchmark", "recipe.yaml", f"training.precision={precision}")
        assert "bitext" not in told.stderr
        assert current(text, "benchmark") == earlier[:16]


def test_the_cache_holds_prepared_data_graph_and_benchmark_by_key(folder: Path) -> None:
    """`prepared`, `graph.json` and `benchmark.json` are links into the cache: programs can read through them."""
    assert {kind: len(entries(folder, kind)) for kind in KINDS} == dict.fromkeys(KINDS, 1)
    assert {kind: current(folder, kind) for kind in KINDS} == {kind: min(entries(folder, kind)) for kind in KINDS}
    assert set(losses(folder)) == {"tur", "aze"}


def test_the_pointers_follow_the_settings_and_the_old_entries_stay(folder: Path) -> None:
    """Other pieces are another key of each kind; the first settings point at the first keys again."""
    first = {kind: current(folder, kind) for kind in KINDS}
    done(folder, "train", "recipe.yaml", *ONWARD, "vocabulary.pieces=80")
    second = {kind: current(folder, kind) for kind in KINDS}
    assert {kind: {first[kind], second[kind]} for kind in KINDS} == {kind: entries(folder, kind) for kind in KINDS}
    assert all(first[kind] != second[kind] for kind in ("prepared", "benchmark"))  # the graph may be the same
    done(folder, "run", "recipe.yaml")
    assert {kind: current(folder, kind) for kind in KINDS} == first


def test_the_config_of_a_run_names_its_keys(folder: Path) -> None:
    """Which data, graph and L* a run was trained with can be read from its config.yaml."""
    keys = [current(folder, kind) for kind in KINDS]
    config = (folder / "work" / "runs" / "small" / "config.yaml").read_text()
    assert [key for key in keys if key not in config] == []


def test_clean_removes_what_no_run_and_no_pointer_uses(folder: Path) -> None:
    """Called with the work folder; with --dry-run it only lists. The data of a run stay, and so do the current ones."""
    done(folder, "clean", "--help")
    first = current(folder, "prepared")
    done(folder, "prepare", "recipe.yaml", "vocabulary.pieces=80")
    unused = current(folder, "prepared")
    done(folder, "prepare", "recipe.yaml", "vocabulary.pieces=60")
    before = contents(folder / "work")
    assert unused in done(folder, "clean", "work", "--dry-run").stdout
    assert contents(folder / "work") == before
    done(folder, "clean", "work")
    assert entries(folder, "prepared") == {first, current(folder, "prepared")}


def test_clean_removes_bitext_models_that_no_run_and_no_pointer_uses(folder: Path) -> None:
    """L* of a run stays, although another one is current; so do the runs themselves."""
    of_run = current(folder, "benchmark")
    done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=5")
    unused = current(folder, "benchmark")
    done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=4")
    assert entries(folder, "benchmark") == {of_run, unused, current(folder, "benchmark")}
    kept = {path: digest for path, digest in contents(folder / "work").items() if unused not in path}
    assert unused in done(folder, "clean", "work", "--dry-run").stdout
    assert unused in entries(folder, "benchmark")
    done(folder, "clean", "work")
    assert contents(folder / "work") == kept
    assert "bitext" not in done(folder, "train", "recipe.yaml", "name=third").stderr  # L* of the run is found


@pytest.mark.parametrize("command", ["prepare", "benchmark", "train", "run"])
def test_a_dry_run_changes_nothing(folder: Path, command: str) -> None:
    """Not even where other settings would make everything anew."""
    before = contents(folder)
    done(folder, command, "recipe.yaml", "--dry-run", "name=other", "vocabulary.pieces=80")
    assert contents(folder) == before


def test_a_dry_run_names_what_is_reused(folder: Path) -> None:
    """A run of another name takes data, graph and L* as they are, and the dry run says so of each."""
    lines = done(folder, "train", "recipe.yaml", "name=other", "--dry-run").stdout.splitlines()
    reused = [line.split()[0] for line in lines if "reused" in line]
    assert reused == ["prepare", "graph", "benchmark"]


@pytest.mark.parametrize("change", ["vocabulary.pieces=80", "data.direction=one-to-many"])
def test_a_dry_run_names_what_is_made_and_what_is_no_longer_used(folder: Path, change: str) -> None:
    """Other bitext models are to be made, and those that are there are named as no longer used, before it happens."""
    told = done(folder, "train", "recipe.yaml", "name=other", change, "--dry-run").stdout
    benchmark = next(line for line in told.splitlines() if line.startswith("benchmark"))
    assert "would train" in benchmark or "would be made" in benchmark
    assert re.search(r"no longer used\b.*\bwork/", told)


def test_a_dry_run_names_what_is_reused_where_something_else_is_current(folder: Path) -> None:
    """Other pieces were prepared last: what the first settings take is named, and so is what is current now."""
    first = current(folder, "prepared")
    done(folder, "prepare", "recipe.yaml", "vocabulary.pieces=80")
    line = (
        f"work/cache/prepared/{first} is reused;"
        f" no longer used, and kept: work/cache/prepared/{current(folder, 'prepared')}"
    )
    assert f"prepare    nothing to do: {line}\n" in done(folder, "run", "recipe.yaml", "--dry-run").stdout
    given = json.dumps({"version": 1, "losses": losses(folder)})
    (folder / "table.json").write_text(given)
    told = done(folder, "train", "recipe.yaml", "benchmark.file=table.json", "name=other", "--dry-run").stdout
    assert "\nbenchmark  nothing to do\n" in told  # the entry of the cache has no part in it


def test_a_dry_run_of_prepare_says_that_the_data_there_are_no_longer_used(folder: Path) -> None:
    """`cclm prepare --dry-run` with other pieces: made anew beside what is there, which is kept."""
    told = done(folder, "prepare", "recipe.yaml", "vocabulary.pieces=80", "--dry-run").stdout
    assert "no longer used" in told


CHANGES: list[tuple[str, ...]] = [
    (),
    ("translation.beam=2",),
    ("training.max_steps=15",),
    ("name=other",),
    ("name=other", "graph.k=5"),
    ("name=other", "vocabulary.pieces=80"),
    ("name=other", "benchmark.max_steps=5"),
    ("name=other", "data.high_resource=[tur, por]"),
    ("name=other", "vocabulary.pieces=80", *STATIC),
]


@pytest.mark.parametrize("changes", CHANGES, ids="-".join)
def test_a_dry_run_names_the_stages_that_are_then_run(folder: Path, changes: tuple[str, ...]) -> None:
    """No other stage is run, and each of these is; but a graph of other data may turn out to be the same."""
    planned = json.loads(done(folder, "run", "recipe.yaml", *changes, "--dry-run", "--json").stdout)["stages"]
    told = done(folder, "run", "recipe.yaml", *changes).stderr
    made, to_do = set(re.findall(r"^(\w+) +done in", told, re.MULTILINE)), {s["stage"] for s in planned if s["to_do"]}
    assert to_do - {"graph"} <= made <= to_do


@pytest.fixture
def adopted(tmp_path: Path) -> Path:
    """A work folder as version 0.1.0 left it after `cclm run`, with its text and recipe."""
    shutil.unpack_archive(Path(__file__).with_name("work-0.1.0.tar.xz"), tmp_path, filter="data")
    return tmp_path / "work-0.1.0"


def test_a_work_folder_of_0_1_0_is_adopted_without_training(adopted: Path) -> None:
    """Data, graph, L* and the finished run are taken as they are: their contents stay, and no step is trained."""
    before = contents(adopted / "work")
    again = done(adopted, "run", "recipe.yaml")
    assert [line for line in again.stderr.splitlines() if "bitext" in line or line.startswith("step ")] == []
    # The page may be drawn anew by a newer version, and the run's config names its keys from now on.
    drawn = ("runs/small/report.html", "runs/small/config.yaml", "runs/bitext/recipe.json")
    assert [path for path in lost(before, adopted / "work") if not path.endswith(drawn)] == []
    assert losses(adopted) == {"tur": pytest.approx(LOSSES["tur"]), "aze": pytest.approx(LOSSES["aze"])}


def test_a_run_of_0_1_0_goes_on(adopted: Path) -> None:
    """More steps on an adopted run are trained on from its last checkpoint, with the L* it was begun with."""
    log = (adopted / "work" / "runs" / "small" / "log.jsonl").read_bytes()
    again = done(adopted, "train", "recipe.yaml", "training.max_steps=15")
    assert "bitext" not in again.stderr
    longer = (adopted / "work" / "runs" / "small" / "log.jsonl").read_bytes()
    assert longer.startswith(log)
    assert len(longer) > len(log)


LOSSES = {"tur": 7.44589776024733, "aze": 7.691319845098331}
"""L* in that work folder."""


def test_wrong_settings_are_refused_without_touching_the_folder(folder: Path) -> None:
    """A typing error changes no file."""
    before = contents(folder)
    assert cclm(folder, "train", "recipe.yaml", "training.pacience=40").returncode == 2
    assert contents(folder) == before


def test_a_multilingual_training_takes_the_place_of_bitext_models(folder: Path) -> None:
    """And the other way round; what was trained is reused. No link pretends that there are bitext models."""
    bitext = folder / "work" / "runs" / "bitext"
    before = losses(folder)
    assert bitext.is_dir()
    done(folder, "benchmark", "recipe.yaml", "benchmark={method: multilingual, max_steps: 5}")
    assert losses(folder) != before
    assert not bitext.exists()
    told = cclm(folder, "score", "work/runs/bitext")
    assert told.returncode == 2
    assert "work/runs/bitext: no bitext models here; they are trained where benchmark.method is bitext" in told.stderr
    refused = cclm(folder, "benchmark", "recipe.yaml", "benchmark={method: none}")
    assert (refused.returncode, "benchmark.method is none" in refused.stderr) == (2, True)
    done(folder, "benchmark", "recipe.yaml")
    assert losses(folder) == before
    assert bitext.is_dir()


def test_clean_removes_nothing_while_another_command_uses_the_cache(text: Path) -> None:
    """Data for which bitext models are being trained has no link and no run yet."""
    endless = ["benchmark", "recipe.yaml", "benchmark.max_steps=1000000", "training.patience=1000000"]
    process = start(text, *endless)
    try:
        wait_for(lambda: trainings(text / "work"), process)
        needed = current(text, "prepared")
        done(text, "prepare", "recipe.yaml", "vocabulary.pieces=60")
        told = cclm(text, "clean", "work")
        assert (told.returncode, needed in entries(text, "prepared")) == (1, True)
        assert "work/cache: another command is using it; nothing was removed: wait until it has ended" in told.stderr
        assert needed in done(text, "clean", "work", "--dry-run").stdout
    finally:
        process.terminate()
        finish(process)
    done(text, "clean", "work")
    assert needed not in entries(text, "prepared")


def test_a_recipe_without_a_graph_leaves_no_link_to_that_of_another(folder: Path) -> None:
    done(folder, "graph", "recipe.yaml")
    assert (folder / "work" / "graph.json").is_symlink()
    few = ("name=one", "training.max_steps=1", "training.validate_every=1", *STATIC)
    done(folder, "train", "recipe.yaml", "data.high_resource=[tur, aze]", "data.low_resource=[]", *few)
    assert not os.path.lexists(folder / "work" / "graph.json")
    assert entries(folder, "graph")  # it stays in the cache
