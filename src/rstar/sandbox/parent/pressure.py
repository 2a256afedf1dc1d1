"""Keeps the memory of all programs together under a bound.

The kernel limits each process alone, and the limits of all programs may add up to more than the machine has, because
few programs use theirs. So programs are watched as soon as they could exceed the bound. When they do, frozen states go
first: they are only caches. Then programs are killed, old before young (see `priorities`), largest first. A program
killed for this reason is run again once its full limit can be reserved, and is not killed a second time.

Memory is counted here rather than by a control group: few containers may create one, and the kernel would choose the
victim. A program can exceed the bound by what it writes between two checks.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from rstar.errors import SandboxError
from rstar.sandbox.parent.pool import LostError

_LOOK_SECONDS = 0.1
_SHARE = 0.6
_WITH_TABLES = 3
"""Page tables can take twice what a program may map: an isolated small mapping needs two more pages."""
_WARM = 128 << 20
"""Memory of a warm interpreter, which is not the program's own but may be counted."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_LOG = logging.getLogger("rstar.sandbox")


class TooMuchError(SandboxError):
    """A run asks for more memory than all programs together may use; it can never run here."""


class Program(Protocol):
    """A run as seen by the memory watch.

    Attributes:
        most: address-space limit, in bytes.
        beside: scratch-folder limit, in bytes.
        group: it may start processes, each with the same limit, so it is always watched.
    """

    most: int
    beside: int
    group: bool

    @property
    def old(self) -> bool:
        """It is a long run (see `priorities`)."""
        ...

    async def usage(self) -> int:
        """Current memory use in bytes. Raises `LostError`."""
        ...

    def give_way(self) -> None:
        """Kill it because other programs need the memory."""
        ...

    def exceed(self) -> None:
        """Kill it because it exceeds its own limit."""
        ...


class Caches(Protocol):
    """Memory that can be reclaimed."""

    @property
    def memory(self) -> int:
        """Size in bytes."""
        ...

    def shrink(self, size: int) -> None:
        """Free `size` bytes, or everything if there is less."""
        ...


class Pressure:
    """Watches memory; see the module docstring.

    Args:
        total: the bound, in bytes.
        caches: freed first.
    """

    def __init__(self, total: int, caches: Caches) -> None:
        self.total, self._caches = total, caches
        self._programs: dict[Program, int] = {}  # with their last usage, in bytes
        self._kept: set[Program] = set()
        self._reserved = 0
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, program: Program, *, kept: bool = False) -> Iterator[None]:
        """Count a program while it runs. `kept`: its limit is reserved, so it never gives way."""
        if kept:
            self._kept.add(program)
        else:
            self._programs[program] = 0
        if self._looking is None and (kept or program.group or self._could_exceed()):
            self._looking = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            self._programs.pop(program, None)
            self._kept.discard(program)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` more bytes are free and reserve them for a program that must not give way.

        Several reservations together may take half of the memory; the rest is for other programs.
        """
        while (self._programs or self._reserved) and not self._has_room(size):
            self._caches.shrink(self._used() + size - self.total)
            await asyncio.sleep(_LOOK_SECONDS)
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def _has_room(self, size: int) -> bool:
        together = self._reserved + size if self._reserved else 0
        return self._used() + size <= self.total and together <= self.total // 2

    def close(self) -> None:
        """Stop watching."""
        if self._looking is not None:
            self._looking.cancel()

    def _could_exceed(self) -> bool:
        most = sum(_WITH_TABLES * program.most + program.beside for program in self._programs)
        return self._caches.memory + self._reserved + most > self.total

    def _used(self) -> int:
        return self._caches.memory + self._reserved + sum(self._programs.values())

    async def _watch(self) -> None:
        try:
            while self._kept or any(program.group for program in self._programs) or self._could_exceed():
                await asyncio.sleep(_LOOK_SECONDS)
                await asyncio.gather(*map(self._count, [*self._programs, *self._kept]))
                self._relieve()
        finally:
            self._looking = None

    async def _count(self, program: Program) -> None:
        with suppress(LostError):
            used = await program.usage()
            most = program.most if program.group else program.most + program.beside + _WARM
            if (program.group or program in self._kept) and used > most:
                program.exceed()
            if program in self._programs:
                self._programs[program] = used

    def _relieve(self) -> None:
        """Free caches and kill the least important programs until the rest is under the bound."""
        self._caches.shrink(self._used() - self.total)
        programs = {program: used for program, used in self._programs.items() if used}
        for program in sorted(programs, key=lambda one: (one.old, programs[one]), reverse=True):
            if (used := self._used()) <= self.total:
                return
            _LOG.warning(
                "all programs together use %d MB of %d: one that uses %d MB is ended and done again later",
                used >> 20, self.total >> 20, programs[program] >> 20,
            )  # fmt: skip
            program.give_way()
            self._programs[program] = 0


def machine_share() -> int:
    """Default memory bound: this machine's share for programs, in bytes."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # missing, or unlimited
            size = min(size, int(Path(name).read_text()))
    return int(size * _SHARE)
