"""Startup code shared by the service's processes."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

from rstar.judge.logs import set_up_logging
from rstar.judge.settings import JudgeSettings

_PR_SET_PDEATHSIG = 1


async def send_heartbeats(heartbeat_fd: int) -> None:
    """Send the service a heartbeat every second; it replaces a process that falls silent."""
    while True:
        with contextlib.suppress(BlockingIOError):  # the service itself is stuck
            os.write(heartbeat_fd, b".")
        await asyncio.sleep(1.0)


def boot() -> tuple[JudgeSettings, dict[str, Any]]:
    """Read the settings (stdin, JSON) and arguments (`argv[1]`, JSON), and tie this process's life to its parent."""
    parent = os.getppid()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one per connection, two per run
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    settings = JudgeSettings.model_validate_json(sys.stdin.buffer.read())
    if os.getppid() != parent:
        sys.exit("the service ended while this process was starting")
    set_up_logging()
    return settings, json.loads(sys.argv[1])
