"""What a keeper knows about the processes below it, and asks the kernel about them."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field

from rstar.sandbox import channel
from rstar.sandbox.isolation import RunLimits


@dataclass(slots=True, eq=False)
class Run:
    """One process below the keeper.

    Attributes:
        id: the parent's number for it.
        link: to it.
        folder: its scratch folder.
        limits: its limits; None for the keeper of a tree.
        process: its process number, 0 until it has said hello.
        death: a descriptor that is readable when a forked process has died.
        source: the process that is to fork it, until it has.
        order: what it shall do then.
        working: it has not reported yet.
        may_fork: how many forks it has been asked for and not made.
        unwanted: the parent has lost interest before its hello.
        waiting: runs that it is to fork.
        nice: its priority, 0 for the ordinary one.
    """

    id: int
    link: socket.socket
    folder: str
    limits: RunLimits | None
    process: int = 0
    death: int | None = None
    source: Run | None = None
    order: tuple[channel.Message, list[int]] | None = None
    working: bool = True
    may_fork: int = 0
    unwanted: bool = False
    waiting: list[Run] = field(default_factory=list)
    nice: int = 0


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
