"""A keeper's records of the processes below it and its kernel queries about them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from array import array
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.jail import kernel
from rstar.sandbox.keeper.proc import MAP_BYTES, PAGE, UNSEEN_SECONDS, Proc, Progress

HELLO, LISTENER = b"hello", b"listener"
"""Packets sent before any code runs: every process sends a hello, a tree's first run its listener before that."""

OWN_FDS = frozenset({"0", "1", "2", str(kernel.LINK_FD)})
"""Descriptors of a run that has opened none."""

_ANCILLARY = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(4)
_LARGE, _WIDE = 16 << 20, 1 << 20
_MAP_LINK_BYTES = 64
_MAX_PIPES, _MIN_PIPES, _ALL_PIPES = 32, 4, 512
_MAX_REQUESTS, _COUNT_PAUSE = 10_000, 5
_LOOK_PAUSE = 4
"""A look at a run is followed by a pause of so many times its length, for each run."""


@dataclass(slots=True, eq=False)
class Run:
    """One process below the keeper.

    Attributes:
        id: the parent's number for it.
        link: socket to it.
        folder: its scratch folder.
        limits: its hard limits; None for the keeper of a tree.
        threads: the most threads it may have.
        pid: its pid, 0 until its hello.
        host_pid: its pid in the `/proc` of the zygote's parent; 0 until first looked up.
        started_at: time of its hello (`time.monotonic`).
        rss_before, rss: resident bytes at its fork, and when last at rest.
        pidfd: a descriptor, readable when a forked process has died.
        source: the process that is to fork it, until the fork is done.
        link_inode: for a fork, the number of the socket at its end of the link.
        pending_order: its order after the fork.
        running: it has not reported yet.
        forks_requested: forks requested of it and not yet made.
        forks_unconfirmed: forks it has made that have not sent a hello.
        cancelled: the parent cancelled it before its hello.
        pending_forks: runs that it is to fork.
        nice: its niceness, 0 by default.
        fingerprint: of its folder when last at rest, if others can write there (see `folders.fingerprint`).
        maps: number of its memory maps, when last counted.
        generation: number of forks from the first step to it.
        cpu: CPU seconds of its process when last at rest.
        unseen_cpu: CPU seconds of it and its ancestors since the maps were counted.
        progress_before: progress of its process when this run continued it.
        looks: by question, the earliest time of the next look (`time.monotonic`), and what the last one found.
    """

    id: int
    link: socket.socket
    folder: str
    limits: Limits | None
    threads: int = 0
    pid: int = 0
    host_pid: int = 0
    started_at: float = 0.0
    rss_before: int = 0
    rss: int = 0
    pidfd: int | None = None
    source: Run | None = None
    link_inode: int = 0
    pending_order: tuple[channel.Message, list[int]] | None = None
    running: bool = True
    forks_requested: int = 0
    forks_unconfirmed: int = 0
    cancelled: bool = False
    pending_forks: list[Run] = field(default_factory=list)
    nice: int = 0
    fingerprint: tuple[int, int, int] | None = None
    maps: int = 0
    generation: int = 0
    cpu: float = 0.0
    unseen_cpu: float = 0.0
    progress_before: Progress = field(default_factory=Progress)
    looks: dict[str, tuple[float, int]] = field(default_factory=dict)


