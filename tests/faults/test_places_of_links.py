"""Files of a user's in a work folder, under the names that cclm uses for its links: they stay where they are."""

import json
import os
import shutil
from pathlib import Path

import pytest
from command import Ended, assert_done, assert_refused, cclm, listing
from faults.test_full_disk import small_disk

from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder
from cclm.experiments.benchmark import bitext_folder
from cclm.recipe import load_recipe

pytestmark = pytest.mark.slow
NO_GRAPH = ("data.high_resource=[tur, aze]", "data.low_resource=[]", "curriculum.gate={name: all}")
GRAPH = {"version": 1, "high_resource": ["tur"], "low_resource": ["aze"], "similarity": {"aze": {"tur": 0.5}}}


def mine(place: Path, content: str = "mine") -> Path:
    """A file that the user has written."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return place


def assert_untouched(ended: Ended, before: dict[str, str], folder: Path, name: str) -> None:
    """The command was refused before it wrote anything, and its message names the file."""
    assert_refused(ended, f"{name}: exists and was not made by cclm; nothing was changed", "move it")
    assert listing(folder) == before


@pytest.mark.parametrize("written", ["by hand", "by cclm"])
@pytest.mark.parametrize("settings", [(), ("graph.file=work/graph.json",)], ids=["computed graph", "graph.file"])
@pytest.mark.parametrize("command", ["train", "graph"])
def test_a_graph_of_ones_own_is_neither_moved_nor_replaced(
    fresh: Path, command: str, settings: tuple[str, ...], written: str
) -> None:
    text = json.dumps(GRAPH)
    mine(fresh / "work/graph.json", LanguageGraph.from_json(text).to_json() if written == "by cclm" else text)
    before = listing(fresh)
    ended = cclm(command, "recipe.yaml", *settings, folder=fresh)
    assert_untouched(ended, before, fresh, "work/graph.json")


def test_a_graph_that_is_no_text_is_left_alone(fresh: Path) -> None:
    """`prepare` needs no graph, and reads none."""
    (fresh / "work/graph.json").write_bytes(b"\xff")
    before = listing(fresh)
    assert_done(cclm("prepare", "recipe.yaml", folder=fresh))
    assert listing(fresh) == before


@pytest.mark.parametrize("name", ["graph.json", "graph.svg"])
@pytest.mark.parametrize("is_link", [False, True], ids=["file", "link"])
def test_a_file_stays_where_a_recipe_needs_no_graph(fresh: Path, name: str, is_link: bool) -> None:
    """A link that the user has made is as much theirs as a file."""
    place = fresh / "work" / name
    if is_link:
        mine(fresh / "drawing")
        place.symlink_to("../drawing")
    else:
        mine(place)
    assert_done(cclm("train", "recipe.yaml", *NO_GRAPH, "training.max_steps=5", folder=fresh))
    assert (place.read_text(), place.is_symlink()) == ("mine", is_link)


@pytest.fixture
def text(untrained: Path, tmp_path: Path) -> Path:
    """A folder with text and a recipe for which bitext models are trained. Nothing is prepared."""
    shutil.copytree(untrained / "text", tmp_path / "text")
    (tmp_path / "r.yaml").write_text(
        (untrained / "recipe.yaml").read_text().replace("{file: table.json}", "{max_steps: 5}")
    )
    return tmp_path


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("prepared", "prepare"),
        ("prepared", "train"),
        ("graph.json", "train"),
        ("graph.svg", "graph"),
        ("benchmark.json", "benchmark"),
        ("benchmark.json", "train"),
        ("runs/bitext", "benchmark"),
        ("runs/bitext", "sweep"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry run"])
def test_a_place_that_is_taken_is_refused_before_any_work(
    text: Path, name: str, command: str, dry: tuple[str, ...]
) -> None:
    if command == "graph" and dry:
        return  # it has no such option
    if name in ("prepared", "runs/bitext"):
        (text / "work" / name).mkdir(parents=True)
    else:
        mine(text / "work" / name, json.dumps({"version": 1, "losses": {"tur": 4.0, "aze": 4.0}}))
    before = listing(text)
    ended = cclm(command, "r.yaml", *dry, *(("--threshold", "1") if command == "sweep" else ()), folder=text)
    assert_untouched(ended, before, text, f"work/{name}")


@pytest.mark.parametrize("name", ["graph.json", "runs/bitext.2"])
def test_a_place_that_is_taken_is_refused_before_a_study_begins(text: Path, name: str) -> None:
    """runs/bitext.SEED is a link to the bitext models of a seed."""
    study = {
        "version": 1,
        "name": "s",
        "recipe": "r.yaml",
        "seeds": [1, 2],
        "primary": [["own", "bitext"]],
        "arms": {"own": {}, "bitext": {}},
    }
    (text / "s.yaml").write_text(json.dumps(study))
    mine(text / "work" / name)
    before = listing(text)
    assert_untouched(cclm("study", "s.yaml", folder=text), before, text, f"work/{name}")


def test_a_table_of_ones_own_in_the_work_folder_can_be_named(fresh: Path) -> None:
    """A recipe whose L* is in a file needs no link to it."""
    table = mine(fresh / "work/benchmark.json", (fresh / "table.json").read_text())
    before = table.read_bytes()
    assert_done(
        cclm("train", "recipe.yaml", "benchmark.file=work/benchmark.json", "training.max_steps=5", folder=fresh)
    )
    assert (table.read_bytes(), table.is_symlink()) == (before, False)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A work folder as version 0.1.0 left it, with its text and recipe."""
    shutil.unpack_archive(Path(__file__).parents[1] / "off_path" / "work-0.1.0.tar.xz", tmp_path, filter="data")
    return tmp_path / "work-0.1.0"


