"""How many samples of a node are asked for, and how copies are merged."""

import math

from hypothesis import given
from hypothesis import strategies as st

from rstar.models.engine import Completion, Context
from rstar.search.samples import chance_of, distinct, merged, more_samples
from rstar.search.states import SharedState
from rstar.search.tree import Node
from tests.search.plain import PlainSandbox


def sample(text: str, chance: float | None = None) -> Completion:
    return Completion(text, (1,), () if chance is None else (math.log(chance),), "stop", None)


def node(*chances: float | None) -> Node:
    """A node with children of these probabilities."""
    root = Node(None, None, Context("", ()), None)
    root.children = tuple(Node(root, None, Context("", ()), None, chance=chance) for chance in chances)
    return root


TEXTS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(TEXTS)
def test_copies_are_votes_for_the_first(texts: list[str]) -> None:
    found = [sample(text) for text in texts]
    votes = merged(found, merge=True)
    assert [one.text for one, _ in votes] == list(dict.fromkeys(texts))
    assert {id(one) for one in distinct(found)} == {id(one) for one, _ in votes}
    assert [count for _, count in votes] == [texts.count(one.text) for one, _ in votes]
    assert all(one is found[texts.index(one.text)] for one, _ in votes)
    assert merged(found, merge=False) == [(one, 1) for one in found]


@given(st.floats(0.01, 0.99), st.integers(1, 16))
def test_the_first_sample_is_always_drawn_and_none_beyond_the_most(chance: float, most: int) -> None:
    root = node(chance)
    assert more_samples(root, [], most) == 1
    assert more_samples(root, [sample("a", 0.001)] * most, most) == 0


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4), st.integers(2, 16))
def test_what_is_unseen_decides_how_many_follow(chances: list[float], most: int) -> None:
    found = [sample(str(number), chance / len(chances)) for number, chance in enumerate(chances)][: most - 1]
    unseen = 1 - sum(chance_of(one) or 0 for one in found)
    more, left = more_samples(node(), found, most), most - len(found)
    if unseen > 0.9:
        assert more == left, "copies are unlikely"
    elif left * unseen < 0.49:
        assert more == 0, "the next one would most likely be a copy"
    else:
        assert more <= 1
    assert more_samples(node(0.5, None), found, most) == left, "unknown probabilities tell nothing"


def test_known_steps_and_copies_count_once() -> None:
    assert more_samples(node(), [sample("a", 0.05)], 9) == 8
    assert more_samples(node(), [sample("a", 0.05)] * 3, 9) == 6, "a copy is no further step"
    assert more_samples(node(0.99), [sample("a", 0.001)], 9) == 0, "an earlier expansion saw it"
    again = node(0.05)
    again.texts["a"] = again.children[0]
    assert more_samples(again, [sample("a", 0.05)], 9) == 8, "the child is that sample"


def test_rounding_makes_no_probability_above_one() -> None:
    assert chance_of(Completion("a", (1,), (1e-7,), "stop", None)) == 1.0
    assert chance_of(Completion("a", (1,), (), "stop", None)) is None


def test_a_shared_state_is_released_with_its_last_user() -> None:
    box = PlainSandbox()
    state = SharedState(box.start())
    assert state.keep().keep() is state
    state.leave()
    assert box.live == 1
    state.leave()
    assert box.live == 0
