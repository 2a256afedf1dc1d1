"""Try each isolation mechanism alone in a child process and check that it holds."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable

from rstar.sandbox import channel
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail, MechanismRefusedError
from rstar.sandbox.levels import MechanismName


def main(fd: int) -> None:
    """Send the parent at socket `fd` a mapping from mechanism to None (works) or the reason for failure."""
    link = socket.socket(fileno=kernel.move_up(fd))
    sys.path[:] = (channel.receive(link) or ({"path": sys.path}, []))[0]["path"]
    checks: dict[MechanismName, Callable[[], None]] = {
        "namespaces": _alone,
        "landlock": _no_files,
        "seccomp": _no_calls,
        "rlimits": _no_memory,
    }
    channel.send(link, {name: _attempt((name,), check) for name, check in checks.items()})


def _attempt(mechanisms: Iterable[MechanismName], check: Callable[[], None]) -> str | None:
    """Confine a run in a jail, in child processes, then call `check`, which raises if the confinement fails."""
    reading, writing = map(kernel.move_up, os.pipe())
    folder = tempfile.mkdtemp(prefix="rstar-probe-")
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, _in_jail(mechanisms, folder, check).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        reason = file.read().decode()
    os.waitpid(child, 0)
    os.rmdir(folder)
    return None if reason == "works" else reason or "the process that tried it died"


def _in_jail(mechanisms: Iterable[MechanismName], folder: str, check: Callable[[], None]) -> str:
    try:
        jail = Jail(mechanisms, folder)
        jail.enter()
        jail.settle(kernel.PROC_FD, kernel.RULESET_FD)
        jail.rehearse(check)
    except MechanismRefusedError as refused:
        return refused.reason
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "works"


def _alone() -> None:
    if os.getpid() != 1 or os.path.exists("/etc/passwd") or os.path.exists("/proc/self"):
        raise OSError("the run still sees the machine")


def _no_files() -> None:
    try:
        os.listdir("/etc")
    except PermissionError:
        return
    raise OSError("a folder that is not allowed could be read")


def _no_calls() -> None:
    try:
        socket.socket()
    except PermissionError:
        return
    raise OSError("a socket could be made")


def _no_memory() -> None:
    try:
        bytearray(1 << 30)
    except MemoryError:
        return
    raise OSError("more memory than allowed could be had")
