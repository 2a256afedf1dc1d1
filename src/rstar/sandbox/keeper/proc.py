"""`/proc` queries about the processes below this one: threads, progress, memory.

A process says nothing of its memory, maps and files once its main thread has ended, but each thread that is left does.
The text of a process's maps is as long as the process makes it, so it is read only up to a bound.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

PAGE = os.sysconf("SC_PAGE_SIZE")
MAP_BYTES, SOCKET_BYTES = 256, 352 << 10
"""Kernel memory per memory map, and the most that the buffer of a socket takes: three parts of up to 106 KB."""

UNSEEN_SECONDS = 0.02
"""A process that has used less CPU time has few memory maps, which are slow to count."""

_HIDDEN_SOCKETS = 32
"""Sockets that a process may have whose descriptors cannot be read: all that a program's process may have."""

_MAX_MAPS_BYTES = 4 << 20
"""Longest text of the maps of a program: enough for the 65,530 that the kernel allows a process, if they are of no
files with long paths."""

_BLOCK = 1 << 16
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class CrowdedError(OSError):
    """The memory maps of a program are too many, or their paths too long, to look at."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a process and its descendants.

    Attributes:
        waited: seconds they were runnable but had no processor, as counted by the kernel, which adds a wait when it
            ends and forgets a process's waits when the process ends.
        ran: CPU seconds, including those of reaped children.
        ready: one of them is running or runnable.
        processes: number of processes.
    """

    waited: float = 0.0
    ran: float = 0.0
    ready: bool = False
    processes: int = 0

    def __sub__(self, before: Progress) -> Progress:
        """Progress since `before`."""
        return Progress(self.waited - before.waited, self.ran - before.ran, self.ready, self.processes)


def used_of(folder: str | int) -> int:
    """Used bytes of the file system of a folder."""
    scratch_used = os.statvfs(folder)
    return (scratch_used.f_blocks - scratch_used.f_bfree) * scratch_used.f_frsize


