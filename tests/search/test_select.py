from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.models.engine import Context
from rstar.search.select import descend, puct, select_arm
from rstar.search.tree import Node, back_up, close, snapshot
from rstar.trajectories import Step

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


def test_puct_by_hand() -> None:
    assert puct(0.75, 0.4, 3, 16, 2.0) == pytest.approx(0.75 + 2 * 0.4 * 4 / 4)
    assert puct(-1.0, 1.0, 0, 0, 0.5) == -0.5, "the first selection counts as a visit of the parent"


@given(st.integers(0, 50), st.integers(1, 50), st.floats(-1, 1), st.floats(0, 1), st.floats(0, 4))
def test_exploration_falls_with_visits_and_rises_with_the_parents(
    n: int, parent: int, q: float, prior: float, c: float
) -> None:
    assert puct(q, prior, n + 1, parent, c) <= puct(q, prior, n, parent, c)
    assert puct(q, prior, n, parent + 1, c) >= puct(q, prior, n, parent, c)


def test_a_node_without_children_is_sampled() -> None:
    assert select_arm(node(), 1.0) is None


def test_selection_among_children() -> None:
    root = node(visits=10, total=4.0, expansions=1)
    worse, better = node(root, 5, 1.0, probability=0.5), node(root, 5, 3.0, probability=0.5)
    assert select_arm(root, 1.0) is better
    worse.visits, worse.total = 1, 0.2
    assert select_arm(root, 2.0) is worse, "exploration"
    assert select_arm(root, 0.0) is better, "no exploration"
    better.closed = True
    assert select_arm(root, 0.0) is worse


def test_the_likelier_of_two_unvisited_children_comes_first() -> None:
    root = node(visits=1, expansions=2)
    node(root, probability=0.3)
    likelier = node(root, probability=0.6)
    assert select_arm(root, 1.0) is likelier


def test_new_steps_are_sampled_where_the_policy_is_undecided() -> None:
    for probability, sampled in [(0.99, False), (0.6, True)]:
        root = node(visits=4, total=2.0, expansions=1)
        child = node(root, 4, 2.0, probability=probability)
        assert select_arm(root, 1.0) is (None if sampled else child)


def test_new_steps_are_sampled_where_the_known_ones_look_bad() -> None:
    root = node(visits=20, total=0.0, expansions=1)
    node(root, 10, -8.0, probability=0.45)
    good = node(root, 10, 8.0, probability=0.45)
    assert select_arm(root, 0.2) is good
    good.total, root.total = -8.0, -16.0
    assert select_arm(root, 0.2) is None


def test_long_steps_do_not_keep_the_search_at_the_root() -> None:
    """Their probabilities are next to nothing, so nearly everything is unseen, however much was sampled."""
    root = node(visits=8, total=4.0, expansions=8)
    for _ in range(8):
        node(root, 1, 0.5, probability=1e-12)
    assert root.unseen > 0.9
    assert root.shares == [1 / 8] * 8
    assert select_arm(root, 1.0) is root.children[0]


def test_descents_at_the_same_time_go_to_different_places() -> None:
    root = node(visits=3, total=1.5, expansions=1)
    first, second = node(root, 1, 0.5, probability=0.5), node(root, 1, 0.4, probability=0.4)
    closed = node(root, probability=0.05, closed=True)
    before = [(one.visits, one.total, one.expansions) for one in root.walk()]
    assert descend([root], 1.0) == [first]
    assert descend([root, root, closed], 1.0) == [first, second]
    assert [(one.visits, one.total, one.expansions) for one in root.walk()] == before


def test_a_node_is_exhausted_when_nothing_else_is_probable() -> None:
    root = node(expansions=1)
    child = node(root, probability=0.9995, closed=True)
    assert root.exhausted
    child.probability = 0.99
    assert not root.exhausted
    assert select_arm(root, 1.0) is None
    child.closed = False
    child.probability = 1.0
    assert not root.exhausted
    assert select_arm(root, 1.0) is child


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 0.16) | st.none()), min_size=1, max_size=6))
def test_shares_and_what_is_unseen(drawn: list[tuple[int, float | None]]) -> None:
    root = node()
    assert root.unseen == 1.0
    for votes, probability in drawn:
        node(root, votes=votes, probability=probability)
    known = sum(probability or 0.0 for _, probability in drawn)
    assert 0 < sum(root.shares) <= 1 + 1e-9
    if known >= 0.5:
        assert root.shares == [child.probability or 0.0 for child in root.children]
        assert root.unseen == pytest.approx(1 - known)
    else:
        assert sum(root.shares) == pytest.approx(1)
        assert 0 < root.unseen < 1
        assert (root.unseen > 0.5) or any(votes > 1 for votes, _ in drawn)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1, 1)), min_size=1, max_size=30))
def test_back_up_keeps_sums(values: list[tuple[int, float]]) -> None:
    """A parent's visits and total are the sums of its children's."""
    root = node()
    chains = [node(node(node(root))) for _ in range(6)]
    for which, value in values:
        back_up(chains[which], value)
    assert root.visits == len(values)
    for inner in root.walk():
        if inner.children:
            assert inner.visits == sum(child.visits for child in inner.children)
            assert inner.total == pytest.approx(sum(child.total for child in inner.children))


def test_closing_goes_up_only_where_nothing_is_left() -> None:
    root = node()
    left, right = node(root, probability=0.6), node(root, probability=0.4)
    close(node(left, probability=1.0))
    assert left.closed
    assert not root.closed
    leaf = node(right, probability=0.7)
    close(leaf)
    assert not right.closed, "other steps have a probability of 0.3"
    close(node(right, probability=0.3))
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
    """However often the search came back to a node: its leaves share what the node itself has."""

    def grow(parent: Node | None, shape: Any) -> list[Node]:
        votes, below = shape if isinstance(shape, tuple) else (shape, [])
        grown = node(parent, votes=votes)
        return [leaf for inner in below for leaf in grow(grown, inner)] or [grown]

    assert sum(leaf.mass for leaf in grow(None, drawn)) == pytest.approx(1.0)
