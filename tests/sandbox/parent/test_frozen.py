"""Frozen processes stay within their bounds, and no owner of states suffers for what another one holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.sandbox import Limits, LocalSandbox
from rstar.sandbox.parent import frozen
from rstar.sandbox.parent.frozen import KEEPER_MEMORY, FrozenProcesses, Node, Pages, Process, Root
from tests.sandbox.parent.test_states import TAKES_THREADS, with_sandbox


@dataclass(eq=False)
class Tree:
    """A tree of no processes."""

    cache: FrozenProcesses
    link: Any = field(default_factory=lambda: SimpleNamespace(send=lambda message: None))

    def close(self) -> None:
        self.cache.remove_tree(cast(Any, self))


def add(cache: FrozenProcesses, owner: str, size: int = 1, threads: int = 1) -> Node:
    """A state in a tree of its own."""
    root, tree = Root(owner), cast(Any, Tree(cache))
    cache.add_tree(tree, root)
    node = Node(root)
    cache.attach(node, Process(tree, 1, Limits(), (Pages(size),), threads=threads))
    return node


OWNERS = st.lists(st.sampled_from("aaaaaaaabbc"), min_size=1, max_size=80)


@given(OWNERS, st.integers(1, 40))
def test_an_owner_loses_nothing_up_to_an_equal_share(owners: list[str], bound: int) -> None:
    cache, nodes = FrozenProcesses(1 << 40, bound), []
    for owner in owners:
        nodes.append(add(cache, owner))
        cache.enforce()
    assert len(cache) + len(cache.trees) <= bound
    made, kept = (Counter(node.root.owner for node in nodes if node.process or count) for count in (True, False))
    for owner in made:
        if 2 * made[owner] <= bound // len(made):
            assert kept[owner] == made[owner]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(1, 5)), max_size=60), st.data())
def test_amounts_add_up(made: list[tuple[str, int, int]], data: st.DataObject) -> None:
    cache = FrozenProcesses(1 << 40, 1_000)
    nodes = [add(cache, *each) for each in made]
    for node in data.draw(st.lists(st.sampled_from(nodes), unique=True)) if nodes else ():
        cache.kill(node)
    alive = [node.process for node in nodes if node.process is not None]
    assert cache.memory == sum(process.pages[0].size for process in alive) + len(made) * KEEPER_MEMORY
    assert cache._count.total == len(alive) + len(made)
    assert cache._threads.total == sum(process.threads - 1 for process in alive)


def test_threads_of_all_trees_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have threads go, the least recently used first."""
    cache = FrozenProcesses(1 << 40, 1_000)
    without = add(cache, "a")
    monkeypatch.setattr(cache._threads, "bound", 25)
    nodes = [add(cache, "a", threads=11) for _ in range(4)]
    cache.enforce()
    assert [node.process is not None for node in (without, *nodes)] == [True, False, False, True, True]


def test_states_with_threads_of_many_solutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "_MAX_THREADS", 100)

    async def work(sandbox: LocalSandbox) -> tuple[int, int]:
        found = [await sandbox.start().run(TAKES_THREADS.format(most=40)) for _ in range(6)]
        assert all(state for state, _ in found)
        return sandbox._states._frozen._threads.total, len(sandbox._states._frozen)

    assert with_sandbox(work) == (80, 2)


def test_states_of_one_owner_push_out_none_of_another() -> None:
    async def work(sandbox: LocalSandbox) -> tuple[list[str], list[str]]:
        code = "import os\nx = os.urandom(8)\nprint(x)"
        mine = [await sandbox.start("me").run(code) for _ in range(2)]
        others = [await sandbox.start("other").run(code) for _ in range(12)]
        await asyncio.gather(*(state.run(code) for state, _ in others if state))
        shown = [(await state.run("print(x)"))[1].stdout for state, _ in mine if state]
        return [result.stdout for _, result in mine], shown

    made, shown = with_sandbox(work, max_states=10)
    assert made == shown
