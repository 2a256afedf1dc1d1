"""Frozen processes: the cache behind interpreter states, kept within bounds of memory, number and threads.

Every owner of states may use what no other owner needs. When a bound is exceeded, the least recently used process goes,
of the owners that hold more than an equal share of the bound. So an owner with few states keeps them, however many
states others make.

Memory: a frozen process shares pages with its keeper and its ancestors and owns what it has written (`Pages`): 1.5 to
2 MiB after a small step, 6 MiB after solving something with sympy. Pages live until the last process that has them
ends. A tree's keeper owns about 2 MiB, its template 1 MiB. Scratch folders in memory are counted too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from rstar.sandbox.api import Limits
from rstar.sandbox.parent.pool import Tree
from rstar.sandbox.tiers import Tier

KEEPER_MEMORY = 4 << 20
"""Memory owned by a tree's keeper and its template, in bytes."""

_MAX_TREE_THREADS, _MAX_THREADS = 256, 2_048
"""Extra threads allowed in the frozen processes of a tree, over which the kernel counts them, and of all trees."""


@dataclass(eq=False, slots=True)
class Pages:
    """Memory written by a process, in bytes, and the number of processes that share it."""

    size: int
    users: int = 0


@dataclass(eq=False, slots=True)
class Process:
    """A frozen process.

    Attributes:
        tree: the tree it belongs to.
        number: its number in that tree.
        limits: its hard limits.
        pages: the pages of its ancestors at the time of the fork, then its own.
        cpu: CPU seconds used.
        threads: number of threads.
        busy: runs being forked from it.
    """

    tree: Tree
    number: int
    limits: Limits
    pages: tuple[Pages, ...] = ()
    cpu: float = 0.0
    threads: int = 1
    busy: int = 0

    def kill(self) -> None:
        """Ask its keeper to kill it."""
        self.tree.link.send({"do": "kill", "id": self.number, "hard": True})


@dataclass(eq=False, slots=True)
class Root:
    """Shared by all states of one fresh start.

    Attributes:
        owner: shares the bounds with other owners.
        trees: by tier.
        running: number of runs.
        handles: number of unreleased states.
    """

    owner: str = ""
    trees: dict[Tier, Tree] = field(default_factory=dict)
    running: int = 0
    handles: int = 0


@dataclass(eq=False, slots=True)
class Node:
    """A state: `code` run from the state `parent` (None for a fresh interpreter).

    Attributes:
        chain_seconds: run time of its code and of all code before it.
        unforkable: its process cannot be copied; see `states`.
    """

    root: Root
    parent: Node | None = None
    code: str = ""
    limits: Limits = field(default_factory=Limits)
    tier: Tier = "bare"
    depth: int = 0
    status: str = "ok"
    chain_seconds: float = 0.0
    process: Process | None = None
    unforkable: bool = False
    released: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """File name of its code in tracebacks."""
        return f"<step {self.depth}>"


class _Shares:
    """Amounts of one resource, by owner, and the bound of their sum."""

    def __init__(self, bound: int) -> None:
        self.bound, self.total = bound, 0
        self._held: Counter[str] = Counter()

    def add(self, owner: str, amount: int) -> None:
        """Change an owner's amount."""
        self.total += amount
        self._held[owner] += amount
        if not self._held[owner]:
            del self._held[owner]

    def owners_above(self, bound: int) -> set[str]:
        """The owners that hold more than an equal share of `bound`."""
        return {owner for owner, amount in self._held.items() if amount * len(self._held) > bound}


