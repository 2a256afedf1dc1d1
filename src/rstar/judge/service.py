"""One machine's part of a service: the API process and the workers, supervised by a small parent.

The parent holds the listening socket, so connections wait while the API process restarts. It restarts dead children
with growing pauses and kills a child whose heartbeat stops. All children die with the parent, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from rstar.errors import ConfigError
from rstar.judge.settings import JudgeSettings, check_exposure, check_url
from rstar.sandbox import temporary_folder

SLOTS_PER_PROCESS = 4
"""Maximum slots per worker process: one event loop with its zygotes keeps about that many processors busy."""

BACKLOG = 4_096
_QUICK_DEATH = 5.0
_MAX_PAUSE = 5.0
_STOP_SECONDS = 5.0
_START_SECONDS, _SILENCE_SECONDS, _LISTEN_SECONDS = 120.0, 10.0, 1.0
_LOG = logging.getLogger("rstar.judge")


def serve(settings: JudgeSettings, *, api: bool = True, announce: Callable[[str], object] = print) -> None:
    """Run the service, or (without `api`) workers for a shared queue only, until SIGINT or SIGTERM.

    Args:
        settings: the service's settings.
        api: run the API on this machine.
        announce: called with the URL once the socket is open.

    Raises:
        ConfigError: reachable from outside without a token, port taken, or workers without a queue.
    """
    if not api and settings.redis is None:
        raise ConfigError("workers without an API need --redis")
    if api:
        check_exposure(settings)
    if settings.redis is not None:
        check_url(settings.redis)
        _check_redis(settings.redis)
    with temporary_folder("rstar-judge-") as folder, contextlib.ExitStack() as stack:
        children = [
            _Child("worker", {"slots": slots, "folder": str(folder)}, settings)
            for slots in slots_by_process(settings.workers)
        ]
        if api:
            listener = stack.enter_context(_listen(settings))
            fd = listener.fileno()
            children.insert(0, _Child("server", {"fd": fd, "folder": str(folder)}, settings, fd))
            host, port = listener.getsockname()[:2]
            announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        asyncio.run(_supervise(children))


def slots_by_process(workers: int) -> list[int]:
    """Slots of each worker process.

    >>> slots_by_process(2), slots_by_process(9)
    ([2], [3, 3, 3])
    """
    processes = -(-workers // SLOTS_PER_PROCESS)
    return [workers // processes + (place < workers % processes) for place in range(processes)]


def _check_redis(url: str) -> None:
    """Raise `ConfigError` if no Redis answers at start; later outages are tolerated."""
    from redis import Redis  # an optional dependency
    from redis.exceptions import RedisError

    place = urlsplit(url)
    where = f"{place.scheme}://{place.hostname or ''}{f':{place.port}' if place.port else ''}{place.path}"
    try:
        with Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5) as client:
            client.ping()
    except (RedisError, OSError, ValueError) as error:
        raise ConfigError(f"no Redis server answers at {where}: {error}") from error


def _listen(settings: JudgeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error


class _Child:
    """A supervised process: its role, arguments, settings and inherited descriptors."""

    def __init__(self, role: str, arguments: dict[str, Any], settings: JudgeSettings, *fds: int) -> None:
        self.role = role
        self._arguments, self._fds = arguments, fds
        self._settings = settings.model_dump_json().encode()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """Start it, with the settings (they may hold secrets) on stdin. Returns the read end of its heartbeat pipe."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        command = [sys.executable, "-P", "-m", f"rstar.judge.{self.role}.main"]
        try:
            self.process = subprocess.Popen(
                [*command, json.dumps({**self._arguments, "heartbeat_fd": writing})],
                stdin=subprocess.PIPE, pass_fds=(*self._fds, writing), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(writing)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self.process.stdin as pipe:
            pipe.write(self._settings)
        return reading

    async def supervise(self) -> None:
        """Start it and restart it whenever it ends."""
        pause = 0.0
        while True:
            started = time.monotonic()
            heartbeat_fd = self.start()
            assert self.process is not None
            watching = asyncio.create_task(self._watch_heartbeat(heartbeat_fd))
            try:
                code = await _exit_code(self.process)
            finally:
                watching.cancel()
                os.close(heartbeat_fd)
            pause = 0.0 if time.monotonic() - started > _QUICK_DEATH else min(2 * pause + 0.1, _MAX_PAUSE)
            _LOG.warning("a %s process ended with %s; starting another in %.1f s", self.role, code, pause)
            await asyncio.sleep(pause)

    async def _watch_heartbeat(self, heartbeat_fd: int) -> None:
        timeout = _START_SECONDS
        last_heard = time.monotonic()
        while time.monotonic() - last_heard < timeout:
            await asyncio.sleep(_LISTEN_SECONDS)
            with contextlib.suppress(BlockingIOError):
                if os.read(heartbeat_fd, 1_000):
                    last_heard, timeout = time.monotonic(), _SILENCE_SECONDS
        _LOG.warning("a %s process has not responded for %.0f s; killing it", self.role, timeout)
        self.stop(signal.SIGKILL)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal if it is running."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


async def _exit_code(process: subprocess.Popen[bytes]) -> int:
    loop = asyncio.get_running_loop()
    handle = os.pidfd_open(process.pid)
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return process.wait()


async def _supervise(children: list[_Child]) -> None:
    """Supervise all children until SIGINT or SIGTERM, then stop them in order."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    supervising = [asyncio.create_task(child.supervise()) for child in children]
    await stop.wait()
    for task in supervising:
        task.cancel()
    for child in children:
        child.stop(signal.SIGTERM)
    deadline = loop.time() + _STOP_SECONDS
    for child in children:
        if child.process is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_exit_code(child.process), max(0.1, deadline - loop.time()))
            child.stop(signal.SIGKILL)
            child.process.wait()
