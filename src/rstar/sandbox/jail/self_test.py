"""Confine a process in a jail as runs are confined, so failures show at the start and not in a run."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from rstar.sandbox import channel
from rstar.sandbox.api import Limits
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail, MechanismRefusedError, mechanism


def self_test(jail: Jail, check: Callable[[], None] = lambda: None) -> None:
    """Confine one process in each way, as a state that may be forked and as another run.

    Args:
        jail: entered, and warm.
        check: runs in the confined process, and raises if the confinement does not hold.

    Raises:
        MechanismRefusedError: a mechanism failed, or `check` did.
    """
    for forks in (False, True):
        ours, theirs = channel.pair()
        with mechanism("namespaces"):
            pid = jail.clone(new=True)
        if pid == 0:
            _confine(jail, theirs, forks, check)
        theirs.close()
        with ours:
            answer = _read_answer(ours)
        with suppress(ChildProcessError):
            while True:  # also the fork it may have made
                os.wait()
        if answer != "confined":
            raise MechanismRefusedError(*(answer or "limits\nthe process that tried them died").split("\n", 1))


def _confine(jail: Jail, link: socket.socket, forks: bool, check: Callable[[], None]) -> NoReturn:
    try:
        if jail.namespaces:
            with mechanism("namespaces"):
                jail.mount_scratch(jail.folder, 1 << 20)
        listens = forks and jail.seccomp
        on_listener = (lambda listener: socket.send_fds(link, [b"listener"], [listener])) if listens else None
        limits = Limits(cpu_seconds=10, memory_mb=64, scratch_mb=1)
        jail.confine(limits, jail.folder, jail.folder, on_listener, forks=listens)
        # The first process of a namespace cannot make a sibling, and a program may not.
        siblings = listens and not jail.namespaces and not jail.starts_programs
        if siblings and jail.clone(new=False, parent=True) == 0:
            os._exit(0)
        check()
        link.send(b"confined")
    except MechanismRefusedError as refused:
        link.send(f"{refused.mechanism}\n{refused.reason}".encode())
    except BaseException as error:
        link.send(f"limits\n{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _read_answer(link: socket.socket) -> str:
    """What the confined process reports; its one fork is allowed."""
    packet, handles, _, _ = socket.recv_fds(link, 4096, 1)
    if not handles:
        return packet.decode(errors="replace")
    try:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        poll.register(handles[0], select.POLLIN)
        ready = [fd for fd, _ in poll.poll(5_000)]
        if not ready:
            return "seccomp\nno notification of a fork"
        if link.fileno() not in ready:
            waiting = kernel.notification(handles[0])
            if waiting is None or not kernel.answer(handles[0], waiting[0], None):
                return "seccomp\nthe notification of a fork could not be answered"
        return link.recv(4096).decode(errors="replace")
    finally:
        os.close(handles[0])
