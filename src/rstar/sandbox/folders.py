"""Copy, measure and remove scratch folders, whose contents may be hostile.

Such a tree can be deeper than the recursion limit or the longest path, contain links to anywhere, and change while it
is read. So nothing here recurses without a bound or follows a link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_MAX_DEPTH = 50
_MAX_ENTRIES = 20_000
_MAX_PATH = 2_000
_ENTRY_BYTES = 4096
_MIN_FREE_BYTES = 1 << 16


def copy_tree(source: str, target: str) -> None:
    """Copy the contents of a folder into an empty one, using no more space than the original.

    Raises `OSError`, also for a tree that is too deep.
    """
    root = os.open(target, _FOLDER)
    try:
        _copy_entries(os.open(source, _FOLDER), os.dup(root), root, (), {})
    finally:
        os.close(root)


def _copy_entries(
    source: int, target: int, root: int, place: tuple[str, ...], copied: dict[int, tuple[str, ...]]
) -> None:
    """Copy the entries of `source` to `target`, which is `place` below `root`, and close both descriptors.

    `copied` maps the inode of each hard-linked file to the place of its copy. No path is followed: another run of the
    same solution may put links in the target.
    """
    try:
        if len(place) > _MAX_DEPTH:
            raise OSError(errno.ELOOP, "scratch folders too deep to copy")
        for name in os.listdir(source):
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                os.mkdir(name, 0o700, dir_fd=target)
                inner = os.open(name, _FOLDER, dir_fd=source)
                outer = os.open(name, _FOLDER, dir_fd=target)
                _copy_entries(inner, outer, root, (*place, name), copied)
            elif stat.S_ISREG(mode) and status.st_ino in copied:
                _link(root, copied[status.st_ino], name, target)
            elif stat.S_ISREG(mode):
                _copy_file(name, source, target, stat.S_IMODE(mode) & 0o700)
                if status.st_nlink > 1:
                    copied[status.st_ino] = (*place, name)
            elif stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
    finally:
        os.close(source)
        os.close(target)


def _link(root: int, place: tuple[str, ...], name: str, target: int) -> None:
    """Link the file at `place` below `root` as `name` in `target`."""
    folder = os.dup(root)
    try:
        for part in place[:-1]:
            outer, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
            os.close(outer)
        os.link(place[-1], name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)
    finally:
        os.close(folder)


def _copy_file(name: str, source: int, target: int, mode: int) -> None:
    with (
        open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source), "rb") as old,
        open(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode, dir_fd=target), "wb") as new,
    ):
        size = os.fstat(old.fileno()).st_size
        os.ftruncate(new.fileno(), size)
        end = 0
        while end < size:
            try:
                start = os.lseek(old.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end
                    return
                raise
            end = os.lseek(old.fileno(), start, os.SEEK_HOLE)
            os.lseek(new.fileno(), start, os.SEEK_SET)
            while start < end and (sent := os.sendfile(new.fileno(), old.fileno(), start, end - start)):
                start += sent


def exceeds(folder: str, skipped: Container[str], size: int) -> bool:
    """Whether the contents of a folder exceed `size` bytes or cannot be read; names in `skipped` do not count."""
    total, entries, folders = 0, 0, [folder]
    while folders:
        try:
            found = os.scandir(place := folders.pop())
        except PermissionError:
            return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        with found:
            for entry in found:
                if place == folder and entry.name in skipped:
                    continue
                entries += 1
                with suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size + _ENTRY_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                if total > size or entries > _MAX_ENTRIES or len(entry.path) > _MAX_PATH:
                    return True
    return False


def fingerprint(folder: str) -> tuple[int, int, int] | None:
    """Bytes, number and latest change of a folder and its entries; None if it cannot be read or is too large.

    No user can set the time of the latest change, so after any change this is another one.
    """
    total, entries, latest, folders = 0, 0, 0, [folder]
    while folders:
        place = folders.pop()
        try:
            latest = max(latest, os.lstat(place).st_ctime_ns)
            with os.scandir(place) as found:
                for entry in found:
                    status = entry.stat(follow_symlinks=False)
                    entries += 1
                    total += status.st_size
                    latest = max(latest, status.st_ctime_ns)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    if entries > _MAX_ENTRIES or len(entry.path) > _MAX_PATH:
                        return None
        except OSError:
            return None
    return total, entries, latest


def disk_full(folder: Path) -> bool:
    """Whether the disk of a folder is full."""
    room = os.statvfs(folder)
    return room.f_blocks > 0 and room.f_bavail * room.f_frsize < _MIN_FREE_BYTES


@contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder that is removed on exit; also removes folders that killed programs left behind.

    A live folder is locked; the kernel drops the lock when its process dies.
    """
    place = parent or Path(tempfile.gettempdir())
    for old in place.glob(f"{prefix}*"):
        with suppress(OSError), _locked(old):
            if old.stat().st_uid == os.geteuid():
                remove_tree(str(old))
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        with _locked(folder):
            yield folder
    finally:
        remove_tree(str(folder))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder. Raises `OSError` when another process holds it."""
    handle = os.open(folder, _FOLDER)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def remove_tree(folder: str, most: int = sys.maxsize) -> bool:
    """Remove a folder and its contents as far as permitted, and not many more than `most` entries.

    Deep folders are first moved to the top. Returns whether the folder is gone.
    """
    with suppress(OSError):
        top = os.open(folder, _FOLDER)
        secret = os.urandom(8).hex()  # its contents must not include the names of what is moved
        names = (f"removed {secret} {number}" for number in count())
        try:
            removed = 1
            while removed and most > 0:
                removed = 0
                with os.scandir(top) as entries:
                    for entry in islice(entries, most):
                        removed += _removed(entry.name, top, names, most - removed)
                        if removed >= most:
                            break
                most -= removed
        finally:
            os.close(top)
        os.rmdir(folder)
    return not os.path.lexists(folder)


def _removed(name: str, top: int, names: Iterator[str], most: int) -> int:
    """Remove one entry of `top` and up to `most` in it, moving its subfolders to `top`. Returns their number."""
    removed = 0
    with suppress(OSError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=top)
            return 1
        folder = _open_own(name, top)
        try:
            with os.scandir(folder) as entries:
                for entry in islice(entries, most):
                    if entry.is_dir(follow_symlinks=False):
                        os.close(_open_own(entry.name, folder))
                        os.rename(entry.name, next(names), src_dir_fd=folder, dst_dir_fd=top)
                    else:
                        os.unlink(entry.name, dir_fd=folder)
                    removed += 1
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=top)
        removed += 1
    return removed


def _open_own(name: str, parent: int) -> int:
    """Open a folder even if it was created without any permission."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(place)
