"""Keeps the memory of all programs together under a bound.

The kernel limits each process alone, and the limits of all programs may add up to more than the machine has, because
few programs use theirs. So programs are watched as soon as they could exceed the bound. When they do, frozen states go
first: they are only caches. Then programs are evicted, background runs before foreground runs (see `scheduler`), the
largest first. An evicted program runs again once its full limit can be reserved, and is not evicted a second time.
Evicted programs are served in turn: a large one is not passed by smaller ones. If the first of them has waited
`_PATIENCE_SECONDS`, others are evicted for it, or new programs could hold the memory for good. One that has waited
`MAX_WAIT_SECONDS` since the last of them was served gives up.

Memory is counted here rather than by a control group: few containers may create one, and the kernel would choose the
victim. A program can exceed the bound by what it writes between two checks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from rstar.errors import SandboxError
from rstar.sandbox.parent.pool import RunLostError

_POLL_SECONDS = 0.1
_DEFAULT_SHARE = 0.6
_PAGE_TABLE_FACTOR = 3
"""Page tables can take twice what a program may map: an isolated small mapping needs two more pages."""
_WARM_BYTES = 128 << 20
"""Memory of a warm interpreter, which is not the program's own but may be counted."""

_PATIENCE_SECONDS = 5.0
MAX_WAIT_SECONDS = 120.0
"""Longest wait for memory while no waiting program is served; the time limit of most programs is far below."""

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_HELD = (
    "the program was terminated because all programs together used too much memory, and the {} MB that it may use did"
    " not become free within {:g} s: other programs hold the {} MB that all programs together may use"
)
_LOG = logging.getLogger("rstar.sandbox")


class OversizedRunError(SandboxError):
    """A run asks for more memory than all programs together may use; it can never run here."""


class MemoryHeldError(SandboxError):
    """A program was evicted, and the memory it needs did not become free in time."""


class Program(Protocol):
    """A run as seen by the memory watch.

    Attributes:
        memory_limit: address-space limit, in bytes.
        scratch_limit: scratch-folder limit, in bytes.
        starts_processes: it may start processes, each with the same limit, so it is always watched.
    """

    memory_limit: int
    scratch_limit: int
    starts_processes: bool

    @property
    def background(self) -> bool:
        """It is a background run (see `scheduler`)."""
        ...

    async def usage(self) -> int:
        """Current memory use in bytes. Raises `RunLostError`."""
        ...

    def evict(self) -> None:
        """Kill it because other programs need the memory."""
        ...

    def end_over_limit(self) -> None:
        """Kill it because it exceeds its own limit."""
        ...


class Cache(Protocol):
    """Memory that can be reclaimed."""

    @property
    def memory(self) -> int:
        """Size in bytes."""
        ...

    def shrink(self, size: int) -> None:
        """Free `size` bytes, or everything if there is less."""
        ...


class MemoryWatch:
    """Watches memory; see the module docstring.

    Args:
        total: the bound, in bytes.
        cache: freed first.
    """

    def __init__(self, total: int, cache: Cache) -> None:
        self.total, self._cache = total, cache
        self._programs: dict[Program, int] = {}  # with their last usage, in bytes
        self._with_reservation: set[Program] = set()
        self._reserved = 0
        self._turns: deque[object] = deque()
        self._served_at = 0.0
        self._watcher: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, program: Program, *, reserved: bool = False) -> Iterator[None]:
        """Count a program while it runs. `reserved`: its limit is reserved, so it is never evicted."""
        if reserved:
            self._with_reservation.add(program)
        else:
            self._programs[program] = 0
        if self._watcher is None and (reserved or program.starts_processes or self._could_exceed()):
            self._watcher = asyncio.create_task(self._watch_programs())
        try:
            yield
        finally:
            self._programs.pop(program, None)
            self._with_reservation.discard(program)

    @asynccontextmanager
    async def reserve(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` more bytes are free and reserve them for a program that must not be evicted.

        Several reservations together may take half of the memory; the rest is for other programs.

        Raises:
            MemoryHeldError: no reservation became possible for `MAX_WAIT_SECONDS`.
        """
        turn, since = object(), time.monotonic()
        patient_until = math.inf
        self._turns.append(turn)
        try:
            while turn is not self._turns[0] or ((self._programs or self._reserved) and not self._fits(size)):
                if time.monotonic() - max(since, self._served_at) > MAX_WAIT_SECONDS:
                    raise MemoryHeldError(_HELD.format(size >> 20, MAX_WAIT_SECONDS, self.total >> 20))
                if turn is self._turns[0]:
                    patient_until = min(patient_until, time.monotonic() + _PATIENCE_SECONDS)
                    self._cache.shrink(self._used() + size - self.total)
                    if time.monotonic() >= patient_until and self._may_reserve(size):
                        self._evict_programs(self.total - size)
                await asyncio.sleep(_POLL_SECONDS)
            self._served_at = time.monotonic()
        finally:
            self._turns.remove(turn)
        self._reserved += size
        try:
            yield
        finally:
            self._reserved -= size

    def _fits(self, size: int) -> bool:
        return self._used() + size <= self.total and self._may_reserve(size)

    def _may_reserve(self, size: int) -> bool:
        return not self._reserved or self._reserved + size <= self.total // 2

    def close(self) -> None:
        """Stop watching."""
        if self._watcher is not None:
            self._watcher.cancel()

    def _could_exceed(self) -> bool:
        limits = sum(_PAGE_TABLE_FACTOR * program.memory_limit + program.scratch_limit for program in self._programs)
        return self._cache.memory + self._reserved + limits > self.total

    def _used(self) -> int:
        return self._cache.memory + self._reserved + sum(self._programs.values())

    async def _watch_programs(self) -> None:
        try:
            while self._with_reservation or any(run.starts_processes for run in self._programs) or self._could_exceed():
                await asyncio.sleep(_POLL_SECONDS)
                await asyncio.gather(*map(self._measure, [*self._programs, *self._with_reservation]))
                self._free_memory()
        finally:
            self._watcher = None

    async def _measure(self, program: Program) -> None:
        with suppress(RunLostError):
            used = await program.usage()
            limit = program.memory_limit + (0 if program.starts_processes else program.scratch_limit + _WARM_BYTES)
            if (program.starts_processes or program in self._with_reservation) and used > limit:
                program.end_over_limit()
            if program in self._programs:
                self._programs[program] = used

    def _free_memory(self) -> None:
        """Shrink the cache and evict the least important programs until the rest is under the bound."""
        self._cache.shrink(self._used() - self.total)
        self._evict_programs(self.total)

    def _evict_programs(self, bound: int) -> None:
        programs = {program: used for program, used in self._programs.items() if used}
        for program in sorted(programs, key=lambda program: (program.background, programs[program]), reverse=True):
            if (used := self._used()) <= bound:
                return
            _LOG.warning(
                "programs use %d MB, and may use %d MB together: terminating one that uses %d MB; it runs again later",
                used >> 20, bound >> 20, programs[program] >> 20,
            )  # fmt: skip
            program.evict()
            self._programs[program] = 0


def memory_for_programs() -> int:
    """Default memory bound: this machine's share for programs, in bytes."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # missing, or unlimited
            size = min(size, int(Path(name).read_text()))
    return int(size * _DEFAULT_SHARE)
