"""The sandbox of this machine: `LocalSandbox`.

It starts one zygote per requested tier and restarts it if it dies. At most `workers` foreground runs share the
processors, beside background runs. A run has no effect outside its own process and folder, so a run lost with its
zygote is repeated. Module `states` handles states.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeVar, get_args
from weakref import WeakValueDictionary

from rstar.errors import IsolationError, SandboxError
from rstar.lifecycle import SharedContext
from rstar.sandbox import channel
from rstar.sandbox.api import Limits, Result
from rstar.sandbox.folders import temporary_folder
from rstar.sandbox.levels import LEVELS, Level
from rstar.sandbox.parent.execution import EvictedError, Execution
from rstar.sandbox.parent.memory import MemoryWatch, OversizedRunError, memory_for_programs
from rstar.sandbox.parent.nodes import Node, Owner, Root
from rstar.sandbox.parent.pool import RunLostError, TierMissingError, Zygote
from rstar.sandbox.parent.scheduler import FOREGROUND_SECONDS, Scheduler, Slot
from rstar.sandbox.parent.states import ATTEMPTS, States
from rstar.sandbox.parent.threads import ThreadBudget, threads_for_programs
from rstar.sandbox.tiers import RANKS, Tier, tier_of

T = TypeVar("T")


class LocalState:
    """See `State`. Created by `LocalSandbox.start` and `run`."""

    def __init__(self, sandbox: LocalSandbox, node: Node) -> None:
        self._sandbox, self._node = sandbox, node

    async def run(self, code: str, limits: Limits | None = None) -> tuple[LocalState | None, Result]:
        """See `State.run`."""
        node, result = await self._sandbox._run_step(self._node, code, limits)
        return (None if node is None else LocalState(self._sandbox, node)), result

    def release(self) -> None:
        """See `State.release`. Garbage collection of the handle also releases it."""
        self._sandbox._release(self._node)

    def __del__(self) -> None:
        if not self._node.released:
            self._sandbox._release_later(self._node)


class LocalSandbox(SharedContext):
    """Runs model-written code in processes of this machine. Use as ``async with LocalSandbox() as sandbox:``.

    Args:
        level: required isolation (see `levels`); never weaker than asked.
        workers: concurrent foreground runs (see `scheduler`); None for the number of processors this process may use.
        background_runs: long runs beyond those, at a low priority.
        limits: default limits of a run.
        memory_budget_mb: memory for frozen states, in MiB; beyond it, states are dropped, and rebuilt on use.
        max_states: maximum number of frozen processes, whatever their size.
        total_mb: memory of all programs and states, in MiB; None for 60% of this machine's (see `memory`).
        total_threads: threads of all programs; None for a quarter of this machine's (see `threads`).
        folder: parent of scratch folders at the weaker levels; None for the system's temporary folder.
        attempts: attempts per run that loses its zygote; after the last, `RunLostError` is raised.

    Attributes:
        total: `total_mb` in bytes.
    """

    def __init__(
        self,
        level: Level = "full",
        workers: int | None = None,
        limits: Limits | None = None,
        memory_budget_mb: int = 2_000,
        *,
        background_runs: int = 32,
        max_states: int = 512,
        total_mb: int | None = None,
        total_threads: int | None = None,
        folder: Path | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        super().__init__()
        self._attempts = attempts
        self.level: Level = level
        self.limits = limits or Limits()
        self.workers = workers or (len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1)
        self._background_runs = background_runs
        self._memory, self._max_states = memory_budget_mb << 20, max_states
        self.total = total_mb << 20 if total_mb is not None else memory_for_programs()
        self._threads = ThreadBudget(threads_for_programs() if total_threads is None else total_threads)
        self._parent_folder = folder
        self._folder: Path | None = None
        self._folders = ExitStack()
        self._is_open = False
        self._zygotes: dict[Tier, Zygote] = {}
        self._packages_missing = False
        self._owners: WeakValueDictionary[str, Owner] = WeakValueDictionary()

    async def __aenter__(self) -> Self:
        """Start, or join if already started; the sandbox closes when its last user leaves.

        Raises:
            IsolationError: this machine does not support the level.
            SandboxError: it is open in another event loop.
        """
        if self._is_open and asyncio.get_running_loop() is not self._loop:
            raise SandboxError("the sandbox is open in another event loop: use it there, or open one of your own")
        return await super().__aenter__()

    async def _open(self) -> None:
        if sys.platform != "linux":
            raise IsolationError(f"the local sandbox needs Linux, and this is {sys.platform}; use a judge service")
        if "namespaces" not in LEVELS[self.level]:
            self._folder = self._folders.enter_context(temporary_folder("rstar-sandbox-", self._parent_folder))
            self._folder.chmod(0o711)  # runs may have another uid
        self._is_open = True
        self._starting: dict[Tier, asyncio.Lock] = {tier: asyncio.Lock() for tier in get_args(Tier)}
        self._states = States(self._zygote, self._memory, self._max_states, self._attempts)
        self._memory_watch = MemoryWatch(self.total, self._states)
        self._scheduler = Scheduler(self.workers, self._background_runs, self._memory_watch, self._threads)
        try:
            await self._zygote("bare")
        except BaseException:
            await self._close()
            raise

    async def _close(self) -> None:
        self._is_open = False
        self._memory_watch.close()
        self._states.close()
        # Detached before the first await: the sandbox may be reopened meanwhile, in another event loop.
        zygotes, self._zygotes = list(self._zygotes.values()), {}
        self._folder = None
        await asyncio.gather(*(zygote.close() for zygote in zygotes))
        await asyncio.to_thread(self._folders.close)

    async def warm(self) -> None:
        """Start the interpreters of all tiers now rather than on first use."""
        await asyncio.gather(*map(self._zygote, RANKS))

    def start(self, owner: str = "") -> LocalState:
        """See `Sandbox.start`. Where states must be dropped, the `owner` that holds most loses its own first.

        Without a name, the start and its states are an owner by themselves.
        """
        held = self._owners.setdefault(owner, Owner()) if owner else Owner()
        return LocalState(self, Node(Root(held, handles=1)))

    async def run(
        self, code: str, stdin: str | None = None, limits: Limits | None = None, *, echo: bool = True
    ) -> Result:
        """See `Sandbox.run`. `stdin` None is empty input; `echo` prints the value of a last-line expression."""
        return await self._run(self._tier(code), code, stdin, limits or self.limits, echo=echo)

    async def run_driver(
        self,
        driver: str,
        stdin: str | None,
        file: int,
        limits: Limits,
        *,
        processes: int = 2,
        normal_seconds: float = FOREGROUND_SECONDS,
    ) -> Result:
        """Run trusted code that starts other programs in the same confinement; `file` is its descriptor 3.

        Memory and CPU limits apply to each program, the wall time to all together. Up to `processes` of them work one
        after the other; with more, the clock does not stop while they wait for a processor. For `normal_seconds`, they
        keep their priority.
        """
        return await self._run(
            "native", driver, stdin, limits, file, processes=processes, normal_seconds=normal_seconds
        )

    async def _run(
        self,
        tier: Tier,
        code: str,
        stdin: str | None,
        limits: Limits,
        *files: int,
        echo: bool = False,
        processes: int = 2,
        normal_seconds: float = FOREGROUND_SECONDS,
    ) -> Result:
        self._check_open()

        async def attempt(slot: Slot) -> Result:
            for _ in range(self._attempts):
                zygote = await self._zygote(tier)
                source = None if not stdin else channel.memory_file(stdin.encode(errors="surrogateescape"))
                order = {
                    "do": "run",
                    "id": zygote.link.next_id(),
                    "source": None,
                    "code": code,
                    "name": "<program>",
                    "how": {"echo": echo, "values": limits.values, "in_place": limits.in_place},
                    "limits": asdict(limits),
                    "threads": slot.threads,
                }
                try:
                    execution = Execution(
                        zygote.link,
                        limits,
                        slot,
                        starts_processes=zygote.tier == "native",
                        processes=processes,
                        normal_seconds=normal_seconds,
                    )
                    return (await execution.outcome(order, source, *files)).result
                except RunLostError:
                    pass
                finally:
                    if source is not None:
                        os.close(source)
            raise RunLostError("the zygote was lost with this run")

        return await self._in_slot(attempt, limits)

    async def _in_slot(self, work: Callable[[Slot], Awaitable[T]], limits: Limits) -> T:
        """Run `work` in a slot, and once more with reserved memory if it was evicted.

        Raises:
            OversizedRunError: the limit exceeds what all runs together may use.
            MemoryHeldError: it was evicted, and others then held the memory.
        """
        size = limits.memory_mb << 20
        if size > self.total:
            most = self.total >> 20
            raise OversizedRunError(f"memory limit of {limits.memory_mb} MB: all runs together may use {most} MB")
        async with self._scheduler.slot() as slot:
            try:
                return await work(slot)
            except EvictedError:
                slot.demote()  # lets other runs proceed
                async with slot.reserve(size):
                    return await work(slot)

    async def cpu_seconds(self) -> float:
        """CPU seconds of all processes of the sandbox so far, dead and alive."""
        links = [zygote.link for zygote in self._zygotes.values()] + [tree.link for tree in self._states.trees]
        return sum(await asyncio.gather(*(link.cpu_seconds() for link in links if link.open)))

    async def _run_step(self, node: Node, code: str, limits: Limits | None) -> tuple[Node | None, Result]:
        self._check_open()
        if node.released:
            raise SandboxError("the state has been released")
        tier = max(node.tier, self._tier(code), key=RANKS.index)
        limits = limits or self.limits
        return await self._in_slot(lambda slot: self._states.run(node, code, limits, tier, slot), limits)

    def _release(self, node: Node) -> None:
        if self._is_open:
            self._states.release(node)

    def _release_later(self, node: Node) -> None:
        """Release from the garbage collector, which may run in any thread."""
        if self._is_open and self._loop is not None:
            with suppress(RuntimeError):  # the loop, and so the sandbox, is closed
                self._loop.call_soon_threadsafe(self._release, node)

    def _tier(self, code: str) -> Tier:
        return "bare" if self._packages_missing else tier_of(code)

    async def _zygote(self, tier: Tier) -> Zygote:
        """The zygote of a tier, started if necessary; of the bare tier where the packages are missing."""
        async with self._starting[tier]:
            self._check_open()
            zygote = self._zygotes.get(tier)
            if zygote is not None:
                if zygote.link.open:
                    return zygote
                await zygote.close()
            folder = Path(tempfile.mkdtemp(prefix=f"{tier}-", dir=self._folder)) if self._folder else None
            try:
                zygote = await Zygote.start(tier, self.level, folder)
            except TierMissingError:
                self._packages_missing = True
            else:
                self._zygotes[tier] = zygote
                return zygote
        return await self._zygote("bare")

    def _check_open(self) -> None:
        if not self._is_open:
            raise SandboxError("the sandbox is not open: use `async with`")
