"""Who runs now: young runs share the processors, old ones take what these leave.

A few endless loops would otherwise hold every place until their time is up, and all short runs would wait for them. So
a run that takes longer than `PATIENCE` gives its place to the next one and goes on at a lower priority, and at the
lowest after `LONG`, as in the multi-level feedback queues of operating systems.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from rstar.sandbox.parent.pressure import Pressure, Program

PATIENCE = 0.05
"""Seconds after which a run is old."""

LONG = 1.0
"""Seconds after which an old run has the lowest priority."""

NICE, NICEST = 10, 19
"""Priorities of old runs: a tenth of a young one's share of a processor, and a sixtieth."""


class Lanes:
    """At most `young` young runs at a time, and `old` others.

    When there are that many old ones, a run keeps its place beyond `PATIENCE`, until one of them has ended.

    `pressure` watches the memory of all of them.
    """

    def __init__(self, young: int, old: int, pressure: Pressure) -> None:
        self._young, self._room, self.pressure = asyncio.Semaphore(young), old, pressure

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """Wait for a place among the young."""
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
    """The place of one run."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes, self.old, self._reserved = lanes, False, False

    def age(self) -> bool:
        """Give the place among the young away, if there is room among the old. Returns whether the run is old now."""
        self.old = self.old or self._lanes._age()
        return self.old

    def watching(self, program: Program) -> AbstractContextManager[None]:
        """Have the memory of a program watched that runs here."""
        return self._lanes.pressure.watching(program, kept=self._reserved)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until so many bytes are free; what runs here then may use them and need not give way."""
        async with self._lanes.pressure.reserve(size):
            self._reserved = True
            yield

    def _leave(self) -> None:
        self._lanes._leave(old=self.old)
