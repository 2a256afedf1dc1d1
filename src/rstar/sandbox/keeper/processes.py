"""What a keeper knows about the processes below it, and asks the kernel about them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from array import array
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.jail import kernel
from rstar.sandbox.keeper.proc import PAGE, Proc, Progress

HELLO, LISTENER = b"hello", b"listener"
"""What a process sends before it runs anything: that it is there; before that, the first of a tree, its listener."""

OWN_FDS = frozenset({"0", "1", "2", str(kernel.LINK_FD)})
"""The descriptors of a run that has none of its own."""

_ANCILLARY = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(4)
_LARGE, _WIDE = 16 << 20, 1 << 20
_SOON_MS = 50
"""How long the death of a process is waited for at once: with a few million entries in a table of the kernel it takes
seconds, for which others would wait."""


@dataclass(slots=True, eq=False)
class Run:
    """One process below the keeper.

    Attributes:
        id: the parent's number for it.
        link: to it.
        folder: its scratch folder.
        limits: its hard limits; None for the keeper of a tree.
        process: its process number, 0 until it has said hello.
        outer: its number in the `/proc` of the zygote's parent; 0 as long as nobody has asked.
        began: when it said hello, on the clock of `time.monotonic`.
        rss_before, rss: what it had mapped when it was made, and when it was last at rest, in bytes.
        death: a descriptor that is readable when a forked process has died.
        source: the process that is to fork it, until it has.
        order: what it shall do then.
        working: it has not reported yet.
        may_fork: how many forks it has been asked for and not made.
        forked: how many it has made that have not said hello.
        unwanted: the parent has lost interest before its hello.
        waiting: runs that it is to fork.
        nice: its priority, 0 for the ordinary one.
        before: how far its process had come when it went on with this run.
    """

    id: int
    link: socket.socket
    folder: str
    limits: Limits | None
    process: int = 0
    outer: int = 0
    began: float = 0.0
    rss_before: int = 0
    rss: int = 0
    death: int | None = None
    source: Run | None = None
    order: tuple[channel.Message, list[int]] | None = None
    working: bool = True
    may_fork: int = 0
    forked: int = 0
    unwanted: bool = False
    waiting: list[Run] = field(default_factory=list)
    nice: int = 0
    before: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class Template:
    """A warm process that only forks."""

    link: socket.socket
    process: int

    def fork(self, link: socket.socket) -> None:
        """Have it fork a process, in namespaces of its own, which takes its orders from the other end of `link`."""
        socket.send_fds(self.link, [b"fork"], [link.fileno()])

    def ping(self, number: int) -> None:
        """Have it send the number back."""
        self.link.send(str(number).encode(), socket.MSG_DONTWAIT)


class Children:
    """The children of this process that end, and those that nobody knows.

    Args:
        proc: of this process.
        adopts: processes that have lost their parent fall to this one: there is no PID namespace.

    Attributes:
        dying: have been killed and not been waited for, so that their numbers are still their own.
        cpu: processor time of those that have ended, in seconds.
        strays: there may be some that nobody knows.
    """

    def __init__(self, proc: Proc, *, adopts: bool) -> None:
        self._proc, self._adopts = proc, adopts
        self.dying: set[int] = set()
        self.cpu, self.strays = 0.0, False
        self._told: dict[int, Callable[[int, float], None]] = {}

    def end(self, process: int) -> None:
        """Kill a child."""
        os.kill(process, signal.SIGKILL)
        self.dying.add(process)

    def end_and_tell(self, process: int, tell: Callable[[int, float], None]) -> None:
        """Kill a child; its wait status and processor time are told when it is dead, which can take seconds."""
        os.kill(process, signal.SIGKILL)
        handle = os.pidfd_open(process)
        try:
            readable(handle, _SOON_MS)
        finally:
            os.close(handle)
        self.dying.add(process)
        self._told[process] = tell
        self._wait_for(process, os.WNOHANG)

    def reap(self, flags: int = os.WNOHANG) -> None:
        """Wait for those that are dying; with `flags` 0 until they are dead, and nobody is told any more."""
        if not flags:
            self._told.clear()
        for process in list(self.dying):
            if self._wait_for(process, flags):
                self.strays |= self._adopts

    def _wait_for(self, process: int, flags: int) -> bool:
        done, status, usage = os.wait4(process, flags)
        if not done:
            return False
        self.dying.discard(process)
        cpu = usage.ru_utime + usage.ru_stime
        self.cpu += cpu
        if (tell := self._told.pop(process, None)) is not None:
            tell(status, cpu)
        return True

    def sweep(self, known: Set[int]) -> None:
        """End the children that are neither `known` nor dying: forks that a state has made of its own accord."""
        self.strays = False
        for outer in self._proc.children():
            if (process := self._proc.inner(outer)) and process not in known and process not in self.dying:
                self.end(process)


def readable(fd: int, milliseconds: int) -> bool:
    """Whether a descriptor of any number is readable within a time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(milliseconds))


def cpu_of(process: int) -> float:
    """Processor time of another process, in seconds: the kernel has a clock for each."""
    return time.clock_gettime(~process << 3 | 2)


def read_hello(link: socket.socket) -> tuple[bytes, int, list[int]]:
    """A packet that a process has sent before any code ran in it, the sender's process number, and descriptors."""
    packet, extra, _, _ = link.recvmsg(4096, _ANCILLARY, socket.MSG_DONTWAIT)
    sender, fds = 0, array("i")
    for _, kind, data in extra:
        if kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) // fds.itemsize * fds.itemsize])
        elif kind == kernel.SCM_CREDENTIALS:
            sender = int.from_bytes(data[:4], "little")
    return packet, sender, fds.tolist()


def own_memory(proc: Proc, outer: int, faults: int, rss_before: int, base: int) -> tuple[int, int]:
    """What a process that rests has written since its fork, and all that it has mapped; in bytes.

    Page faults tell that exactly as long as pages are small and none has been given back. So a process that has grown
    is looked at page by page, which is not worth its time for the others. Likewise its page tables, where its address
    space is not much more than the warm interpreter's, `base`.
    """
    space, rss = proc.sizes(outer)
    estimate = max(faults * PAGE, rss - rss_before)
    written = estimate if estimate < _LARGE else proc.mapped(outer, b"Private_")
    return written + (proc.tables(outer) if space - base > _WIDE else 0), rss


def is_child(process: int) -> bool:
    """Whether the process is a child of this one, alive or not waited for."""
    try:
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
