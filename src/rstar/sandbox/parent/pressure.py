"""The memory of all programs together, kept under a bound.

The kernel limits each process by itself, and many programs are allowed more together than a machine has, because few
use what they may. So they are watched as soon as they could exceed the bound. When they do, frozen states go first,
which are only caches; then the programs that matter least: old ones before young ones (see `lanes`), and of these the
largest. A program that had to go has done nothing wrong. It is done again as soon as all that it may use is free, and
then stays.

Own counts rather than a control group: few containers may make one, and the kernel would end whom it likes. A program
can exceed the bound by what it writes between two looks.
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
"""Page tables can take twice what a program may map: a small map that lies by itself needs two further pages."""
_WARM = 128 << 20
"""What a warm interpreter has, which is not a program's own but may be counted."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_LOG = logging.getLogger("rstar.sandbox")


class TooMuchError(SandboxError):
    """A run asks for more memory than all together may use: it can never be done here."""


class Program(Protocol):
    """A run, as far as its memory is concerned.

    Attributes:
        most: what it may map, in bytes.
        beside: what its scratch folder may have, in bytes.
        group: it may start processes, each of which may use as much, and must be watched for that alone.
    """

    most: int
    beside: int
    group: bool

    @property
    def old(self) -> bool:
        """It has taken long."""
        ...

    async def usage(self) -> int:
        """What it uses now, in bytes. Raises `LostError`."""
        ...

    def give_way(self) -> None:
        """End it, because others need the memory."""
        ...

    def exceed(self) -> None:
        """End it, because it uses more than it may."""
        ...


class Caches(Protocol):
    """Memory that can be had back."""

    @property
    def memory(self) -> int:
        """How much it is, in bytes."""
        ...

    def shrink(self, size: int) -> None:
        """Give so much back, or all."""
        ...


class Pressure:
    """See the module.

    Args:
        total: the bound, in bytes.
        caches: what goes first.
    """

    def __init__(self, total: int, caches: Caches) -> None:
        self.total, self._caches = total, caches
        self._programs: dict[Program, int] = {}  # and their last counts
        self._kept: set[Program] = set()
        self._reserved = 0
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, program: Program, *, kept: bool = False) -> Iterator[None]:
        """Count a program as long as it runs. `kept`: what it may use is reserved, so it gives way to nobody."""
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
        """Wait until `size` bytes more may be used, and keep them for a program that is not to give way.

        Several together may have half of the memory: the rest is for the others.
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
        """End what matters least, until the rest is under the bound."""
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
    """The part of this machine's memory that programs may use where nothing else is said, in bytes."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # not there, or without a limit
            size = min(size, int(Path(name).read_text()))
    return int(size * _SHARE)