def test_a_table_of_ones_own_beside_bitext_models_of_0_1_0_stays(old: Path) -> None:
    mine(old / "work/benchmark.json", json.dumps({"version": 1, "losses": {"tur": 4.0, "aze": 4.0}}))
    before = listing(old)
    assert_untouched(cclm("run", "recipe.yaml", folder=old), before, old, "work/benchmark.json")


@pytest.mark.parametrize("name", ["graph", "benchmark"])
def test_a_file_of_0_1_0_that_the_recipe_names_stays_in_its_place(old: Path, name: str) -> None:
    """The link that a graph needs is refused; losses from a file need none."""
    before = (old / f"work/{name}.json").read_bytes()
    ended = cclm("train", "recipe.yaml", "name=other", f"{name}.file=work/{name}.json", folder=old)
    assert ended.code == (1 if name == "graph" else 0), ended
    assert ((old / f"work/{name}.json").read_bytes(), (old / f"work/{name}.json").is_symlink()) == (before, False)


def test_losses_of_0_1_0_whose_bitext_models_are_gone_are_adopted(old: Path) -> None:
    shutil.rmtree(old / "work/runs/bitext")
    ended = cclm("benchmark", "recipe.yaml", folder=old)
    assert_done(ended)
    assert "bitext tur" not in ended.stderr
    assert (old / "work/benchmark.json").is_symlink()


def runs_elsewhere(folder: Path, elsewhere: Path) -> None:
    """Lets WORK/runs be a symbolic link to another place."""
    runs = folder / "work" / "runs"
    if runs.exists():
        shutil.move(runs, elsewhere)
    else:
        runs.parent.mkdir(exist_ok=True)
        elsewhere.mkdir(parents=True)
    runs.symlink_to(elsewhere)


def test_links_in_a_runs_folder_behind_a_symlink_lead_into_the_cache(text: Path, tmp_path: Path) -> None:
    """And `clean` sees them: the bitext models of each seed of a study are in use."""
    runs_elsewhere(text, tmp_path / "deep" / "er" / "scratch")
    assert_done(cclm("benchmark", "r.yaml", folder=text))
    assert_done(cclm("score", "work/runs/bitext", folder=text))
    recipe = load_recipe(str(text / "r.yaml"), [f"work={text / 'work'}", "seed=2"])
    prepared = Prepared.open(text / "work" / "prepared")
    entry = bitext_folder(recipe, prepared)
    shutil.copytree(text / "work/runs/bitext/", entry)
    WorkFolder(text / "work").link("runs/bitext.2", entry)
    ended = cclm("clean", "work", "--dry-run", folder=text)
    assert_done(ended)
    assert "nothing to remove" in ended.stderr


@pytest.mark.parametrize("place", ["runs", "cache"])
def test_a_work_folder_of_0_1_0_on_two_disks_is_adopted(old: Path, tmp_path: Path, place: str) -> None:
    with small_disk(tmp_path / "disk", "40m") as disk:
        if place == "runs":
            runs_elsewhere(old, disk / "runs")
        else:
            (disk / "cache").mkdir()
            (old / "work" / "cache").symlink_to(disk / "cache")
        before = set(listing(old / "work").values()) | set(listing(old / "work/runs").values())
        ended = cclm("benchmark", "recipe.yaml", folder=old)
        assert_done(ended)
        assert "bitext tur" not in ended.stderr
        assert_done(cclm("score", "work/runs/bitext", folder=old))
        assert (old / "work/runs/bitext").is_symlink()
        found = {value for name in ("", "cache", "runs") for value in listing(old / "work" / name).values()}
        assert before <= found
        assert [name for name in listing(old / "work") if ".cclm-" in name] == []


def test_a_link_that_a_kill_left_unfinished_is_removed(fresh: Path) -> None:
    """Neither one of a user with a similar name, nor one that another process is about to rename."""
    link = fresh / "work" / ".prepared.cclm-0123456789abcdef.tmp"
    link.symlink_to("cache/prepared/0123456789abcdef")
    new = fresh / "work" / ".prepared.cclm-0000000000000000.tmp"
    new.symlink_to("cache/prepared/0123456789abcdef")
    mine = fresh / "work" / ".prepared.cclm-fedcba9876543210.tmp"
    mine.symlink_to("../text")
    for path in (link, mine):
        os.utime(path, (0, 0), follow_symlinks=False)
    assert_done(cclm("prepare", "recipe.yaml", "vocabulary.pieces=60", folder=fresh))
    assert (link.is_symlink(), new.is_symlink(), mine.is_symlink()) == (False, True, True)
