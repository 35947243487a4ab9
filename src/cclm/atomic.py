"""Files and folders that appear complete or not at all: a kill while they are written leaves what was there before.

Everything is first written beside its destination, under a name that only this module uses:

    .NAME.cclm-0123456789abcdef.tmp     being written
    .NAME.cclm-0123456789abcdef.old     the folder that is being replaced

Whoever writes holds a lock (flock) on it. The kernel drops the lock when the process dies, in whatever container it
ran: a name of this form without a lock is a leftover and may be removed, one with a lock is somebody's work.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

CANNOT_LOCK = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of file systems without locks: there, leftovers stay."""
WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of writing to an open file: a full disk, a quota, a limit of size, a broken disk. They name no file."""


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` when it is complete and on disk."""
    _remove_leftovers(path)
    partial, descriptor = _locked(path, lambda name: os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    try:
        with name_write_errors(path), open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)  # under the lock: nobody takes it for a leftover
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk is reported without a name
        raise
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def name_write_errors(path: Path | str) -> Iterator[None]:
    """Adds the name of the file that is written to errors of writing, which come without one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in WRITE_ERRORS:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def atomic_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_write(path) as file:
        file.write(text.encode())


def write_if_changed(path: Path, text: str) -> bool:
    """Writes a text file atomically unless it has that content already; returns whether it wrote."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    atomic_text(path, text)
    return True


@contextmanager
def user_output(path: Path) -> Iterator[BinaryIO]:
    """A file to write to at a place that a user named, which may be anything.

    A regular file is replaced when the new one is complete, and keeps its permissions; symbolic links are followed. A
    device, a pipe, a file with several hard links and a file in a folder that cannot be written to are written to
    directly. A file without write permission is refused, even to root.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    if mode is not None and stat.S_ISREG(mode) and (not mode & 0o222 or not os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not _replaceable(path, target, mode):
        with name_write_errors(path), open(path, "wb") as file:
            yield file
        return
    with atomic_write(target) as file:
        if mode is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
        yield file


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _replaceable(path: Path, target: Path, mode: int | None) -> bool:
    """Whether a rename onto this path does what its user expects of writing to it."""
    if Path(os.path.abspath(path)).parts[:2] in (("/", "dev"), ("/", "proc")):  # /dev/stdout: a file, but an open one
        return False
    if mode is not None and (not stat.S_ISREG(mode) or target.stat().st_nlink > 1):
        return False
    return os.access(target.parent, os.W_OK | os.X_OK) or mode is None


@contextmanager
def atomic_folder(folder: Path, *, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """An empty folder to fill, which replaces `folder` when the block ends without an error.

    Only a folder that `is_ours` recognises, or an empty one, is replaced: FileExistsError otherwise, before anything
    is made.
    """
    folder = Path(os.path.realpath(folder))
    restore(folder)
    refuse_foreign(folder, is_ours)
    staging, lock = _locked(folder, _make_folder)
    try:
        yield staging
        refuse_foreign(folder, is_ours)
        _replace_folder(folder, staging)
    finally:
        os.close(lock)
        shutil.rmtree(staging, ignore_errors=True)


def holds_only(*names: str) -> Callable[[Path], bool]:
    """A test for `is_ours`: whether a folder has no entries but these."""
    return lambda folder: {entry.name for entry in folder.iterdir()} <= set(names)


def refuse_foreign(folder: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raises FileExistsError where something is at this place that is not cclm's to replace."""
    if not folder.exists():  # a link to nothing is no content either
        return
    if folder.is_dir() and (not any(folder.iterdir()) or is_ours(folder)):
        return
    raise FileExistsError(
        errno.EEXIST,
        "exists and was not made by cclm: nothing was touched; move it, or choose another place",
        str(folder),
    )


def _replace_folder(folder: Path, staging: Path) -> None:
    if not folder.exists():
        staging.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.cclm-{secrets.token_hex(8)}.old")
    lock = os.open(folder, os.O_RDONLY)
    try:
        _lock(lock)  # a process that looks between the two renames sees a replacement under way, not a leftover
        folder.rename(old)
        staging.rename(folder)
    finally:
        os.close(lock)
    shutil.rmtree(old, ignore_errors=True)


def restore(path: Path) -> None:
    """Undoes what a killed process left: a folder that it had moved away comes back, what it had begun is removed."""
    path = Path(os.path.realpath(path))
    for old in _leftovers(path, "old"):
        if not os.path.lexists(path):
            old.rename(path)
        else:
            shutil.rmtree(old, ignore_errors=True)
    _remove_leftovers(path)


def restore_all(folder: Path) -> None:
    """The same for everything that was being written inside a folder."""
    pattern = re.compile(r"\.(.+)\.cclm-[0-9a-f]{16}\.(tmp|old)")
    for name in sorted({found[1] for entry in os.listdir(folder) if (found := pattern.fullmatch(entry))}):
        restore(folder / name)


def _remove_leftovers(path: Path) -> None:
    for leftover in _leftovers(path, "tmp"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def _leftovers(path: Path, kind: str) -> Iterator[Path]:
    """What killed processes have left beside `path`, each locked while the caller has it."""
    name = re.compile(rf"\.{re.escape(path.name)}\.cclm-[0-9a-f]{{16}}\.{kind}")
    with suppress(OSError):
        for entry in sorted(os.listdir(path.parent)):
            if not name.fullmatch(entry):
                continue
            with suppress(OSError):  # gone meanwhile, or not ours to open
                descriptor = os.open(path.parent / entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(descriptor):
                        yield path.parent / entry
                finally:
                    os.close(descriptor)


def _locked(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """Creates something to write into beside `path`; gives its name and a descriptor that holds its lock."""
    while True:
        partial = path.with_name(f".{path.name}.cclm-{secrets.token_hex(8)}.tmp")
        try:
            descriptor = create(partial)
        except OSError as error:
            error.filename = str(path)  # the name that the user knows
            raise
        # Between its creation and the lock, another process may have taken it for a leftover: then once more.
        if _lock(descriptor) is not False and partial.exists():
            return partial, descriptor
        os.close(descriptor)


def _make_folder(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _lock(descriptor: int) -> bool | None:
    """Locks without waiting: False where somebody else has the lock, None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in CANNOT_LOCK else False
    return True
