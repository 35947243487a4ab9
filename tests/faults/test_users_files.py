"""What a user has on disk is not cclm's to delete or replace. Through the command line only."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import command
import pytest
from command import assert_done, assert_refused
from corpora import write_tsv
from faults.test_full_disk import small_disk
from trained_run import trained_run
from warm_commands import warm

PHRASEBOOK = ["phrasebook", "--out", "."]
PHRASEBOOK += [f"--size={code}=50,5,6" for code in ("tur", "rus", "por", "ces", "aze", "bel", "glg", "slk")]


def cclm(*arguments: str | Path, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    if not text:
        return warm(*map(str, arguments), folder=cwd)
    command = [sys.executable, "-m", "cclm", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, timeout=120, check=False)


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its checksum."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


RECIPE = """
version: 1
name: mine
work: work
data: {format: tsv, path: text, high_resource: [tur, por], low_resource: [aze, glg]}
vocabulary: {pieces: 120}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "text")
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def test_a_corpus_in_a_folder_called_prepared_is_not_replaced_by_its_own_preparation(place: Path) -> None:
    shutil.move(place / "text", place / "work" / "prepared")
    before = contents(place)
    done = cclm("prepare", "r.yaml", "data.path=work/prepared", cwd=place)
    assert done.returncode == 1
    assert "work/prepared: exists and was not made by cclm; nothing was changed" in done.stderr
    assert contents(place) == before


def test_text_inside_prepared_data_is_not_replaced(place: Path) -> None:
    assert cclm("prepare", "r.yaml", cwd=place).returncode == 0
    shutil.move(place / "text", place / "work" / "prepared" / "text")
    before = contents(place)
    done = cclm("prepare", "r.yaml", "data.path=work/prepared/text", "vocabulary.pieces=110", cwd=place)
    assert done.returncode == 1
    assert "this text is inside work/prepared" in done.stderr
    assert "change work" in done.stderr
    assert contents(place) == before


@pytest.mark.parametrize("manifest", [None, '{"version": 1}', "[]"])
def test_a_foreign_folder_where_prepared_data_goes_is_refused(place: Path, manifest: str | None) -> None:
    (place / "work" / "prepared").mkdir(parents=True)
    (place / "work" / "prepared" / "thesis.tex").write_text("years of work")
    if manifest:
        (place / "work" / "prepared" / "manifest.json").write_text(manifest)
    before = contents(place)
    done = cclm("prepare", "r.yaml", cwd=place)
    assert (done.returncode, contents(place)) == (1, before)
    assert "was not made by cclm" in done.stderr


def test_prepared_data_that_a_kill_had_moved_away_comes_back(place: Path) -> None:
    assert cclm("prepare", "r.yaml", cwd=place).returncode == 0
    before = contents(place / "work")
    entry = (place / "work" / "prepared").resolve()
    entry.rename(entry.with_name(f".{entry.name}.cclm-0123456789abcdef.old"))
    entry.with_name(f".{entry.name}.cclm-0123456789abcdef.tmp").mkdir()
    done = cclm("prepare", "r.yaml", cwd=place)
    assert "was there already" in done.stdout
    assert contents(place / "work") == before


@pytest.fixture(scope="module")
def export(run: Path) -> Path:
    """An export of the run."""
    folder = run.parents[2]
    assert_done(command.cclm("export", run, "--to", "ctranslate2", "--output", "model", folder=folder))
    return folder / "model"


@pytest.mark.parametrize("name", ["thesis.tex", ".git/HEAD", "README.md", "translate.py", "cclm.json", "model/notes"])
def test_an_export_that_has_files_of_a_user_is_not_replaced(run: Path, export: Path, tmp_path: Path, name: str) -> None:
    """Neither files that were added, nor a model card or script that was edited, nor a folder with a cclm.json."""
    mine = tmp_path / "model"
    if name == "cclm.json":
        mine.mkdir()
    else:
        shutil.copytree(export, mine)
    (mine / name).parent.mkdir(exist_ok=True)
    (mine / name).write_text("mine")
    before = contents(mine)
    ended = command.cclm("export", run, "--to", "ctranslate2", "--output", "model", folder=tmp_path)
    named = "was not made by cclm" if name == "cclm.json" else f"{name} was added or changed"
    assert_refused(ended, "model: ", named, "nothing was changed: move it, or choose another path")
    assert contents(mine) == before


