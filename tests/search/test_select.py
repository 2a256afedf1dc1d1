import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.models.engine import Context
from rstar.search.select import select_child, uct, unexplored
from rstar.search.tree import Node, back_up, close, fail, reopen, snapshot
from rstar.trajectories import Segment, Step

SHAPES = st.recursive(
    st.integers(1, 4), lambda trees: st.tuples(st.integers(1, 4), st.lists(trees, min_size=1, max_size=4))
)


def node(
    parent: Node | None = None, visits: int = 0, total: float = 0.0, step: Step | None = None, **extra: object
) -> Node:
    child = Node(parent, step, Context(""), None, visits=visits, total=total, **extra)  # type: ignore[arg-type]
    if parent is not None:
        parent.children += (child,)
    return child


def test_uct_by_hand() -> None:
    assert uct(3.0, 4, 10, 2.0) == pytest.approx(0.75 + 2 * math.sqrt(math.log(10) / 4))
    assert uct(0.0, 0, 10, 2.0) == math.inf
    assert uct(-2.0, 2, 1, 2.0) == -1.0


@given(st.integers(1, 50), st.integers(1, 50), st.floats(-1, 1), st.floats(0, 4))
def test_exploration_falls_with_visits_and_rises_with_the_parents(n: int, parent: int, q: float, c: float) -> None:
    assert uct(q * (n + 1), n + 1, parent, c) <= uct(q * n, n, parent, c) + 1e-9
    assert uct(q * n, n, parent + 1, c) >= uct(q * n, n, parent, c)


def test_selection() -> None:
    root = node(visits=10)
    worse, better = node(root, 5, 1.0), node(root, 5, 3.0)
    assert select_child(root, 2.0) is better
    rare = node(root, 1, 0.1)
    assert select_child(root, 2.0) is rare, "exploration"
    assert select_child(root, 0.0) is better, "no exploration"
    fresh, agreed, likelier = node(root, chance=0.1), node(root, chance=0.1, votes=2), node(root, chance=0.3)
    assert select_child(root, 2.0) is likelier
    likelier.closed = True
    assert select_child(root, 2.0) is agreed
    for child in (fresh, agreed, better, worse, rare):
        child.closed = True
    assert select_child(root, 2.0) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1, 1)), min_size=1, max_size=30))
def test_back_up_keeps_sums(values: list[tuple[int, float]]) -> None:
    """A parent's visits and total are the sums of its children's; failures are counted at the leaf alone."""
    root = node()
    chains = [node(node(node(root))) for _ in range(6)]
    for which, value in values:
        back_up(chains[which], value)
    assert root.visits == len(values)
    for inner in root.walk():
        if inner.children:
            assert inner.visits == sum(child.visits for child in inner.children)
            assert inner.total == pytest.approx(sum(child.total for child in inner.children))
    leaf = node(chains[0])
    before = root.visits
    fail(leaf)
    assert (leaf.visits, leaf.total, leaf.closed, root.visits) == (1, -1.0, True, before)


def test_closing_goes_up_only_when_all_children_are_closed() -> None:
    root = node(expanded=True)
    left, right = node(root, expanded=True), node(root, expanded=True)
    leaf = node(left)
    leaf.closed = True
    close(left)
    assert left.closed
    assert not root.closed
    close(right)
    assert root.closed


def test_a_snapshot_is_a_tree() -> None:
    root = node()
    a, b = node(root), node(root)
    node(a)
    node(b)
    nodes = snapshot(root).nodes
    assert [-1 if node.parent is None else nodes.index(node.parent) for node in nodes] == [-1, 0, 1, 0, 3]
    assert [len(node.children) for node in nodes] == [2, 1, 0, 1, 0]


@given(SHAPES)
def test_the_masses_of_all_leaves_are_one(drawn: Any) -> None:
    """However often the search came back to a place: its leaves share what the place itself has."""

    def grow(parent: Node | None, shape: Any) -> list[Node]:
        votes, below = shape if isinstance(shape, tuple) else (shape, [])
        grown = node(parent, votes=votes)
        return [leaf for inner in below for leaf in grow(grown, inner)] or [grown]

    assert sum(leaf.share for leaf in grow(None, drawn)) == pytest.approx(1.0)


def wrote(
    parent: Node, votes: int, *, text: str = "x", finish_reason: str | None = "code_error", times: int = 1
) -> Node:
    """The last of `times` new children with a step of this text, each sampled `votes` times."""
    return [
        node(parent, votes=votes, step=Step((Segment(text, "policy"),)), length=len(text), finish_reason=finish_reason)
        for _ in range(times)
    ][-1]


def test_a_tree_is_widened_where_most_is_unknown() -> None:
    """Not where samples repeat each other, not where the policy hardly ever comes, not where solutions have ended."""
    root = node(expanded=True)
    assert unexplored(root) is root
    likely, unlikely = wrote(root, 9, finish_reason=None), wrote(root, 3, finish_reason=None)
    wrote(likely, 8)
    wrote(unlikely, 1, times=4)
    assert unexplored(root) is unlikely
    wrote(likely, 1, times=4)
    assert unexplored(root) is likely


def test_a_tree_is_widened_where_samples_are_cheap() -> None:
    root = node(expanded=True)
    inner = [wrote(root, 1, text="a long beginning " * 10, finish_reason=None) for _ in range(4)]
    wrote(inner[2], 1, times=4)
    assert unexplored(root) is inner[2], "the root is four times as promising, and costs a hundred times as much"
    for child in inner:
        child.length = 1
    assert unexplored(root) is root, "a whole beginning may be one token"


def test_what_is_reopened_can_be_reached_again() -> None:
    root = node(expanded=True)
    inner, other = node(root, expanded=True), node(root, expanded=True)
    leaf = node(inner)
    fail(leaf)
    close(inner)
    close(other)
    assert root.closed
    reopen(inner)
    assert [n.closed for n in (root, inner, other, leaf)] == [False, False, True, True]
    assert not inner.expanded
    assert select_child(root, 1.0) is inner


@given(SHAPES)
def test_a_tree_is_never_widened_where_it_has_ended(drawn: Any) -> None:
    """Leaves alternate between ended and open ones."""
    ended = iter(range(10**9))

    def grow(parent: Node | None, shape: Any) -> Node:
        votes, below = shape if isinstance(shape, tuple) else (shape, [])
        grown = node(parent, votes=votes)
        for inner in below:
            grow(grown, inner)
        if parent is not None and not below and next(ended) % 2:
            grown.finish_reason = "answer"
        return grown

    root = grow(None, drawn)
    assert unexplored(root).finish_reason is None
    assert unexplored(root) in list(root.walk())
