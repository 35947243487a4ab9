"""Atomic writes: complete or not at all, and no foreign files are removed."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cclm.atomic import (
    atomic_folder,
    atomic_text,
    atomic_write,
    hidden,
    holds_only,
    restore,
    restore_all,
    user_output,
    write_if_changed,
)

TOKEN = "0123456789abcdef"


def partial_name(path: Path, kind: str) -> Path:
    return hidden(path, TOKEN, kind)


def made_by_us(folder: Path) -> bool:
    return (folder / "mark").exists()


def replace(folder: Path, text: str) -> None:
    with atomic_folder(folder, is_ours=made_by_us) as staging:
        (staging / "mark").write_text(text)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another process holds it while it writes."""
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_replaced_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    atomic_text(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == {"a"}


def test_an_unchanged_file_is_not_written(tmp_path: Path) -> None:
    assert write_if_changed(tmp_path / "a", "x")
    before = (tmp_path / "a").stat()
    assert not write_if_changed(tmp_path / "a", "x")
    assert (tmp_path / "a").stat().st_ino == before.st_ino


def test_an_error_names_the_destination(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        atomic_text(tmp_path / "missing" / "a", "x")
    assert caught.value.filename == str(tmp_path / "missing" / "a")


@pytest.mark.parametrize("name", [".a-2026", ".a.cclm-12.tmp", ".ab-1", ".a-1.tmp", f".a.cclm-{TOKEN}.tmp.txt"])
def test_foreign_files_and_folders_are_not_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis").write_text("x")
    atomic_text(tmp_path / "a", "x")
    replace(tmp_path / "ab", "x")
    assert (tmp_path / name / "thesis").read_text() == "x"


def test_a_file_name_is_not_a_pattern(tmp_path: Path) -> None:
    (tmp_path / f".b.cclm-{TOKEN}.tmp").write_text("of b, not of *")
    atomic_text(tmp_path / "*", "x")
    assert names(tmp_path) == {f".b.cclm-{TOKEN}.tmp", "*"}


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    dead, living = (tmp_path / f".a.cclm-{digit * 16}.tmp" for digit in "01")
    dead.write_text("")
    living.write_text("")
    with locked(living):
        atomic_text(tmp_path / "a", "x")
    assert names(tmp_path) == {"a", living.name}


def test_a_folder_is_replaced_completely(tmp_path: Path) -> None:
    replace(tmp_path / "a", "1")
    (tmp_path / "a" / "more").write_text("x")
    replace(tmp_path / "a", "2")
    assert names(tmp_path) == {"a"}
    assert names(tmp_path / "a") == {"mark"}
    assert (tmp_path / "a" / "mark").read_text() == "2"


def test_a_foreign_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    replace(tmp_path / "a", "an empty one may be taken")
    (tmp_path / "a" / "mark").rename(tmp_path / "a" / "thesis")
    with pytest.raises(FileExistsError, match="was not made by cclm") as caught:
        replace(tmp_path / "a", "x")
    assert caught.value.filename == str(tmp_path / "a")
    assert names(tmp_path) == {"a"}
    assert names(tmp_path / "a") == {"thesis"}


def test_a_folder_that_became_foreign_meanwhile_is_refused(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_folder(tmp_path / "a", is_ours=made_by_us):
            (tmp_path / "a").mkdir()
            (tmp_path / "a" / "thesis").write_text("x")

    with pytest.raises(FileExistsError):
        fill()
    assert names(tmp_path) == {"a"}


def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    replace(tmp_path / "scratch", "1")
    (tmp_path / "a").symlink_to("scratch")
    replace(tmp_path / "a", "2")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "scratch" / "mark").read_text() == "2"


KILLED = """
import os, pathlib, sys
from cclm.atomic import atomic_folder
rename, count = pathlib.Path.rename, 0
def renamed(self, target):
    global count
    rename(self, target)
    count += 1
    if count == 1:
        os._exit(9)
pathlib.Path.rename = renamed
with atomic_folder(pathlib.Path(sys.argv[1]), is_ours=lambda old: True) as staging:
    (staging / "mark").write_text("new")
"""


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    replace(tmp_path / "a", "old")
    assert subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a")], check=False).returncode == 9
    assert not (tmp_path / "a").exists()
    restore(tmp_path / "a")
    assert (tmp_path / "a" / "mark").read_text() == "old"
    assert names(tmp_path) == {"a"}


def test_everything_in_a_folder_is_restored(tmp_path: Path) -> None:
    (tmp_path / f".a.cclm-{TOKEN}.old").mkdir()
    (tmp_path / f".b.cclm-{TOKEN}.tmp").mkdir()
    replace(tmp_path / "b", "x")
    (tmp_path / f".b.cclm-{TOKEN}.old").mkdir()
    restore_all(tmp_path)
    assert names(tmp_path) == {"a", "b"}


def test_a_replacement_in_progress_is_not_a_leftover(tmp_path: Path) -> None:
    old = tmp_path / f".a.cclm-{TOKEN}.old"
    old.mkdir()
    with locked(old):
        restore(tmp_path / "a")
    assert names(tmp_path) == {old.name}


def test_many_writers_of_one_file_and_one_folder_do_not_harm_each_other(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            atomic_text(tmp_path / "file", str(number) * 1000)
            with atomic_folder(tmp_path / f"folder{number}", is_ours=holds_only("mark")) as staging:
                (staging / "mark").write_text("x")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert re.fullmatch(r"(\d)\1{999}", (tmp_path / "file").read_text())
    assert names(tmp_path) == {"file", *(f"folder{number}" for number in range(4))}


def test_output_follows_links_and_keeps_permissions(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with user_output(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_output_keeps_hard_links_together(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    os.link(tmp_path / "a", tmp_path / "b")
    with user_output(tmp_path / "a") as file:
        file.write(b"new")
    assert (tmp_path / "b").read_text() == "new"


def test_output_to_an_open_file_of_the_process_is_written_to_it(tmp_path: Path) -> None:
    program = "from pathlib import Path; from cclm.atomic import user_output\n"
    program += "with user_output(Path('/dev/stdout')) as file: file.write(b'x')"
    with (tmp_path / "out").open("wb") as out:
        before = os.fstat(out.fileno()).st_ino
        assert subprocess.run([sys.executable, "-c", program], stdout=out, check=True).returncode == 0
    assert (tmp_path / "out").read_text() == "x"
    assert (tmp_path / "out").stat().st_ino == before


def test_a_folder_beside_a_file_is_never_removed(tmp_path: Path) -> None:
    """Not even one that has the name of a leftover: a file leaves no folder."""
    (tmp_path / f".a.cclm-{TOKEN}.tmp").mkdir()
    (tmp_path / f".a.cclm-{TOKEN}.tmp" / "thesis").write_text("x")
    atomic_text(tmp_path / "a", "new")
    with user_output(tmp_path / "a") as file:
        file.write(b"newer")
    assert (tmp_path / f".a.cclm-{TOKEN}.tmp" / "thesis").exists()


WRITE = """
import sys, time
from pathlib import Path
from cclm.atomic import atomic_folder, atomic_write

with atomic_write(Path("file")), atomic_folder(Path("folder"), is_ours=lambda folder: True) as staging:
    (staging / "mark").write_text("being written")
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "before",
    [
        [],
        pytest.param(
            ["unshare", "--pid", "--fork", "--kill-child"],
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a pid namespace"),
        ),
    ],
    ids=["same container", "another container"],
)
def test_what_another_process_is_writing_stays_until_it_is_killed(tmp_path: Path, before: list[str]) -> None:
    process = subprocess.Popen([*before, sys.executable, "-c", WRITE], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        begun = names(tmp_path)
        assert len(begun) == 2
        atomic_text(tmp_path / "file", "mine")
        replace(tmp_path / "folder", "mine")
        assert names(tmp_path) == begun | {"file", "folder"}
    finally:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 30
    while names(tmp_path) != {"file", "folder"}:  # a namespace ends a moment after its first process
        restore_all(tmp_path)
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("letter", ["x", "ğ"])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path, letter: str) -> None:
    name = letter * (255 // len(letter.encode()))
    path, folder = tmp_path / name, tmp_path / "folders" / name
    folder.parent.mkdir()
    for text in ("old", "new"):
        atomic_text(path, text)
        replace(folder, text)
    assert (path.read_text(), (folder / "mark").read_text()) == ("new", "new")
    folder.rename(partial_name(folder, "old"))
    (tmp_path / "left").write_text("half")
    (tmp_path / "left").rename(partial_name(path, "tmp"))
    restore(folder)
    restore(path)
    assert (names(tmp_path), names(folder.parent)) == ({name, "folders"}, {name})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_output_and_folders_keep_their_owner(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "folder").mkdir()
    for name, mode in (("file", 0o640), ("folder", 0o2750)):
        os.chown(tmp_path / name, 12345, 23456)
        (tmp_path / name).chmod(mode)
    with user_output(tmp_path / "file") as file:
        file.write(b"new")
    replace(tmp_path / "folder", "new")
    for name, mode in (("file", 0o640), ("folder", 0o2750)):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12345, 23456, mode)


GIVEN = """
import os, sys
from pathlib import Path
from cclm.atomic import user_output

os.setgroups([])
os.setgid(23456)
os.setuid(12345)
with user_output(Path(sys.argv[1])) as file:
    file.write(b"new")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_output_to_a_file_of_another_user_is_written_to_it(tmp_path: Path) -> None:
    """Who may not give a file away keeps its owner by writing to it."""
    shared = Path(tempfile.mkdtemp(prefix="shared-"))
    try:
        (shared / "file").write_text("old")
        for path in (shared, shared / "file"):
            path.chmod(0o777)
        subprocess.run([sys.executable, "-c", GIVEN, shared / "file"], check=True)
        assert ((shared / "file").read_text(), (shared / "file").stat().st_uid) == ("new", 0)
    finally:
        shutil.rmtree(shared)
