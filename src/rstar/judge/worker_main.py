"""A worker process. Started by `rstar.judge.service`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import uuid
from pathlib import Path
from typing import Any

from rstar.judge.boot import boot
from rstar.judge.executor import Executor
from rstar.judge.redis_source import RedisSource
from rstar.judge.settings import JudgeSettings
from rstar.judge.worker import OLD_PER_SLOT, SocketSource, Source, Worker
from rstar.sandbox.local import LocalSandbox


async def work(settings: JudgeSettings, arguments: dict[str, Any]) -> None:
    """Work until SIGTERM."""
    slots, old = arguments["slots"], OLD_PER_SLOT * arguments["slots"]
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"  # containers may share both
    source: Source
    if settings.redis is None:
        source = SocketSource(str(Path(arguments["folder"]) / "workers"), name)
    else:
        source = RedisSource(settings.redis, name)
    async with LocalSandbox(settings.level, workers=slots, old_runs=old) as sandbox:
        await sandbox.warm()
        working = asyncio.create_task(Worker(source, Executor(name, sandbox), slots, old).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working


def main() -> None:
    """See the module."""
    asyncio.run(work(*boot()))


if __name__ == "__main__":
    main()