class PipeQuota:
    """Bounds the pipes of one program: the kernel limits the buffers of all pipes of a user, which programs share.

    Beyond 1,024 pipes, new ones are small, and a program that fills its own pipe hangs. So with many programs each may
    have fewer.

    Live pipes are counted only when so many have been asked for that there may be too many. Counting is slow, so the
    counts for all programs together take a small part of the keeper's time; meanwhile pipes are refused.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._most, self._next_count, self._asked = count, 0, 0.0, 0

    def allows(self, programs: int) -> bool:
        """Whether the program, one of `programs`, may have another pipe."""
        self._asked += 1
        share = min(_MAX_PIPES, max(_MIN_PIPES, _ALL_PIPES // programs))
        if self._most >= share:
            if time.monotonic() < self._next_count:
                return False
            started = time.thread_time()  # the load of the machine must not lengthen the pause
            try:
                self._most = self._count()
            except OSError:
                return False
            finally:
                used = time.thread_time() - started
                self._next_count = time.monotonic() + _COUNT_PAUSE * programs * used
        if self._most >= share:
            return False
        self._most += 1
        return True

    @property
    def used_up(self) -> bool:
        """It has asked so often that it can only mean to keep the keeper busy."""
        return self._asked > _MAX_REQUESTS


@dataclass(frozen=True, slots=True)
class Template:
    """A warm process that only forks."""

    link: socket.socket
    pid: int

    def fork(self, link: socket.socket) -> None:
        """Fork a process that takes its orders from the other end of `link`."""
        socket.send_fds(self.link, [b"fork"], [link.fileno()])

    def ping(self, number: int) -> None:
        """Ask it to echo the number."""
        self.link.send(str(number).encode(), socket.MSG_DONTWAIT)


class Children:
    """Reaps this process's killed children and finds unknown ones.

    Args:
        proc: this process's `/proc`.
        adopts_orphans: orphans are reparented to this process, because there is no PID namespace.
        leads_groups: a child may start processes, which are in its process group.

    Attributes:
        dying: killed but not reaped, so their pids are still valid.
        cpu: CPU seconds of ended children.
        strays: there may be unknown children.
    """

    def __init__(self, proc: Proc, *, adopts_orphans: bool, leads_groups: bool) -> None:
        self._proc, self._adopts_orphans, self._leads_groups = proc, adopts_orphans, leads_groups
        self.dying: set[int] = set()
        self.cpu, self.strays = 0.0, False
        self._reports: dict[int, Callable[[int, float], None]] = {}

    def kill(self, pid: int) -> None:
        """Kill a child with its process group."""
        self._send_kill(pid)
        self.dying.add(pid)

    def _send_kill(self, pid: int) -> None:
        if self._leads_groups:
            with suppress(ProcessLookupError):  # it leads no group
                os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)

    def kill_and_report(self, pid: int, report: Callable[[int, float], None]) -> None:
        """Kill a child with its process group.

        `report` gets its wait status and CPU seconds when it is dead. That can take seconds: a process needs a
        processor to die. Nothing waits for it here, because all other runs would wait, too.
        """
        self._send_kill(pid)
        self.dying.add(pid)
        self._reports[pid] = report
        self._wait_for(pid, os.WNOHANG)

    def reap(self, flags: int = os.WNOHANG) -> None:
        """Reap dying children. With `flags` 0, block until they are dead and skip the callbacks."""
        if not flags:
            self._reports.clear()
        for pid in list(self.dying):
            if self._wait_for(pid, flags):
                self.strays |= self._adopts_orphans

    def _wait_for(self, pid: int, flags: int) -> bool:
        done, status, usage = os.wait4(pid, flags)
        if not done:
            return False
        self.dying.discard(pid)
        cpu = usage.ru_utime + usage.ru_stime
        self.cpu += cpu
        if (report := self._reports.pop(pid, None)) is not None:
            report(status, cpu)
        return True

    def sweep(self, known: Set[int]) -> None:
        """Kill children that are neither `known` nor dying: forks that a state made without a request."""
        self.strays = False
        for host_pid in self._proc.children():
            if (pid := self._proc.local_pid(host_pid)) and pid not in known and pid not in self.dying:
                self.kill(pid)


def readable(fd: int, milliseconds: int) -> bool:
    """Whether a descriptor (of any number) becomes readable within the timeout."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(milliseconds))


def hung_up(fd: int) -> bool:
    """Whether the other end of a descriptor is gone."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def cpu_of(pid: int) -> float:
    """CPU seconds of another process, from its kernel clock."""
    return time.clock_gettime(~pid << 3 | 2)


def read_hello(link: socket.socket) -> tuple[bytes, int, list[int]]:
    """A packet sent before any code ran in the process: its bytes, the sender's pid, and descriptors."""
    packet, extra, _, _ = link.recvmsg(4096, _ANCILLARY, socket.MSG_DONTWAIT)
    sender, fds = 0, array("i")
    for _, kind, data in extra:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) // fds.itemsize * fds.itemsize])
        elif kind == kernel.SCM_CREDENTIALS:
            sender = int.from_bytes(data[:4], "little")
    return packet, sender, fds.tolist()


def look_at(run: Run, question: str, answer: Callable[[Run], int], runs: int) -> int:
    """The answer to a question about one of `runs` runs, from an earlier look if looks at this run take long.

    A run decides how long a look takes, and all others wait meanwhile. So all looks for a question together take a
    small part of the keeper's time, and each run an equal part of that.
    """
    next_look, found = run.looks.get(question, (0.0, 0))
    if time.monotonic() >= next_look:
        started = time.thread_time()  # the load of the machine must not lengthen the pause
        found = answer(run)
        run.looks[question] = time.monotonic() + _LOOK_PAUSE * runs * (time.thread_time() - started), found
    return found


def count_maps(proc: Proc, host_pid: int, run: Run, cpu: float) -> None:
    """Count the memory maps of a process at rest that has used `cpu` seconds, if there may be many new ones.

    Making them takes time, so a process that has hardly run has few; counting takes time, too.
    """
    run.unseen_cpu += cpu - run.cpu
    run.cpu = cpu
    if run.unseen_cpu > UNSEEN_SECONDS:
        run.maps, run.unseen_cpu = proc.maps(host_pid), 0.0


def map_memory(run: Run) -> int:
    """Kernel memory of a process's memory maps, in bytes: every map is linked with those that it was forked from."""
    return run.maps * (MAP_BYTES + _MAP_LINK_BYTES * run.generation)


def own_memory(
    proc: Proc, host_pid: int, faults: int, rss_before: int, base: int, *, scattered: bool = False
) -> tuple[int, int]:
    """Bytes that a stopped process has written since its fork, and its resident size.

    Page faults are exact while pages are small and none has been released. Only a process that has grown is measured
    page by page, which is slow. Page tables count only where the address space clearly exceeds the warm interpreter's,
    `base`, or is `scattered` over many maps.
    """
    space, rss = proc.sizes(host_pid)
    estimate = max(faults * PAGE, rss - rss_before)
    written = estimate if estimate < _LARGE else proc.mapped(host_pid, b"Private_")
    return written + (proc.page_tables(host_pid) if scattered or space - base > _WIDE else 0), rss


def is_child(pid: int) -> bool:
    """Whether the process is a child of this one, alive or not yet reaped."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
