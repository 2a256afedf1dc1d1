"""Interpreter states: the code that produces them, the frozen processes that cache them, and the cache budget.

A state *is* its code from the start; the process that ran it is a cache. When processes are too many or too large, the
owner that holds most loses the least recently used ones. They are rebuilt by replaying their code from the nearest
ancestor with a process. A fresh interpreter has fixed seeds (`random`, `numpy.random`, string hashing), so a replay
repeats the first run. Code that reads the clock or system entropy may rebuild to different values. If a step's status
differs on every attempt, the run ends as ``killed``: the code is at fault, not the sandbox.

A fork is a true copy only of a process with one thread and no open files. Other processes are `unforkable`: a copy
would lack their threads and share their descriptors. One run continues in such a process itself; each further run
rebuilds the state.

Memory: a frozen process shares pages with its keeper and its ancestors and owns what it has written (`Pages`): 1.5 to
2 MiB after a small step, 6 MiB after solving something with sympy. Pages live until the last process that has them
ends. A tree's keeper and its template own about 3 MiB. Scratch folders in memory are counted too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from rstar.sandbox.api import CodeError, Limits, Result
from rstar.sandbox.parent.execution import Execution, Outcome
from rstar.sandbox.parent.nodes import Node, Owner, Pages, Process, Root
from rstar.sandbox.parent.pool import RunLostError, StateGoneError, Tree, UnforkableStateError, Zygote
from rstar.sandbox.parent.scheduler import Slot
from rstar.sandbox.tiers import Tier, covers

KEEPER_MEMORY = 4 << 20
"""Memory owned by a tree's keeper and its template, in bytes."""

ATTEMPTS = 3
"""Attempts per run when the sandbox loses its process."""

_CHEAP_SECONDS = 0.2


_MAX_FROZEN_THREADS, _MAX_ALL_THREADS = 256, 512
"""Extra threads allowed in the frozen processes of a tree, and of all trees. The kernel counts threads over a whole
tree, or over all of them where there are no namespaces."""

_ENOUGH_CPU = 0.9
"""A `unforkable` process is continued only if it has this share of the requested CPU time left; else it is rebuilt."""


