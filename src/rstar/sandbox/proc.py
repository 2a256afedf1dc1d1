"""What `/proc` says of the processes below this one: their threads, and how far they have come."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")
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

    def message(self) -> dict[str, Any]:
        """As part of a message."""
        return asdict(self)


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
                state = self.read(f"{name}/stat").rpartition(b")")[2].split()
                ready |= state[0] == b"R"
                if task == owner:  # its processor time is that of all its threads, its children's that of ended ones
                    ran += sum(map(int, self.read(f"{owner}/stat").rpartition(b")")[2].split()[11:15]))
        return Progress(sum(delays.values()) / 1e9, ran * _TICK, ready, len(owners))

    def memory(self, outer: int, rss_before: int) -> int:
        """What a process that runs has written, and those below it, in bytes; 0 where nobody can tell.

        Args:
            outer: the process.
            rss_before: what it had mapped when it was made.
        """
        with suppress(OSError, ValueError, IndexError):
            owners = {name.partition("/")[0] for name, _ in self.tasks(outer)}
            if owners == {str(outer)}:
                faults = int(self.read(f"{outer}/stat").rpartition(b")")[2].split()[7]) * PAGE
                rss = self.rss(outer)
                return min(rss, max(faults, rss - rss_before))
            return sum(self.mapped(int(owner), b"Pss:") for owner in owners)
        return 0

    def rss(self, outer: int | str) -> int:
        """The memory that a process has mapped, in bytes: shared, too."""
        return int(self.read(f"{outer}/statm").split()[1]) * PAGE

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
