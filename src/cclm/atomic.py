"""Atomic writes: files and folders appear complete or not at all, even if the process is killed.

Everything is first written next to its destination, under a name that only this module uses:

    .NAME.cclm-0123456789abcdef.tmp     being written
    .NAME.cclm-0123456789abcdef.old     the folder that is being replaced

A NAME that would become too long is shortened.

The writer holds a lock (flock) on it, which the kernel releases when the process dies, also in another container. A
file or folder of such a name without a lock is a leftover and may be removed; one with a lock is being written.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

CANNOT_LOCK = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Errors of file systems without locks. Leftovers are not removed there."""
WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of writing to an open file: disk full, quota, file size limit, I/O error. They do not name the file."""


MAX_NAME = 228
"""Bytes of a name that the names above may contain: file systems allow 255 in all."""


def hidden(path: Path, token: str, kind: str) -> Path:
    """The path under which a file or folder is written, or moved away while it is replaced."""
    return path.with_name(f".{_short(path.name)}.cclm-{token}.{kind}")


def _short(name: str) -> str:
    encoded = os.fsencode(name)
    if len(encoded) <= MAX_NAME:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    return encoded[: MAX_NAME - 17].decode(errors="ignore") + f"-{digest}"


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing that replaces `path` once it is complete and synced to disk."""
    _remove_leftovers(path, folders=False)
    partial, descriptor = _create_locked(path, lambda name: os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    try:
        with name_write_errors(path), open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)  # while locked, so that nobody takes it for a leftover
    except OSError as error:
        error.filename = error.filename or str(path)  # a full disk is reported without a file name
        raise
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def name_write_errors(path: Path | str) -> Iterator[None]:
    """Adds the file name to write errors, which lack it."""
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
    """Writes a text file atomically unless it already has this content; returns whether it was written."""
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    atomic_text(path, text)
    return True