@pytest.mark.parametrize("output", [".", "disk"])
def test_an_export_replaces_neither_the_current_folder_nor_a_disk(run: Path, tmp_path: Path, output: str) -> None:
    """A shell would stand in a deleted folder; a disk cannot be replaced, which was told after all the work."""
    with small_disk(tmp_path / "disk") if output == "disk" else nullcontext():
        if output == ".":
            (tmp_path / "disk").mkdir()
        folder = tmp_path / "disk" if output == "." else tmp_path
        before = (tmp_path / "disk").stat().st_ino
        ended = command.cclm("export", run, "--to", "ctranslate2", "--output", output, folder=folder)
        assert_refused(ended, f"{output}: ", f"give a folder in it, as in --output {Path(output) / 'model'}", codes=[2])
        assert (tmp_path / "disk").stat().st_ino == before
        assert list((tmp_path / "disk").iterdir()) == []


def test_the_model_beside_a_run_is_not_replaced_if_it_has_files_of_a_user(run: Path, export: Path) -> None:
    """The model in RUN/ctranslate2, which is made again when it is damaged."""
    model = run / "ctranslate2" / "float32"
    (model / "thesis.tex").write_text("years of work")
    (model / "cclm.json").rename(model / "model" / "cclm.json")
    try:
        ended = command.cclm("translate", run, "--source", "aze", folder=run)
        assert_refused(ended, "ctranslate2/float32", "was not made by cclm")
        assert (model / "thesis.tex").is_file()
    finally:
        (model / "thesis.tex").unlink()
    assert_done(command.cclm("translate", run, "--source", "aze", folder=run))


def test_an_export_without_files_of_a_user_is_replaced(run: Path, export: Path, tmp_path: Path) -> None:
    """As is one that has been damaged."""
    mine = Path(shutil.copytree(export, tmp_path / "model"))
    (mine / "model" / "model.bin").write_bytes(b"")
    assert_done(command.cclm("export", run, "--to", "ctranslate2", "--output", "model", folder=tmp_path))
    assert contents(mine) == contents(export)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_tsv(folder / "text")
    return trained_run(folder)


