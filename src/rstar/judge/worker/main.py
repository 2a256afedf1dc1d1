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

import uvloop

from rstar.judge.boot import boot, send_heartbeats
from rstar.judge.queue.redis_worker import RedisSource
from rstar.judge.settings import JudgeSettings
from rstar.judge.worker.executor import Executor
from rstar.judge.worker.worker import SocketSource, Source, Worker
from rstar.sandbox import LocalSandbox, memory_for_programs, threads_for_programs

_BYTES_PER_BACKGROUND_RUN = 8 << 20
"""Memory budget per background run; a sleeping run owns 2 to 4 MB."""


async def work(settings: JudgeSettings, arguments: dict[str, Any]) -> None:
    """Process jobs until SIGTERM."""
    slots = arguments["slots"]
    memory = memory_for_programs() * slots // settings.workers
    threads = threads_for_programs() * slots // settings.workers
    extra = memory // _BYTES_PER_BACKGROUND_RUN
    name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"  # containers may share host name and pid
    source: Source
    if settings.redis is None:
        source = SocketSource(str(Path(arguments["folder"]) / "workers"), name)
    else:
        source = RedisSource(settings.redis, name)
    async with LocalSandbox(
        settings.level,
        workers=slots,
        background_runs=extra,
        total_mb=memory >> 20,
        total_threads=threads,
        attempts=1,
    ) as sandbox:
        await sandbox.warm()
        job_loop = asyncio.create_task(Worker(source, Executor(name, sandbox, settings), slots, extra).run())
        heartbeat = asyncio.create_task(send_heartbeats(arguments["heartbeat_fd"]))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, job_loop.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await job_loop
        heartbeat.cancel()


def main() -> None:
    """Run the worker process."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(*boot()))


if __name__ == "__main__":
    main()
