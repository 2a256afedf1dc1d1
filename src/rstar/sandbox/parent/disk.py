"""Watches what programs write where their scratch folders have no file system of their own.

There the kernel limits the size of each file, and only a look through the folder tells the size of all. A look takes
time, so all folders are looked through twice a second, and at once when the disk has less free space than before. A
program can exceed its limit by what it writes between two looks: 40 milliseconds, or longer where the machine is busy.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

_TICK_SECONDS, _LOOK_SECONDS = 0.02, 0.5
_STEP = 4 << 20
"""Loss of free space, in bytes, after which the folders are looked through."""

_REST = 2
"""Time between two looks, as a multiple of the time that a look takes."""


class Writer(Protocol):
    """A run as seen by the disk watch."""

    async def check_disk_use(self) -> None:
        """Kill it if its files exceed its limit."""
        ...


class DiskWatch:
    """Watches runs that share the disk of `folder`; None if every run has a file system of its own."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._runs: set[Writer] = set()
        self._looks: dict[Writer, asyncio.Task[None]] = {}
        self._watcher: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, run: Writer) -> Iterator[None]:
        """Watch a run."""
        if self._folder is None:
            yield
            return
        self._runs.add(run)
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch_runs(self._folder))
        try:
            yield
        finally:
            self._runs.discard(run)

    def close(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.cancel()

    async def _watch_runs(self, folder: Path) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._runs:
                most, end = free_space(folder), clock() + _LOOK_SECONDS
                while clock() < end and (free := free_space(folder)) > most - _STEP:
                    most = max(most, free)
                    await asyncio.sleep(_TICK_SECONDS)
                started = clock()
                await self._look()
                await asyncio.sleep(_REST * (clock() - started))
        finally:
            self._watcher = None

    async def _look(self) -> None:
        """Look through all folders, but do not wait for a keeper that does not answer."""
        self._looks = {run: look for run, look in self._looks.items() if not look.done()}
        self._looks |= {run: asyncio.create_task(run.check_disk_use()) for run in self._runs - self._looks.keys()}
        if self._looks:
            await asyncio.wait(list(self._looks.values()), timeout=_TICK_SECONDS)


def free_space(folder: Path) -> int:
    """Free bytes on the disk of a folder."""
    room = os.statvfs(folder)
    return room.f_bfree * room.f_frsize
