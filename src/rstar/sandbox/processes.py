"""What a keeper knows about the processes below it, and asks the kernel about them."""

from __future__ import annotations

import errno
import os
import socket
import stat
import time
from dataclasses import dataclass, field

from rstar.sandbox import channel
from rstar.sandbox.isolation import RunLimits

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_DEEPEST = 50


@dataclass(slots=True, eq=False)
class Run:
    """One process below the keeper. `process` is 0 until it has said hello."""

    id: int
    link: socket.socket
    folder: str
    limits: RunLimits | None
    process: int = 0
    source: Run | None = None
    order: tuple[channel.Message, list[int]] | None = None
    working: bool = True
    may_fork: int = 0
    unwanted: bool = False
    waiting: list[Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Template:
    """A warm process that only forks."""

    link: socket.socket
    process: int

    def fork(self, link: socket.socket) -> None:
        """Have it fork a process, in namespaces of its own, which takes its orders from the other end of `link`."""
        socket.send_fds(self.link, [b"fork"], [link.fileno()])


def cpu_of(process: int) -> float:
    """Processor time of another process, in seconds: the kernel has a clock for each."""
    return time.clock_gettime(~process << 3 | 2)


def is_child(process: int) -> bool:
    """Whether the process is a child of this one, alive or not waited for."""
    try:
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def copy_tree(source: str, target: str) -> None:
    """Copy the files, folders and links of a scratch folder into an empty one.

    Never follows a link, because other runs of the tree may change the source meanwhile. Raises `OSError`.
    """
    ends = [os.open(folder, _FOLDER) for folder in (source, target)]
    try:
        _copy_entries(ends[0], ends[1], 0)
    finally:
        channel.close_all(ends)


def _copy_entries(source: int, target: int, depth: int) -> None:
    if depth > _DEEPEST:
        raise OSError(errno.ELOOP, "scratch folders too deep to copy")
    for name in os.listdir(source):
        mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(name, 0o700, dir_fd=target)
            ends = [os.open(name, _FOLDER, dir_fd=fd) for fd in (source, target)]
            _copy_entries(ends[0], ends[1], depth + 1)
        elif stat.S_ISREG(mode):
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
            ends = [
                os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=source),
                os.open(name, flags, stat.S_IMODE(mode) & 0o700, dir_fd=target),
            ]
            left = os.fstat(ends[0]).st_size
            while left > 0 and (sent := os.sendfile(ends[1], ends[0], None, left)):
                left -= sent
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
            continue
        else:
            continue
        channel.close_all(ends)


def remove_tree(folder: str) -> None:
    """Remove a folder and all in it, as far as possible, without following links."""
    from shutil import rmtree  # it loads three compression libraries, which every fork would pay for

    rmtree(folder, ignore_errors=True)