class Proc:
    """An open handle to `/proc`, which a process in its own namespaces cannot reopen.

    Args:
        handle: its descriptor; opened if None.
        same_memory: whether two processes share one address space. Raises `OSError` if that is unknown.

    Attributes:
        handle: the descriptor.
    """

    def __init__(
        self, handle: int | None = None, same_memory: Callable[[int, int], bool] = lambda pid, other: pid == other
    ) -> None:
        self._same_memory = same_memory
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self.handle = os.open("/proc", flags) if handle is None else handle

    def read(self, name: str) -> bytes:
        """The content of a file."""
        with open(os.open(name, os.O_RDONLY, dir_fd=self.handle), "rb") as file:
            return file.read()

    def host_pid(self, process: int) -> int:
        """The pid in this `/proc` of a process below this one. Raises `OSError` if there is none."""
        handle = os.pidfd_open(process)
        try:
            lines = self.read(f"thread-self/fdinfo/{handle}").splitlines()
        finally:
            os.close(handle)
        return next(int(line[4:]) for line in lines if line.startswith(b"Pid:"))

    def local_pid(self, host_pid: int) -> int:
        """The pid in this namespace of a process of this `/proc`; 0 if it is gone."""
        with suppress(OSError, IndexError):
            return self._namespace_pids(str(host_pid))[len(self._namespace_pids("thread-self")) - 1]
        return 0

    def children(self) -> list[int]:
        """The children of this process, as pids in this `/proc`."""
        return [int(number) for number in self.read("thread-self/children").split()]

    def threads(self, host_pid: int) -> int:
        """Number of threads of a process."""
        return os.stat(f"{host_pid}/task", dir_fd=self.handle).st_nlink - 2

    def descriptors(self, host_pid: int) -> set[str]:
        """The descriptors of a process of the same user."""
        return set(self._list(f"{host_pid}/fd"))

    def open_files(self, host_pid: int) -> dict[str, os.stat_result]:
        """What the descriptors of a stopped process of the same user refer to."""
        names = self._list(f"{host_pid}/fd")
        return {name: os.stat(f"{host_pid}/fd/{name}", dir_fd=self.handle) for name in names}

    def pipes(self, host_pid: int) -> int:
        """Number of pipes that a process and its descendants hold. Raises `OSError` if one cannot be read."""
        owners = {name.partition("/")[0] for name in self._threads(host_pid)}
        found: set[str] = set()
        for owner in owners:
            for name in self.descriptors(int(owner)):
                with suppress(FileNotFoundError):  # closed meanwhile
                    found.add(os.readlink(f"{owner}/fd/{name}", dir_fd=self.handle))
        return sum(place.startswith("pipe:") for place in found)

    def _list(self, folder: str) -> list[str]:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.handle)
        try:
            return os.listdir(handle)
        finally:
            os.close(handle)

    def progress(self, host_pid: int) -> Progress:
        """Progress of a process; empty if it cannot be read.

        The waits of the main thread and of the longest-waiting other thread are added, because one often waits for the
        other to end. The same holds for the programs it has started.
        """
        delays: dict[tuple[str, bool], int] = {}
        ran, ready, owners = 0, False, set[str]()
        for name in self._threads(host_pid):
            owner, _, task = name.partition("/task/")
            kind = owner, task == owner
            owners.add(owner)
            with suppress(OSError, ValueError, IndexError):
                delays[kind] = max(delays.get(kind, 0), int(self.read(f"{name}/schedstat").split()[1]))
                words = self.read(f"{name}/stat").rpartition(b")")[2].split()
                ready |= words[0] == b"R"
                if task == owner:  # utime, stime of all its threads; cutime, cstime of ended children
                    ran += sum(map(int, self.read(f"{owner}/stat").rpartition(b")")[2].split()[11:15]))
        return Progress(sum(delays.values()) / 1e9, ran * _TICK, ready, len(owners))

    def memory(self, host_pid: int, rss_before: int) -> int:
        """Bytes that a running process and its descendants occupy; 0 if it has ended.

        These are what they have written and, in the kernel, their page tables, memory maps and socket buffers.

        Args:
            host_pid: the process.
            rss_before: its resident bytes at the fork.

        Raises:
            CrowdedError: there are too many maps to look at.
        """
        processes = self._processes(host_pid)
        alive = [name for name in processes.values() if name]
        faults, busy = 0, True
        with suppress(OSError, ValueError, IndexError):
            words = self.read(f"{host_pid}/stat").rpartition(b")")[2].split()
            faults, busy = int(words[7]) * PAGE, sum(map(int, words[11:13])) * _TICK > UNSEEN_SECONDS
        spaces = dict.fromkeys(alive, b"")
        if busy or len(processes) > 1:
            spaces = self._distinct_spaces(dict(zip(alive, self._all_maps(alive), strict=True)))
        used = sum(text.count(b"\n") for text in spaces.values()) * MAP_BYTES + self._sockets(alive) * SOCKET_BYTES
        for name in spaces:
            with suppress(OSError, ValueError, IndexError):  # it has ended
                _, rss = self.sizes(name)
                if len(processes) == 1:
                    rss = min(rss, max(faults, rss - rss_before))
                else:
                    with suppress(PermissionError):  # it runs a program that it may not read
                        rss = self.mapped(name, b"Pss:")
                used += rss + self.page_tables(name)
        return used

    def _distinct_spaces(self, maps: dict[str, bytes]) -> dict[str, bytes]:
        """One process of each address space, from the maps of all: a child shares its parent's until its `execve`."""
        found: dict[str, bytes] = {}
        alike: dict[bytes, list[int]] = {}
        for name, text in maps.items():
            pid, others = int(name.partition("/")[0]), alike.setdefault(text, [])
            if not any(self._share_memory(pid, other) for other in others):
                others.append(pid)
                found[name] = text
        return found

    def _share_memory(self, pid: int, other: int) -> bool:
        with suppress(OSError):  # it has ended, or the kernel does not say
            return self._same_memory(pid, other)
        return False

    def _sockets(self, names: Iterable[str]) -> int:
        """Number of sockets of a program's processes, one thread of each given, without the link to its keeper."""
        found, hidden = set[str](), 0
        for name in names:
            try:
                numbers = self._list(f"{name}/fd")
            except PermissionError:  # it runs a program that it may not read
                hidden += _HIDDEN_SOCKETS
                continue
            except OSError:  # it has ended
                continue
            for number in numbers:
                with suppress(OSError):  # closed meanwhile
                    found.add(os.readlink(f"{name}/fd/{number}", dir_fd=self.handle))
        return hidden + max(0, sum(place.startswith("socket:") for place in found) - 1)

    def sizes(self, host_pid: int | str) -> tuple[int, int]:
        """Address space and resident size of a process, in bytes, shared pages included."""
        space, rss, *_ = self.read(f"{host_pid}/statm").split()
        return int(space) * PAGE, int(rss) * PAGE

    def page_tables(self, host_pid: int | str) -> int:
        """Page tables of a process, in bytes. Scattered small maps take more for these than for their pages."""
        lines = self.read(f"{host_pid}/status").splitlines()
        return next((int(line.split()[1]) << 10 for line in lines if line.startswith(b"VmPTE:")), 0)

    def maps(self, host_pid: int) -> int:
        """Number of memory maps of a process; takes about a microsecond per map. Raises `CrowdedError`."""
        return self._maps(str(host_pid), _MAX_MAPS_BYTES).count(b"\n")

    def _maps(self, name: str, most: int) -> bytes:
        """The maps of a thread's process; empty if it has ended. Raises `CrowdedError` beyond `most` bytes."""
        text = bytearray()
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            handle = os.open(f"{name}/maps", os.O_RDONLY, dir_fd=self.handle)
            try:
                while block := os.read(handle, _BLOCK):
                    text += block
                    if len(text) > most:
                        raise CrowdedError(f"more than {most} bytes of maps")
            finally:
                os.close(handle)
        return bytes(text)

    def _all_maps(self, names: Iterable[str]) -> Iterator[bytes]:
        """The maps of a program's processes, one thread of each given. Raises `CrowdedError` if they are too many."""
        left = _MAX_MAPS_BYTES
        for name in names:
            text = self._maps(name, left)
            left -= len(text)
            yield text

    def unlinked(self, host_pid: int, most: int) -> int:
        """Disk space of the deleted files that a process and its descendants hold, in bytes.

        A file that is only mapped counts as `most`, because the map does not show its size. Raises `CrowdedError`.
        """
        alive = [name for name in self._processes(host_pid).values() if name]
        sizes: dict[int, int] = {}
        for text in self._all_maps(alive):
            with suppress(ValueError, IndexError):
                for line in text.splitlines():
                    if line.endswith(b" (deleted)"):
                        sizes[int(line.split()[4])] = most
        for name in alive:
            with suppress(OSError):
                for number in self._list(f"{name}/fd"):
                    with suppress(FileNotFoundError):
                        file = os.stat(f"{name}/fd/{number}", dir_fd=self.handle)
                        if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                            sizes[file.st_ino] = file.st_blocks * 512
        return sum(sizes.values())

    def scratch_used(self, host_pid: int, folder: str) -> int:
        """Used bytes of the file system at a folder in a process's root; 0 if unreadable."""
        with suppress(OSError):
            handle = os.open(f"{host_pid}/root{folder}", os.O_PATH | os.O_DIRECTORY, dir_fd=self.handle)
            try:
                return used_of(handle)
            finally:
                os.close(handle)
        return 0

    def mapped(self, host_pid: int | str, kind: bytes) -> int:
        """Bytes of mapped memory in the ``smaps_rollup`` lines that start with `kind`."""
        lines = self.read(f"{host_pid}/smaps_rollup").splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(kind)) << 10

    def tasks(self, host_pid: int) -> Iterator[tuple[str, int]]:
        """Threads of a process and its descendants: path in this `/proc`, and id in this namespace."""
        level = len(self._namespace_pids("thread-self")) - 1
        for name in self._threads(host_pid):
            with suppress(OSError, IndexError):  # it has ended
                yield name, self._namespace_pids(name)[level]

    def _threads(self, host_pid: int) -> Iterator[str]:
        """Threads of a process and its descendants, as paths in this `/proc`, those of each process together."""
        pids = [str(host_pid)]
        while pids:
            folder = f"{pids.pop()}/task"
            with suppress(OSError):  # it has ended
                for name in self._list(folder):
                    with suppress(OSError):  # this thread has
                        pids += self.read(f"{folder}/{name}/children").decode().split()
                        yield f"{folder}/{name}"

    def _processes(self, host_pid: int) -> dict[str, str]:
        """A process and its descendants, and of each a thread that has not ended ("" if all have), as paths."""
        found: dict[str, str] = {}
        for name in self._threads(host_pid):
            process = name.partition("/")[0]
            if not found.setdefault(process, ""):
                with suppress(OSError, ValueError):
                    found[process] = name if self.sizes(name)[1] else ""
        return found

    def _namespace_pids(self, process: str) -> list[int]:
        """The pids of a process, outermost namespace first; empty if it has ended.

        Only whole lines count: the first one holds a name that the process chose, in any bytes.
        """
        lines = self.read(f"{process}/status").splitlines()
        return [int(number) for line in lines if line.startswith(b"NSpid:") for number in line.split()[1:]]