class States:
    """Runs code from states and keeps the resulting processes within a budget.

    Args:
        zygote: gives the zygote of a tier (of another tier where its packages are missing).
        memory: budget in bytes.
        count: maximum number of processes.
        attempts: attempts per run that loses its keeper.
    """

    def __init__(
        self, zygote: Callable[[Tier], Awaitable[Zygote]], memory: int, count: int, attempts: int = ATTEMPTS
    ) -> None:
        self._zygote, self._memory, self._count, self._attempts = zygote, memory, count, attempts
        self._frozen: dict[Node, Process] = {}  # least recently used first
        self._used = 0
        self.trees: dict[Tree, Root] = {}

    @property
    def memory(self) -> int:
        """Estimated memory of the frozen processes and their keepers, in bytes."""
        return self._used + len(self.trees) * KEEPER_MEMORY

    async def run(self, node: Node, code: str, limits: Limits, tier: Tier, slot: Slot) -> tuple[Node | None, Result]:
        """Run `code` in a copy of the state `node`. Raises `SandboxError`, `RunLostError` if its keeper was lost."""
        lost: RunLostError | None = None
        deaths = 0
        node.root.running += 1
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await self._step(node, code, limits, tier, slot)
                except RunLostError as error:
                    lost = error
                    deaths += not isinstance(error, StateGoneError)
                    if deaths >= self._attempts:
                        break
        finally:
            node.root.running -= 1
            self._kill_unneeded(node)
            self._enforce_budget(self._memory)
        if isinstance(lost, StateGoneError):  # rebuilt and still not forkable: its own code's doing
            return None, Result("killed", error=CodeError("StateLost", str(lost), None))
        raise RunLostError("the keeper of a state was lost with this run") from lost

    def release(self, node: Node) -> None:
        """Drop the caller's claim on `node`: no further run starts from it."""
        if not node.released:
            node.released = True
            node.root.handles -= 1
            self._kill_unneeded(node)

    def shrink(self, size: int) -> None:
        """Free up to `size` bytes by killing the least recently used processes."""
        if size > 0:
            self._enforce_budget(self.memory - size, for_programs=True)

    def close(self) -> None:
        """Kill all processes."""
        for tree in list(self.trees):
            tree.close()

    # ---- running

    async def _step(self, node: Node, code: str, limits: Limits, tier: Tier, slot: Slot) -> tuple[Node | None, Result]:
        tree, source = await self._source(node, tier, limits, slot)
        child = Node(node.root, node, code, limits, tier, node.depth + 1)
        if source is not None and node.unforkable:
            number, do, before = source.number, "continue", source.pages[:-1]
        else:
            number, do, before = tree.link.next_id(), "run", source.pages if source else ()
        how = {"values": limits.values, "in_place": limits.in_place}
        order = _order(do, child, number, source, limits, slot) | {"how": how}
        with _busy(source):
            outcome = await self._execute(tree, order, limits, node, slot)
        child.status, child.chain_seconds = outcome.result.status, node.chain_seconds + outcome.result.seconds
        if not outcome.alive:
            return None, outcome.result
        node.root.handles += 1
        child.unforkable = outcome.unforkable
        pages = (*before, Pages(outcome.memory))
        ceiling = source.limits if source else limits
        self._attach(child, Process(tree, number, ceiling, pages, outcome.cpu, outcome.threads))
        if outcome.threads > 1:
            self._enforce_thread_limit(_MAX_FROZEN_THREADS, tree)
            self._enforce_thread_limit(_MAX_ALL_THREADS)
        return child, outcome.result

    async def _execute(self, tree: Tree, order: dict[str, Any], limits: Limits, source: Node, slot: Slot) -> Outcome:
        try:
            return await Execution(tree.link, limits, slot).outcome(order)
        except UnforkableStateError:
            source.unforkable = True
            raise
        except StateGoneError:
            self._kill(source)
            raise

    async def _source(self, node: Node, tier: Tier, limits: Limits, slot: Slot) -> tuple[Tree, Process | None]:
        """The tree to run in and the node's process, rebuilt if necessary; None for a fresh interpreter.

        The process of an `unforkable` node passes to the caller and no longer belongs to the node.
        """
        if node.parent is None:
            return await self._tree(node.root, tier), None
        async with _locked(node, slot):
            process = self._usable_process(node, tier, limits)
            if process is None:
                self._kill(node)
                process = await self._replay(node, tier, limits, slot)
            if node.unforkable:
                self._detach(node)
            else:
                self._frozen[node] = self._frozen.pop(node)  # now the most recently used
        return process.tree, process

    async def _tree(self, root: Root, tier: Tier) -> Tree:
        tree = root.trees.get(tier)
        if tree is None or not tree.link.open:
            tree = Tree(await self._zygote(tier))
            other = root.trees.get(tier)
            if other is not None and other.link.open:  # another run made one meanwhile
                tree.close()
                return other
            tree.link.on_state_lost = partial(self._on_death, tree)
            tree.link.on_close.append(partial(self._on_death, tree))
            root.trees[tier] = tree
            self.trees[tree] = root
        return tree

    def _usable_process(self, node: Node, tier: Tier, limits: Limits) -> Process | None:
        """The node's process, if it is alive, has large enough limits and covers the tier.

        A lesser tier is accepted when replaying the code would cost more than the import.
        """
        process = node.process
        if process is None or not process.tree.link.open:
            return None
        has = process.limits
        cpu = (has.whole_cpu_seconds - process.cpu) / _ENOUGH_CPU if node.unforkable else has.whole_cpu_seconds
        enough = has.memory_mb >= limits.memory_mb and has.scratch_mb >= limits.scratch_mb
        enough = enough and cpu >= limits.whole_cpu_seconds
        suits = covers(process.tree.tier, tier) or node.chain_seconds > _CHEAP_SECONDS
        return process if enough and suits else None

    async def _replay(self, node: Node, tier: Tier, limits: Limits, slot: Slot) -> Process:
        """Replay the node's code in one process, from the nearest ancestor whose process can be copied.

        Raises:
            StateGoneError: a step ended with a different status.
        """
        steps: list[Node] = []
        base, source = node, None
        room = 2 if node.unforkable else 1
        ceiling = _widened(Limits(cpu_seconds=0, memory_mb=0, scratch_mb=0), limits, room)
        while base.parent is not None and source is None:
            steps.append(base)
            ceiling = _widened(ceiling, base.limits, room)
            base = base.parent
            source = None if base.unforkable else self._usable_process(base, tier, limits)
            if source is not None and source.limits.whole_cpu_seconds < ceiling.whole_cpu_seconds:
                if node.unforkable:  # later runs continue in this process
                    source = None
                else:
                    ceiling = source.limits
        steps.reverse()
        tree = source.tree if source else await self._tree(node.root, tier)
        number = tree.link.next_id()
        process = Process(tree, number, ceiling)
        with _busy(source):
            for step in steps:
                order = _order("run" if step is steps[0] else "continue", step, number, source, ceiling, slot)
                outcome = await self._execute(tree, order, step.limits, base, slot)
                process.pages = (*(source.pages if source else ()), Pages(outcome.memory))
                process.cpu, process.threads = outcome.cpu, outcome.threads
                if outcome.result.status != step.status:
                    tree.link.send({"do": "kill", "id": number, "hard": True})
                    raise StateGoneError(
                        f"the state could not be rebuilt: its step {step.depth} ended in '{step.status}' before and"
                        f" in '{outcome.result.status}' now"
                    )
        self._attach(node, process)
        return process

    # ---- keeping

    def _kill_unneeded(self, node: Node) -> None:
        """Kill the process of a released node, and close the trees of a root without holders."""
        if node.released and not (node.process and node.process.busy):
            self._kill(node)
        root = node.root
        if not root.handles and not root.running:
            for tree in root.trees.values():
                tree.close()

    def _enforce_budget(self, memory: int, *, for_programs: bool = False) -> None:
        """Close trees without processes, then kill the least recently used process of the owner that holds most.

        So an owner loses processes only while no other has more of what is short. What is in use stays, and its owner
        gives up others when its run ends. `for_programs`: programs need the memory now, so owners with less give it up.
        A tree costs less than a replay.
        """

        def is_over() -> bool:
            return self.memory > memory or self._is_over_count()

        def holding(owner: Owner) -> int:
            if self._is_over_count():
                return owner.processes + trees[owner]
            return owner.used + trees[owner] * KEEPER_MEMORY

        def close(tree: Tree, root: Root) -> None:
            if is_over() and not alive[tree] and not root.running:
                trees[root.owner] -= 1
                tree.close()

        if not is_over():
            return
        alive = Counter(process.tree for process in self._frozen.values())
        trees = Counter(root.owner for root in self.trees.values())
        for tree, root in list(self.trees.items()):
            close(tree, root)
        owners = dict.fromkeys([*(node.root.owner for node in self._frozen), *trees])
        idle: dict[Owner, deque[Node]] = {owner: deque() for owner in owners}
        for node, process in self._frozen.items():
            if not process.busy:
                idle[node.root.owner].append(node)
        while idle and is_over():
            owner = max(idle, key=holding)  # of equals, the least recently used
            if not idle[owner]:
                if not for_programs:
                    return
                del idle[owner]
                continue
            node = idle[owner].popleft()
            if node.process is not None:
                tree = node.process.tree
                self._kill(node)
                alive[tree] -= 1
                close(tree, node.root)

    def _is_over_count(self) -> bool:
        return len(self._frozen) + len(self.trees) > self._count

    def _enforce_thread_limit(self, most: int, tree: Tree | None = None) -> None:
        """Kill idle processes with threads until at most `most` threads are left, in a tree or in all.

        As in `_enforce_budget`, the owner with most threads loses the least recently used process.
        """
        idle: dict[Owner, deque[tuple[Node, int]]] = {}
        threads: Counter[Owner] = Counter()
        for node, process in self._frozen.items():
            if process.threads > 1 and not process.busy and tree in (None, process.tree):
                idle.setdefault(node.root.owner, deque()).append((node, process.threads - 1))
                threads[node.root.owner] += process.threads - 1
        while threads.total() > most:
            owner = max(idle, key=threads.__getitem__)
            node, count = idle[owner].popleft()
            threads[owner] -= count
            self._kill(node)

    def _attach(self, node: Node, process: Process) -> None:
        node.process = self._frozen[node] = process
        node.root.owner.processes += 1
        for pages in process.pages:
            if not pages.users:
                self._charge(node, pages.size)
            pages.users += 1

    def _charge(self, node: Node, size: int) -> None:
        self._used += size
        node.root.owner.used += size

    def _kill(self, node: Node) -> None:
        """Kill a node's process. The node can be rebuilt."""
        process = self._detach(node)
        if process is not None:
            process.tree.link.send({"do": "kill", "id": process.number, "hard": True})

    def _detach(self, node: Node) -> Process | None:
        process, node.process = node.process, None
        if process is not None:
            del self._frozen[node]
            node.root.owner.processes -= 1
            for pages in process.pages:
                pages.users -= 1
                if not pages.users:
                    self._charge(node, -pages.size)
        return process

    def _on_death(self, tree: Tree, number: int | None = None) -> None:
        """The frozen process `number` has died, or (None) the whole tree has."""
        for node, process in list(self._frozen.items()):
            if process.tree is tree and number in (None, process.number):
                self._kill(node)
        if number is None:
            self.trees.pop(tree, None)