@contextmanager
def user_output(path: Path) -> Iterator[BinaryIO]:
    """Opens an output file that a user named, which may be anything.

    A regular file is replaced once the new one is complete, and keeps its owner and permissions. Symbolic links are
    followed. Devices, pipes, files with several hard links, files of other users and files in read-only folders are
    written to directly. A file without write permission raises PermissionError, even for root.
    """
    target = Path(os.path.realpath(path))
    found = _found(target)
    is_regular = found is not None and stat.S_ISREG(found.st_mode)
    if found and is_regular and (not found.st_mode & 0o222 or not os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not _replaceable(path, target, found):
        with name_write_errors(path), open(path, "wb") as file:
            yield file
        return
    with atomic_write(target) as file:
        if found is not None:
            _keep_owner(file.fileno(), found)
        yield file


def _keep_owner(file: int | Path, before: os.stat_result) -> None:
    """Gives a file or folder the owner, as far as that is allowed, and the permissions of the one that it replaces."""
    for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
        with suppress(OSError):
            os.chown(file, owner, group)
    os.chmod(file, stat.S_IMODE(before.st_mode))  # afterwards: a change of the owner clears some of them


def is_replaced(path: Path) -> bool:
    """Whether `user_output` leaves the file at this path as it is until the new one is complete."""
    target = Path(os.path.realpath(path))
    return _replaceable(path, target, _found(target))


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _replaceable(path: Path, target: Path, found: os.stat_result | None) -> bool:
    """Whether replacing the path by a rename has the same effect for its users as writing to it."""
    if Path(os.path.abspath(path)).parts[:2] in (("/", "dev"), ("/", "proc")):  # /dev/stdout may be a regular file
        return False
    if found is None:
        return True
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or os.geteuid() not in (0, found.st_uid):
        return False
    return os.access(target.parent, os.W_OK | os.X_OK)


@contextmanager
def atomic_folder(folder: Path, *, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Creates an empty folder that replaces `folder` when the block ends without an error.

    An existing folder is replaced only if it is empty or `is_ours` returns True for it. Otherwise FileExistsError is
    raised before anything is written.
    """
    folder = Path(os.path.realpath(folder))
    restore(folder)
    refuse_foreign(folder, is_ours)
    staging, lock = _create_locked(folder, _make_folder)
    try:
        yield staging
        refuse_foreign(folder, is_ours)
        _replace_folder(folder, staging)
    finally:
        os.close(lock)
        shutil.rmtree(staging, ignore_errors=True)


def holds_only(*names: str) -> Callable[[Path], bool]:
    """A function for `is_ours` that accepts folders with no other entries than these."""
    return lambda folder: {entry.name for entry in folder.iterdir()} <= set(names)


def refuse_foreign(folder: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raises FileExistsError if the path exists and is neither an empty folder nor one that `is_ours` accepts."""
    if not folder.exists():  # also True for a dangling link
        return
    if folder.is_dir() and (not any(folder.iterdir()) or is_ours(folder)):
        return
    raise FileExistsError(
        errno.EEXIST,
        "exists and was not made by cclm; nothing was changed: move it, or choose another path",
        str(folder),
    )


def refuse_foreign_files(folder: Path, names: Sequence[str], sign: str) -> None:
    """Raises FileExistsError if the folder has one of these files, which cclm would replace, and lacks `sign`, the file
    that cclm writes there before them."""
    found = [path for name in names if os.path.lexists(path := folder / name)]
    if found and not (folder / sign).exists():  # afterwards: another process may be writing them now
        raise FileExistsError(
            errno.EEXIST,
            f"exists in a folder that was not made by cclm (it has no {sign}); nothing was changed: move it,"
            " or choose another name",
            str(found[0]),
        )


def _replace_folder(folder: Path, staging: Path) -> None:
    if not folder.exists():
        staging.rename(folder)
        return
    old = hidden(folder, secrets.token_hex(8), "old")
    _keep_owner(staging, folder.stat())
    lock = os.open(folder, os.O_RDONLY)
    try:
        _lock(lock)  # between the two renames, other processes must not take `old` for a leftover
        folder.rename(old)
        staging.rename(folder)
    finally:
        os.close(lock)
    shutil.rmtree(old, ignore_errors=True)


def restore(path: Path) -> None:
    """Cleans up after a killed process: moves a replaced folder back, and removes incomplete files and folders."""
    path = Path(os.path.realpath(path))
    for old in _leftovers(path, "old"):
        if not os.path.lexists(path):
            old.rename(path)
        else:
            shutil.rmtree(old, ignore_errors=True)
    _remove_leftovers(path, folders=True)


def restore_all(folder: Path) -> None:
    """Calls `restore` for everything that was being written in a folder."""
    pattern = re.compile(r"\.(.+)\.cclm-[0-9a-f]{16}\.(tmp|old)")
    for name in sorted({match[1] for entry in os.listdir(folder) if (match := pattern.fullmatch(entry))}):
        restore(folder / name)


def _remove_leftovers(path: Path, *, folders: bool) -> None:
    """Removes incomplete files, and folders if `path` is that of a folder."""
    for leftover in _leftovers(path, "tmp"):
        if not leftover.is_dir():
            leftover.unlink(missing_ok=True)
        elif folders:
            shutil.rmtree(leftover, ignore_errors=True)


def _leftovers(path: Path, kind: str) -> Iterator[Path]:
    """The leftovers of killed processes next to `path`. Each is locked while the caller processes it."""
    name = re.compile(rf"\.{re.escape(_short(path.name))}\.cclm-[0-9a-f]{{16}}\.{kind}")
    with suppress(OSError):
        for entry in sorted(os.listdir(path.parent)):
            if not name.fullmatch(entry):
                continue
            with suppress(OSError):  # removed in the meantime, or no permission
                descriptor = os.open(path.parent / entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    if _lock(descriptor):
                        yield path.parent / entry
                finally:
                    os.close(descriptor)


def _create_locked(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """Creates a temporary file or folder next to `path`; returns its path and a descriptor that holds its lock."""
    while True:
        partial = hidden(path, secrets.token_hex(8), "tmp")
        try:
            descriptor = create(partial)
        except OSError as error:
            error.filename = str(path)  # the name that the user knows
            raise
        # Another process may have removed it as a leftover before it was locked: then try again.
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


@contextmanager
def suppress_missing_locks() -> Iterator[None]:
    """Ignores errors of file systems without locks."""
    try:
        yield
    except OSError as error:
        if error.errno not in CANNOT_LOCK:
            raise


def _lock(descriptor: int) -> bool | None:
    """Locks without waiting. False if another process has the lock, None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in CANNOT_LOCK else False
    return True
