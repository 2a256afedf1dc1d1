"""Records of `states`: interpreter states, their frozen processes, and who holds them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from rstar.sandbox.api import Limits
from rstar.sandbox.parent.pool import Tree
from rstar.sandbox.tiers import Tier


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


@dataclass(eq=False, slots=True, weakref_slot=True)
class Owner:
    """Holder of states, for a fair eviction: the number of its frozen processes, and their memory in bytes."""

    processes: int = 0
    used: int = 0


@dataclass(eq=False, slots=True)
class Root:
    """Shared by all states of one fresh start: owner, trees, number of runs, number of unreleased states."""

    owner: Owner = field(default_factory=Owner)
    trees: dict[Tier, Tree] = field(default_factory=dict)
    running: int = 0
    handles: int = 0


@dataclass(eq=False, slots=True)
class Node:
    """A state: `code` run from the state `parent` (None for a fresh interpreter).

    Attributes:
        chain_seconds: total run time of the code from the start.
        unforkable: its process cannot be copied; see `states`.
        lock: of a run that takes or rebuilds the process.
        lock_users: runs that hold the lock or wait for it.
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
    lock_users: int = 0

    @property
    def name(self) -> str:
        """File name of its code in tracebacks."""
        return f"<step {self.depth}>"
