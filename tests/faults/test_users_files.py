"""What a user has on disk is not cclm's to delete or replace. Through the command line only."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run


def cclm(*arguments: str | Path, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
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


def test_a_read_only_file_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    (tmp_path / "out").chmod(0o444)
    done = translate(run, "out", tmp_path)
    assert (done.returncode, (tmp_path / "out").read_text()) == (1, "mine")
    assert done.stderr == "cclm: out: Permission denied\n"
