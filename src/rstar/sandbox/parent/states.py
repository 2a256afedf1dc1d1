"""Interpreter states: running code from them, and rebuilding them.

A state *is* its code from the start; the process that ran it is a cache. When processes are too many or too large,
some are killed (see `frozen`). They are rebuilt by replaying their code from the nearest ancestor with a process. A
fresh interpreter has fixed seeds (`random`, `numpy.random`, string hashing), so a replay repeats the first run. Code
that reads the clock or system entropy may rebuild to different values. If a step's status differs on every attempt,
the run ends as ``killed``: the code is at fault, not the sandbox.

A fork is a true copy only of a process with one thread and no open files. Other processes are `unforkable`: a copy
would lack their threads and share their descriptors. One run continues in such a process itself; each further run
rebuilds the state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rstar.errors import SandboxError
from rstar.sandbox.api import CodeError, Limits, Result
from rstar.sandbox.parent.execution import Execution, Outcome
from rstar.sandbox.parent.frozen import FrozenProcesses, Node, Pages, Process, Root
from rstar.sandbox.parent.pool import RunLostError, StateGoneError, Tree, UnforkableStateError, Zygote
from rstar.sandbox.parent.scheduler import Slot
from rstar.sandbox.tiers import Tier, covers

ATTEMPTS = 3
"""Attempts per run when the sandbox loses its process."""

_CHEAP_SECONDS = 0.2
_ENOUGH_CPU = 0.9
"""A `unforkable` process is continued only if it has this share of the requested CPU time left; else it is rebuilt."""


class States:
    """Runs code from states and keeps the resulting processes within a budget.

    Args:
        zygote: gives the zygote of a tier (of another tier where its packages are missing).
        memory: budget in bytes.
        count: maximum number of processes.
    """

    def __init__(self, zygote: Callable[[Tier], Awaitable[Zygote]], memory: int, count: int) -> None:
        self._zygote = zygote
        self._frozen = FrozenProcesses(memory, count)

    @property
    def memory(self) -> int:
        """Estimated memory of the frozen processes and their keepers, in bytes."""
        return self._frozen.memory

    @property
    def trees(self) -> Iterable[Tree]:
        """The open trees."""
        return self._frozen.trees

    async def run(self, node: Node, code: str, limits: Limits, tier: Tier, slot: Slot) -> tuple[Node | None, Result]:
        """Run `code` in a copy of the state `node`. Raises `SandboxError`."""
        lost: RunLostError | None = None
        node.root.running += 1
        try:
            for _ in range(ATTEMPTS):
                try:
                    return await self._step(node, code, limits, tier, slot)
                except RunLostError as error:
                    lost = error
        finally:
            node.root.running -= 1
            self._kill_unneeded(node)
            self._frozen.enforce()
        if isinstance(lost, StateGoneError):  # rebuilt and still not forkable: its own code's doing
            return None, Result("killed", error=CodeError("StateLost", str(lost), None))
        raise SandboxError(f"a state was lost {ATTEMPTS} times in a row") from lost

    def release(self, node: Node) -> None:
        """Drop the caller's claim on `node`: no further run starts from it."""
        if not node.released:
            node.released = True
            node.root.handles -= 1
            self._kill_unneeded(node)

    def shrink(self, size: int) -> None:
        """Free up to `size` bytes by killing processes."""
        if size > 0:
            self._frozen.shrink(size)

    def close(self) -> None:
        """Kill all processes."""
        self._frozen.close()

    # ---- running

    async def _step(self, node: Node, code: str, limits: Limits, tier: Tier, slot: Slot) -> tuple[Node | None, Result]:
        tree, source = await self._source(node, tier, limits, slot)
        child = Node(node.root, node, code, limits, tier, node.depth + 1)
        if source is not None and node.unforkable:
            number, do, before = source.number, "continue", source.pages[:-1]
        else:
            number, do, before = tree.link.next_id(), "run", source.pages if source else ()
        order = _order(do, child, number, source, limits) | {"how": {"values": limits.values}}
        with _busy(source):
            outcome = await self._execute(tree, order, limits, node, slot)
        child.status, child.chain_seconds = outcome.result.status, node.chain_seconds + outcome.result.seconds
        if not outcome.alive:
            return None, outcome.result
        node.root.handles += 1
        child.unforkable = outcome.unforkable
        pages = (*before, Pages(outcome.memory))
        ceiling = source.limits if source else limits
        self._frozen.attach(child, Process(tree, number, ceiling, pages, outcome.cpu, outcome.threads))
        return child, outcome.result

    async def _execute(self, tree: Tree, order: dict[str, Any], limits: Limits, source: Node, slot: Slot) -> Outcome:
        try:
            return await Execution(tree.link, limits, slot).outcome(order)
        except UnforkableStateError:
            source.unforkable = True
            raise
        except StateGoneError:
            self._frozen.kill(source)
            raise

    async def _source(self, node: Node, tier: Tier, limits: Limits, slot: Slot) -> tuple[Tree, Process | None]:
        """The tree to run in and the node's process, rebuilt if necessary; None for a fresh interpreter.

        The process of an `unforkable` node passes to the caller and no longer belongs to the node.
        """
        if node.parent is None:
            return await self._tree(node.root, tier), None
        async with node.lock:
            process = self._usable_process(node, tier, limits)
            if process is None:
                self._frozen.kill(node)
                process = await self._replay(node, tier, limits, slot)
            if node.unforkable:
                self._frozen.detach(node)
            else:
                self._frozen.touch(node)
        return process.tree, process

    async def _tree(self, root: Root, tier: Tier) -> Tree:
        tree = root.trees.get(tier)
        if tree is None or not tree.link.open:
            tree = Tree(await self._zygote(tier))
            other = root.trees.get(tier)
            if other is not None and other.link.open:  # another run made one meanwhile
                tree.close()
                return other
            tree.link.on_state_lost = partial(self._frozen.remove, tree)
            tree.link.on_close.append(partial(self._frozen.remove_tree, tree))
            root.trees[tier] = tree
            self._frozen.add_tree(tree, root)
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
        steps: list[Node] = []  # the last one first
        base, source, needed = node, None, limits
        while base.parent is not None and source is None:
            steps.append(base)
            needed = _combined_limits(needed, base.limits)
            base = base.parent
            ceiling = replace(needed, cpu_seconds=needed.whole_cpu_seconds * (2 if node.unforkable else 1))
            source = None if base.unforkable else self._usable_process(base, tier, limits)
            if source is not None and source.limits.whole_cpu_seconds < ceiling.whole_cpu_seconds:
                if node.unforkable:  # later runs continue in this process
                    source = None
                else:
                    ceiling = source.limits
        tree = source.tree if source else await self._tree(node.root, tier)
        number = tree.link.next_id()
        process = Process(tree, number, ceiling)
        with _busy(source):
            for step in reversed(steps):
                order = _order("run" if step is steps[-1] else "continue", step, number, source, ceiling)
                outcome = await self._execute(tree, order, step.limits, base, slot)
                process.pages = (*(source.pages if source else ()), Pages(outcome.memory))
                process.cpu, process.threads = outcome.cpu, outcome.threads
                if outcome.result.status != step.status:
                    process.kill()
                    raise StateGoneError(
                        f"the state could not be rebuilt: its step {step.depth} ended in '{step.status}' before and"
                        f" in '{outcome.result.status}' now"
                    )
        self._frozen.attach(node, process)
        return process

    # ---- keeping

    def _kill_unneeded(self, node: Node) -> None:
        """Kill the process of a released node, and close the trees of a root without holders."""
        if node.released and not (node.process and node.process.busy):
            self._frozen.kill(node)
        root = node.root
        if not root.handles and not root.running:
            for tree in root.trees.values():
                tree.close()


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


def _order(do: str, node: Node, number: int, source: Process | None, limits: Limits) -> dict[str, Any]:
    return {
        "do": do,
        "id": number,
        "source": source and source.number,
        "code": node.code,
        "name": node.name,
        "limits": asdict(limits),
    }


def _combined_limits(first: Limits, second: Limits) -> Limits:
    """Hard limits of a process that runs under both, one after the other."""
    return Limits(
        cpu_seconds=first.whole_cpu_seconds + second.whole_cpu_seconds,
        memory_mb=max(first.memory_mb, second.memory_mb),
        scratch_mb=max(first.scratch_mb, second.scratch_mb),
    )