@asynccontextmanager
async def _locked(node: Node, slot: Slot) -> AsyncIterator[None]:
    """Hold the lock of a state; wait for it without a slot, because its holder may replay code for long.

    Whoever has the lock may wait for a slot, so nobody with a slot may wait for the lock. `locked` does not tell: it is
    false while the next one in the queue has not woken up.
    """
    waits = node.lock_users > 0
    node.lock_users += 1
    try:
        if waits:
            slot.leave()
        async with node.lock:
            if waits:
                await slot.take()
            yield
    finally:
        node.lock_users -= 1


@contextmanager
def _busy(process: Process | None) -> Iterator[None]:
    """Protect a process from eviction during a fork."""
    if process is not None:
        process.busy += 1
    try:
        yield
    finally:
        if process is not None:
            process.busy -= 1


def _order(do: str, node: Node, number: int, source: Process | None, limits: Limits, slot: Slot) -> dict[str, Any]:
    return {
        "do": do,
        "id": number,
        "source": source and source.number,
        "code": node.code,
        "name": node.name,
        "limits": asdict(limits),
        "threads": slot.threads,
    }


def _widened(limits: Limits, more: Limits, room: int) -> Limits:
    """Hard limits that also cover a run under `more`, with `room` times its CPU time."""
    return Limits(
        cpu_seconds=(limits.cpu_seconds or 0) + room * more.whole_cpu_seconds,
        memory_mb=max(limits.memory_mb, more.memory_mb),
        scratch_mb=max(limits.scratch_mb, more.scratch_mb),
    )