def translate(run: Path, output: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return cclm("translate", run, "--source", "aze", "--output", output, cwd=cwd, text="su ev\n")


def test_folders_beside_an_output_stay(run: Path, tmp_path: Path) -> None:
    for name in (".a-2026", ".*-1", ".b-77"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis").write_text("x")
    before = contents(tmp_path)
    assert translate(run, "a", tmp_path).returncode == 0
    assert translate(run, "*", tmp_path).returncode == 0
    assert contents(tmp_path).keys() == before.keys() | {"a", "*"}


def test_a_long_name_and_a_folder_with_the_name_of_a_leftover(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("su ev\n")
    for name in ("x" * 255, "a"):
        (tmp_path / f".{name[:200]}.cclm-0123456789abcdef.tmp").mkdir()
        arguments = ["translate", run, "--source", "aze", "--input", "text", "--output", name]
        assert_done(command.cclm(*arguments, folder=tmp_path))
        assert (tmp_path / name).is_file()
        assert (tmp_path / f".{name[:200]}.cclm-0123456789abcdef.tmp").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a device node")
def test_a_device_stays_a_device(run: Path, tmp_path: Path) -> None:
    os.mknod(tmp_path / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert translate(run, "null", tmp_path).returncode == 0
    assert stat.S_ISCHR((tmp_path / "null").stat().st_mode)


def test_a_pipe_is_written_to(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()), daemon=True)
    reader.start()
    assert translate(run, "pipe", tmp_path).returncode == 0
    reader.join(30)
    assert len(read[0].splitlines()) == 1
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_link_is_followed(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/out")
    assert translate(run, "link", tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "out").is_file()


@pytest.mark.parametrize("way", ["--input", "standard input", "another name", "standard output"])
def test_text_that_would_be_emptied_before_it_is_read_is_refused(run: Path, tmp_path: Path, way: str) -> None:
    """A file with two names cannot be replaced by a rename, so it would be written to while it is read."""
    (tmp_path / "a").write_text("su ev\n")
    os.link(tmp_path / "a", tmp_path / "b")
    given = [] if way == "standard input" else ["--input", "b" if way == "another name" else "a"]
    output = [] if way == "standard output" else ["--output", "a"]
    command = [sys.executable, "-m", "cclm", "translate", str(run), "--source", "aze", *given, *output]
    with (tmp_path / "a").open("rb") as text, (tmp_path / "a").open("ab") as end:
        stdout = end if way == "standard output" else subprocess.PIPE
        done = subprocess.run(command, cwd=tmp_path, stdin=text, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert ((tmp_path / "b").read_text(), done.returncode) == ("su ev\n", 2)
    name = "standard output" if way == "standard output" else "a"
    expected = f"cclm: {name}: is the file that is read, and cannot be replaced; choose another --output\n"
    assert done.stderr.decode() == expected


def test_text_can_be_replaced_by_its_translation(run: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("su ev\nev\n")
    assert cclm("translate", run, "--source", "aze", "--input", "a", "--output", "a", cwd=tmp_path).returncode == 0
    assert len((tmp_path / "a").read_text().splitlines()) == 2


def test_a_read_only_file_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    (tmp_path / "out").chmod(0o444)
    done = translate(run, "out", tmp_path)
    assert (done.returncode, (tmp_path / "out").read_text()) == (1, "mine")
    assert done.stderr == "cclm: out: Permission denied\n"


@pytest.mark.parametrize("name", ["README.md", "tur.train.tsv"])
def test_a_corpus_is_not_written_over_files_of_a_user(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    ended = command.cclm(*PHRASEBOOK, folder=tmp_path)
    assert_refused(ended, f"{name}: exists and was not made by cclm; nothing was changed: move it", codes=[1])
    assert contents(tmp_path).keys() == {name}
    assert (tmp_path / name).read_text() == "mine"


def test_a_corpus_is_written_beside_files_of_a_user_and_over_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    other = [word for code in ("tur", "rus") for word in ("--size", f"{code}=40,5,6")]
    assert_done(command.cclm(*PHRASEBOOK, folder=tmp_path))
    before = contents(tmp_path)
    assert_done(command.cclm(*PHRASEBOOK, *other, folder=tmp_path))
    after = contents(tmp_path)
    assert (after.keys(), after["notes"]) == (before.keys(), before["notes"])
    assert after["tur.train.tsv"] != before["tur.train.tsv"]


@pytest.mark.parametrize("name", ["tur.train.tsv", "picture.svg"])
def test_other_read_only_files_are_refused(tmp_path: Path, name: str) -> None:
    """Also for root, who may write to them."""
    if name == "picture.svg":
        arguments = ["simulate", "--svg", name]
        (tmp_path / name).write_text("mine")
    else:
        arguments = PHRASEBOOK
        assert_done(command.cclm(*arguments, folder=tmp_path))
    (tmp_path / name).chmod(0o444)
    before = contents(tmp_path)
    ended = command.cclm(*arguments, *(["--seed", "2"] if name == "tur.train.tsv" else []), folder=tmp_path)
    assert_refused(ended, f"cclm: {name}: Permission denied\n", codes=[1])
    assert contents(tmp_path)[name] == before[name]


def test_copies_of_checkpoints_and_notes_beside_them_stay(project: Path) -> None:
    """A copy is not a checkpoint: it is neither removed as an old one nor taken for the newest."""
    checkpoints = project / "work" / "runs" / "small" / "checkpoints"
    shutil.copytree(checkpoints / "step-00000010", checkpoints / "step-00000010-keep")
    shutil.copytree(checkpoints / "step-00000010", checkpoints / "step-99999999.bak")
    (checkpoints / "step-notes.txt").write_text("mine")
    (checkpoints / "step-00000010" / "notes.txt").write_text("mine")
    before = contents(checkpoints)
    listed = command.cclm("runs", "work", folder=project)
    assert_done(listed)
    assert "damaged" not in listed.stdout
    ended = command.cclm("train", "recipe.yaml", "training.max_steps=60", folder=project)
    assert_done(ended)
    assert "falling back" not in ended.stderr
    after = contents(checkpoints)
    kept = {name for name in before if "-keep" in name or ".bak" in name or "notes" in name}
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}
    assert [path.name for path in sorted(checkpoints.glob("step-*")) if path.name.removeprefix("step-").isdigit()] == [
        "step-00000010", "step-00000050", "step-00000060",
    ]  # fmt: skip


def test_best_must_name_a_checkpoint(project: Path) -> None:
    checkpoints = project / "work" / "runs" / "small" / "checkpoints"
    (checkpoints / "step-00000020").rename(checkpoints / "step-mine")
    (checkpoints / "best").write_text("step-mine\n")
    (project / "new.yaml").write_text("data: {low_resource: [glg]}\n")
    ended = command.cclm("extend", "work/runs/small", "--data", "new.yaml", folder=project)
    assert_refused(ended, "checkpoints/best", "step-mine")
