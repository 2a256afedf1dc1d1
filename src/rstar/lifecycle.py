"""Shared resources, bounded concurrency, results from other threads, and child processes that end with their parent."""

from __future__ import annotations

import asyncio
import ctypes
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any, Self, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class SharedContext:
    """Opened by its first user and closed by its last: ``async with`` may be nested, and entered by several tasks.

    Subclasses define `_open` and `_close`. An `_open` that raises must leave nothing open.
    """

    def __init__(self) -> None:
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _open(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError

    @property
    def _changing(self) -> asyncio.Lock:
        """Lock held during opening and closing; one per event loop."""
        if self._loop is not (loop := asyncio.get_running_loop()):
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock

    async def __aenter__(self) -> Self:
        async with self._changing:
            if self._users == 0:
                await self._open()
            self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        async with self._changing:
            self._users -= 1
            if self._users == 0:
                await self._close()


async def gather_or_cancel(parts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all coroutines like `asyncio.gather`; if one fails, cancel the others and await their end before raising."""
    coroutines = list(parts)
    if len(coroutines) < 2:  # saves the tasks
        return [await part for part in coroutines]
    tasks = [asyncio.create_task(part) for part in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def run_bounded(
    jobs: Iterable[tuple[K, Coroutine[Any, Any, T]]], limit: int
) -> AsyncGenerator[tuple[K, asyncio.Task[T]], None]:
    """Run jobs, at most `limit` at a time; yield each key with its finished task, in order of completion.

    Jobs are drawn from the iterable as slots free up. Among jobs that finish together, failed ones come last. Closing
    the iterator cancels the remaining jobs and awaits their end.
    """
    waiting: Iterator[tuple[K, Coroutine[Any, Any, T]]] = iter(jobs)
    running: dict[asyncio.Task[T], K] = {}
    try:
        while True:
            while len(running) < limit and (job := next(waiting, None)) is not None:
                running[asyncio.create_task(job[1])] = job[0]
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: task.exception() is not None):
                yield running.pop(task), task
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def set_result(future: asyncio.Future[T], result: T) -> None:
    """Set the result of `future` unless it is done. Runs in its loop."""
    if not future.done():
        future.set_result(result)


def set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    """Set the exception of `future` unless it is done. Runs in its loop."""
    if not future.done():
        future.set_exception(error)


def call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    """Schedule `function` in `loop` from any thread. On a closed loop nothing happens: no task is waiting there."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *args)


_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Send the forked process SIGTERM when its parent ends, however that ends; for ``preexec_fn``."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
