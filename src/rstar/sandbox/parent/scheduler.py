"""Scheduling: foreground runs share the processors, background runs get what is left.

Otherwise a few endless loops would hold every slot until their timeout and block all short runs. A run that exceeds
`FOREGROUND_SECONDS` frees its slot and continues at a lower priority, and at the lowest after
`LOWEST_PRIORITY_SECONDS`, as in an operating system's multi-level feedback queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from rstar.sandbox.parent.memory import MemoryWatch, Program
from rstar.sandbox.parent.threads import ThreadBudget

FOREGROUND_SECONDS = 0.05
"""Seconds until a run moves to the background."""

LOWEST_PRIORITY_SECONDS = 1.0
"""Seconds until a background run drops to the lowest priority."""

NICE, NICEST = 10, 19
"""Niceness of background runs: a tenth, then a sixtieth, of a foreground run's CPU share."""


class Scheduler:
    """Bounds the foreground and background runs; `memory` watches the memory of all of them, `threads` their threads.

    When the background slots are full, a run keeps its foreground slot until a background run ends.
    """

    def __init__(self, foreground: int, background: int, memory: MemoryWatch, threads: ThreadBudget) -> None:
        self.foreground, self.free_background, self.memory = asyncio.Semaphore(foreground), background, memory
        self._threads = threads

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a foreground slot."""
        await self.foreground.acquire()
        with self._threads.share() as threads:
            slot = Slot(self, threads)
            try:
                yield slot
            finally:
                slot.leave()


class Slot:
    """The slot of one run, which may have so many `threads`."""

    def __init__(self, scheduler: Scheduler, threads: int) -> None:
        self._scheduler, self.background, self._reserved = scheduler, False, False
        self._left = False
        self.threads = threads

    def leave(self) -> None:
        """Give the slot back, because the run has ended or waits for another one."""
        if self._left:
            return
        self._left = True
        if self.background:
            self._scheduler.free_background += 1
        else:
            self._scheduler.foreground.release()

    async def take(self) -> None:
        """Wait for a foreground slot again, after `leave`."""
        await self._scheduler.foreground.acquire()
        self.background = self._left = False

    def demote(self) -> bool:
        """Move to a background slot if one is free. Returns whether the run is now in the background."""
        if not self.background and self._scheduler.free_background:
            self.background = True
            self._scheduler.free_background -= 1
            self._scheduler.foreground.release()
        return self.background

    def watch(self, program: Program) -> AbstractContextManager[None]:
        """Watch the memory of the program in this slot."""
        return self._scheduler.memory.watch(program, reserved=self._reserved)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are free and reserve them; the run here is then never evicted."""
        async with self._scheduler.memory.reserve(size):
            self._reserved = True
            yield
