"""Files and folders that are there whole or not at all: a kill while they are made leaves what was there before."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes its place in one step when it is complete."""
    _remove_leftovers(path)
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a text that way."""
    with whole(path) as file:
        file.write(text.encode())


def write_if_changed(path: Path, text: str) -> bool:
    """The same, unless that text is there already; gives whether it was not."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_whole(path, text)
    return True


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which then takes the place of this one."""
    _remove_leftovers(folder)
    staging, old = (folder.with_name(f".{folder.name}-{what}{os.getpid()}") for what in ("", "old-"))
    try:
        staging.mkdir(parents=True)
        yield staging
        if folder.exists():
            folder.rename(old)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _remove_leftovers(path: Path) -> None:
    """Removes what processes that were killed have left of making this; that of living ones stays."""
    for leftover in path.parent.glob(f".{path.name}-*"):
        pid = leftover.name.rpartition("-")[2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
