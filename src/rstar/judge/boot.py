"""What the service's processes have in common when they start."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import resource
import signal
import sys
from typing import Any

from rstar.judge.settings import JudgeSettings

_PR_SET_PDEATHSIG = 1


async def beat(pulse: int) -> None:
    """Tell the service every second that this process gets on; it replaces one that it does not hear of."""
    while True:
        with contextlib.suppress(BlockingIOError):  # it is the service that does not get on
            os.write(pulse, b".")
        await asyncio.sleep(1.0)


def boot() -> tuple[JudgeSettings, dict[str, Any]]:
    """The settings (on standard input) and arguments (the only one there is); this process dies with its parent now."""
    parent = os.getppid()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection takes one, a run two
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    settings = JudgeSettings.model_validate_json(sys.stdin.buffer.read())
    if os.getppid() != parent:
        sys.exit("the service ended while this process was starting")
    logging.basicConfig(format="%(asctime)s %(name)s %(levelname)s %(message)s", level=logging.WARNING)
    return settings, json.loads(sys.argv[1])
