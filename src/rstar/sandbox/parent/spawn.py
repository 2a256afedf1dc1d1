"""Start the sandbox's helper processes, isolated from the parent's environment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""The whole `os.environ` of model-written code. The fixed hash seed makes replays deterministic."""

_BOOT = """
import sys, types
for name, path in zip(("rstar", "rstar.sandbox"), sys.argv[3:]):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [path]
from importlib import import_module
import_module(sys.argv[1]).main(int(sys.argv[2]))
"""
"""Imports a module of this package without running the packages' `__init__`."""


def spawn(module: str, link: socket.socket, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a module of this package in a process that inherits only `link`, which is closed here."""
    package = Path(__file__).parents[1]
    with link:
        command = [sys.executable, "-s", "-P", "-B", "-c", _BOOT, module, str(link.fileno())]
        return subprocess.Popen(
            [*command, str(package.parent), str(package)], env=ENVIRONMENT, cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, pass_fds=[link.fileno()],
        )  # fmt: skip


def end_session(leader: int) -> None:
    """Kill a started process, which must not be reaped yet, and all others of the session that it leads.

    Without a PID namespace, programs that runs have started do not end with it.
    """
    os.kill(leader, signal.SIGKILL)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError, ValueError, IndexError):
            _, _, group, session, *_ = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            if int(session) == leader:
                os.killpg(int(group), signal.SIGKILL)  # as a group: a single process may fork meanwhile
