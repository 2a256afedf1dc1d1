"""What `/proc` says of the processes below this one: their threads, and how far they have come."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
_FEW, _MAPS = 8, 20
"""Of more processes than these, the maps count that each has a copy of: 200 bytes each, at most one for every page."""

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a process and those below it have come.

    Attributes:
        waited: seconds for which they have been ready and waited for a processor, as far as the kernel has added that
            up: it adds a wait when it ends, and forgets what a process has waited when that ends.
        ran: processor time in seconds, that of ended processes for which others have waited included.
        ready: one of them runs, or would if it had a processor.
        processes: how many they are.
    """

    waited: float = 0.0
    ran: float = 0.0
    ready: bool = False
    processes: int = 0

    def __sub__(self, before: Progress) -> Progress:
        """How far it has come since `before`."""
        return Progress(self.waited - before.waited, self.ran - before.ran, self.ready, self.processes)

    def message(self) -> dict[str, Any]:
        """As part of a message."""
        return asdict(self)


def used_of(folder: str | int) -> int:
    """What is used of the file system that a folder is on, in bytes."""
    room = os.statvfs(folder)
    return (room.f_blocks - room.f_bfree) * room.f_frsize


class Proc:
    """`/proc`, held open: a process in namespaces of its own does not find its own one otherwise.

    Attributes:
        handle: the descriptor.
    """

    def __init__(self, handle: int | None = None) -> None:
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self.handle = os.open("/proc", flags) if handle is None else handle

    def read(self, name: str) -> bytes:
        """A file."""
        with open(os.open(name, os.O_RDONLY, dir_fd=self.handle), "rb") as file:
            return file.read()

    def outer(self, process: int) -> int:
        """The number in this `/proc` of a process that is below this one. Raises `OSError` where there is none."""
        handle = os.pidfd_open(process)
        try:
            lines = self.read(f"thread-self/fdinfo/{handle}").splitlines()
        finally:
            os.close(handle)
        return next(int(line[4:]) for line in lines if line.startswith(b"Pid:"))

    def inner(self, outer: int) -> int:
        """The number here of a process of this `/proc`; 0 where it has none any more."""
        with suppress(OSError, IndexError):
            return self._numbers(str(outer))[len(self._numbers("thread-self")) - 1]
        return 0

    def children(self) -> list[int]:
        """The children of this process, by their numbers in this `/proc`."""
        return [int(number) for number in self.read("thread-self/children").split()]

    def threads(self, outer: int) -> int:
        """How many threads a process has."""
        return os.stat(f"{outer}/task", dir_fd=self.handle).st_nlink - 2

    def descriptors(self, outer: int) -> set[str]:
        """The descriptors of a process of the same user."""
        folder = os.open(f"{outer}/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.handle)
        try:
            return set(os.listdir(folder))
        finally:
            os.close(folder)

    def progress(self, outer: int) -> Progress:
        """How far a process has come; nothing where nobody can tell.

        What its main thread has waited and what its other threads have add up, as one often waits for the other to end;
        of the other threads that one counts that has waited longest. Likewise for the programs that it has started.
        """
        delays: dict[tuple[str, bool], int] = {}
        ran, ready, owners = 0, False, set[str]()
        for name, _ in self.tasks(outer):
            owner, _, task = name.partition("/task/")
            kind = owner, task == owner
            owners.add(owner)
            with suppress(OSError, ValueError, IndexError):
                delays[kind] = max(delays.get(kind, 0), int(self.read(f"{name}/schedstat").split()[1]))
                words = self.read(f"{name}/stat").rpartition(b")")[2].split()
                ready |= words[0] == b"R"
                if task == owner:  # its processor time is that of all its threads, its children's that of ended ones
                    ran += sum(map(int, self.read(f"{owner}/stat").rpartition(b")")[2].split()[11:15]))
        return Progress(sum(delays.values()) / 1e9, ran * _TICK, ready, len(owners))

    def memory(self, outer: int, rss_before: int) -> int:
        """What a process that runs has written, and those below it, with their page tables, in bytes.

        0 where nobody can tell.

        Args:
            outer: the process.
            rss_before: what it had mapped when it was made.
        """
        with suppress(OSError, ValueError, IndexError):
            owners = {name.partition("/")[0] for name, _ in self.tasks(outer)}
            if owners == {str(outer)}:
                faults = int(self.read(f"{outer}/stat").rpartition(b")")[2].split()[7]) * PAGE
                _, rss = self.sizes(outer)
                return min(rss, max(faults, rss - rss_before)) + self.tables(outer)
            used = sum(self.mapped(int(owner), b"Pss:") + self.tables(int(owner)) for owner in owners)
            if len(owners) > _FEW:
                used += sum(self.sizes(owner)[0] for owner in owners) // _MAPS
            return used
        return 0

    def sizes(self, outer: int | str) -> tuple[int, int]:
        """The address space of a process, and what it has of it in memory, in bytes: shared, too."""
        space, rss, *_ = self.read(f"{outer}/statm").split()
        return int(space) * PAGE, int(rss) * PAGE

    def tables(self, outer: int) -> int:
        """The page tables of a process, in bytes. Small maps that lie far apart take more for them than for pages."""
        lines = self.read(f"{outer}/status").splitlines()
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith(b"VmPTE:")), 0)

    def unlinked(self, outer: int, most: int) -> int:
        """The room on disks of the files that have no name any more and that a process holds, in bytes.

        A map alone does not tell the size of its file, which counts as `most`.
        """
        sizes: dict[int, int] = {}
        with suppress(OSError, ValueError, IndexError):
            for line in self.read(f"{outer}/maps").splitlines():
                if line.endswith(b" (deleted)"):
                    sizes[int(line.split()[4])] = most
            for name in self.descriptors(outer):
                with suppress(FileNotFoundError):
                    file = os.stat(f"{outer}/fd/{name}", dir_fd=self.handle)
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                        sizes[file.st_ino] = file.st_blocks * 512
        return sum(sizes.values())

    def room(self, outer: int, folder: str) -> int:
        """What is used of the file system at a folder as a process sees it, in bytes; 0 where nobody can tell."""
        with suppress(OSError):
            handle = os.open(f"{outer}/root{folder}", os.O_PATH | os.O_DIRECTORY, dir_fd=self.handle)
            try:
                return used_of(handle)
            finally:
                os.close(handle)
        return 0

    def mapped(self, outer: int, kind: bytes) -> int:
        """The memory that a process has mapped, of a kind that ``smaps_rollup`` has lines of, in bytes."""
        lines = self.read(f"{outer}/smaps_rollup").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(kind)) << 10

    def tasks(self, outer: int) -> Iterator[tuple[str, int]]:
        """The threads of a process and of all processes below it: name in this `/proc`, and number here."""
        with suppress(OSError, ValueError):
            place = len(self._numbers("thread-self")) - 1
            look = [str(outer)]
            while look:
                folder = os.open(f"{(found := look.pop())}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.handle)
                try:
                    names = os.listdir(folder)
                finally:
                    os.close(folder)
                for name in names:
                    yield f"{found}/task/{name}", self._numbers(f"{found}/task/{name}")[place]
                    look += self.read(f"{found}/task/{name}/children").decode().split()

    def _numbers(self, process: str) -> list[int]:
        """The numbers of a process, outermost namespace first."""
        status = self.read(f"{process}/status").decode()
        return [int(number) for number in status.partition("NSpid:")[2].partition("\n")[0].split()]
