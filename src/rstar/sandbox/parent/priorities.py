"""Scheduling: young runs share the processors, old runs get what is left.

Otherwise a few endless loops would hold every slot until their timeout and block all short runs. A run that exceeds
`PATIENCE` frees its slot and continues at a lower priority, and at the lowest after `LONG`, as in an operating
system's multi-level feedback queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from rstar.sandbox.parent.pressure import Pressure, Program

PATIENCE = 0.05
"""Seconds until a run counts as old."""

LONG = 1.0
"""Seconds until an old run drops to the lowest priority."""

NICE, NICEST = 10, 19
"""Niceness of old runs: a tenth, then a sixtieth, of a young run's CPU share."""


class Lanes:
    """Runs at most `young` young and `old` old runs at a time; `pressure` watches the memory of all of them.

    When the old slots are full, a run keeps its young slot beyond `PATIENCE` until an old run ends.
    """

    def __init__(self, young: int, old: int, pressure: Pressure) -> None:
        self._young, self._room, self.pressure = asyncio.Semaphore(young), old, pressure

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """Wait for a young slot."""
        await self._young.acquire()
        place = Place(self)
        try:
            yield place
        finally:
            place._leave()

    def _age(self) -> bool:
        if not self._room:
            return False
        self._room -= 1
        self._young.release()
        return True

    def _leave(self, *, old: bool) -> None:
        if old:
            self._room += 1
        else:
            self._young.release()


class Place:
    """The slot of one run."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes, self.old, self._reserved = lanes, False, False

    def age(self) -> bool:
        """Move to an old slot if one is free. Returns whether the run is now old."""
        self.old = self.old or self._lanes._age()
        return self.old

    def watching(self, program: Program) -> AbstractContextManager[None]:
        """Watch the memory of the program in this slot."""
        return self._lanes.pressure.watching(program, kept=self._reserved)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are free and reserve them; the run here then never gives way."""
        async with self._lanes.pressure.reserve(size):
            self._reserved = True
            yield

    def _leave(self) -> None:
        self._lanes._leave(old=self.old)