class FrozenProcesses:
    """The frozen processes of all states, and their trees.

    Args:
        memory: bound in bytes.
        count: maximum number of processes and trees.
    """

    def __init__(self, memory: int, count: int) -> None:
        self._processes: dict[Node, Process] = {}  # least recently used first
        self.trees: dict[Tree, Root] = {}
        self._memory, self._count, self._threads = _Shares(memory), _Shares(count), _Shares(_MAX_THREADS)

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def memory(self) -> int:
        """Estimated memory of the processes and of the keepers, in bytes."""
        return self._memory.total

    def add_tree(self, tree: Tree, root: Root) -> None:
        """Count a new tree."""
        self.trees[tree] = root
        self._count_tree(root, 1)

    def remove_tree(self, tree: Tree) -> None:
        """Forget a tree that has ended, and its processes."""
        self.remove(tree)
        root = self.trees.pop(tree, None)
        if root is not None:
            self._count_tree(root, -1)

    def _count_tree(self, root: Root, sign: int) -> None:
        self._memory.add(root.owner, sign * KEEPER_MEMORY)
        self._count.add(root.owner, sign)

    def attach(self, node: Node, process: Process) -> None:
        """Make a process the cache of a state."""
        node.process = self._processes[node] = process
        self._count_process(node, process, 1)
        if process.threads > 1:
            self._limit_threads(process.tree)

    def detach(self, node: Node) -> Process | None:
        """Take a state's process away. The state can be rebuilt."""
        process, node.process = node.process, None
        if process is not None:
            del self._processes[node]
            self._count_process(node, process, -1)
        return process

    def _count_process(self, node: Node, process: Process, sign: int) -> None:
        owner, size = node.root.owner, 0
        for pages in process.pages:
            alone = not pages.users if sign > 0 else pages.users == 1
            pages.users += sign
            size += pages.size if alone else 0
        self._memory.add(owner, sign * size)
        self._count.add(owner, sign)
        self._threads.add(owner, sign * (process.threads - 1))

    def touch(self, node: Node) -> None:
        """Make a state's process the most recently used one."""
        self._processes[node] = self._processes.pop(node)

    def kill(self, node: Node) -> None:
        """Kill a state's process. The state can be rebuilt."""
        process = self.detach(node)
        if process is not None:
            process.kill()

    def remove(self, tree: Tree, number: int | None = None) -> None:
        """Kill a tree's process `number`, or (None) all its processes."""
        for node, process in list(self._processes.items()):
            if process.tree is tree and number in (None, process.number):
                self.kill(node)

    def enforce(self) -> None:
        """Evict until all bounds hold, except for what is in use now."""
        for shares in (self._memory, self._count, self._threads):
            while shares.total > shares.bound and self._evict(shares, shares.owners_above(shares.bound)):
                pass

    def shrink(self, size: int) -> None:
        """Evict until the memory is `size` bytes less, as far as possible: programs need it."""
        bound, shares = self.memory - size, self._memory
        while self.memory > bound:
            if not self._evict(shares, shares.owners_above(bound)) and not self._evict(shares, None):
                return

    def _evict(self, shares: _Shares, owners: set[str] | None) -> bool:
        """Close a tree without processes, or else kill the least recently used process, of `owners` (None: of all).

        Returns False if there is none. A process that is being forked stays, and so does a tree in which code runs.
        """
        in_threads = shares is self._threads
        used = {process.tree for process in self._processes.values()}
        for tree, root in () if in_threads else self.trees.items():
            if tree not in used and not root.running and (owners is None or root.owner in owners):
                tree.close()
                return True
        for node, process in self._processes.items():
            if not process.busy and process.threads > in_threads and (owners is None or node.root.owner in owners):
                self.kill(node)
                return True
        return False

    def _limit_threads(self, tree: Tree) -> None:
        """Kill a tree's least recently used processes while their threads leave too few for running code."""
        idle = [(node, process) for node, process in self._processes.items() if process.tree is tree]
        idle = [(node, process) for node, process in idle if not process.busy]
        threads = sum(process.threads - 1 for _, process in idle)
        for node, process in idle:
            if threads <= _MAX_TREE_THREADS:
                return
            threads -= process.threads - 1
            self.kill(node)

    def close(self) -> None:
        """Kill all processes."""
        for tree in list(self.trees):
            tree.close()
