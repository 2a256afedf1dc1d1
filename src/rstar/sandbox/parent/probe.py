"""Try each isolation mechanism alone in a child process and check that it holds."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial

from rstar.sandbox import channel
from rstar.sandbox.jail import kernel
from rstar.sandbox.jail.isolation import Jail, MechanismRefusedError
from rstar.sandbox.jail.self_test import self_test
from rstar.sandbox.levels import MechanismName


def main(fd: int) -> None:
    """Send the parent at socket `fd` a mapping from mechanism to None (works) or the reason for failure."""
    link = socket.socket(fileno=kernel.move_up(fd))
    sys.path[:] = (channel.receive(link) or ({"path": sys.path}, []))[0]["path"]
    checks: dict[MechanismName, Callable[[], None]] = {
        "namespaces": _check_namespaces,
        "landlock": partial(_check_refusal, PermissionError, partial(os.listdir, "/etc"), "could read a folder"),
        "seccomp": partial(_check_refusal, PermissionError, socket.socket, "could create a socket"),
        "rlimits": partial(_check_refusal, MemoryError, partial(bytearray, 1 << 30), "exceeded its memory limit"),
    }
    channel.send(link, {name: _try_mechanism((name,), check) for name, check in checks.items()})


def _try_mechanism(mechanisms: Iterable[MechanismName], check: Callable[[], None]) -> str | None:
    """Confine a run in a jail, in child processes, then call `check`, which raises if the confinement fails."""
    reading, writing = map(kernel.move_up, os.pipe())
    folder = tempfile.mkdtemp(prefix="rstar-probe-")
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, _reason_for_failure(mechanisms, folder, check).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        reason = file.read().decode()
    os.waitpid(child, 0)
    os.rmdir(folder)
    return None if reason == "works" else reason or "the process that tried it died"


def _reason_for_failure(mechanisms: Iterable[MechanismName], folder: str, check: Callable[[], None]) -> str:
    try:
        jail = Jail(mechanisms, folder)
        jail.enter()
        jail.finish_warm_up(kernel.PROC_FD, kernel.RULESET_FD)
        self_test(jail, check)
    except MechanismRefusedError as refused:
        return refused.reason
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "works"


def _check_namespaces() -> None:
    if os.getpid() != 1 or os.path.exists("/etc/passwd") or os.path.exists("/proc/self"):
        raise OSError("a confined run can see the machine")


def _check_refusal(error: type[Exception], action: Callable[[], object], breach: str) -> None:
    try:
        action()
    except error:
        return
    raise OSError(f"a confined run {breach}")
