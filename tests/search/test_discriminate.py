import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstar.grading import is_equivalent
from rstar.models.engine import Context
from rstar.search.discriminate import Candidate, agrees, choose_candidate, cut_places, survivors
from rstar.search.tree import Node
from rstar.trajectories import Segment, Step


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=60), st.integers(1, 8), st.integers(0, 99))
def test_cuts_are_at_words_between_20_and_80_percent(words: list[str], cuts: int, seed: int) -> None:
    text = " ".join(words)
    places = cut_places(text, cuts, seed)
    assert places == sorted(set(places)) == cut_places(text, cuts, seed)
    assert 1 <= len(places) <= cuts
    if places == [0]:
        assert len(words) < 4
        return
    for place in places:
        before = text[:place].split()
        assert text[:place].endswith(" ")
        assert before == words[: len(before)]
        assert 0.2 <= len(before) / len(words) <= 0.8


def test_cuts_cover_the_range() -> None:
    text = " ".join("abcdefghij")
    assert {place for seed in range(200) for place in cut_places(text, 1, seed)} == {4, 6, 8, 10, 12, 14, 16}


@pytest.mark.parametrize(
    ("answers", "strict", "mid", "loose", "majority"),
    [
        ([1, 1, 1, 1], True, True, True, True),
        ([1, 1, 2, 2], False, True, True, True),
        ([1, 1, 2, 3], False, True, True, True),
        ([1, 2, 2, 3], False, False, True, False),
        ([1, 2, 3, None], False, False, True, True),
        ([2, 2, None, None], False, False, False, False),
        ([None, None], False, False, False, False),
        ([1], True, True, True, True),
        ([1, None, None], False, False, True, True),
    ],
)
def test_modes_by_hand(answers: list[int | None], strict: bool, mid: bool, loose: bool, majority: bool) -> None:
    modes = ("strict", "mid", "loose", "majority")
    assert [agrees(mode, answers, own=1) for mode in modes] == [strict, mid, loose, majority]


@given(st.lists(st.sampled_from([1, 2, 3, None]), min_size=1, max_size=8))
def test_stricter_modes_keep_less(answers: list[int | None]) -> None:
    strict, mid, loose = (agrees(mode, answers, own=1) for mode in ("strict", "mid", "loose"))
    assert strict <= mid <= loose


def candidate(answer: str, *qs: float, kept: bool = True, value: float = 0.5) -> Candidate:
    node = Node(None, None, Context(""), None)
    for q in qs:
        node = Node(node, Step((Segment("x", "policy"),)), Context(""), None, visits=2, total=2 * q)
    node.answer, node.value = answer, value
    return Candidate(node, kept)


def chosen(candidates: list[Candidate], final: str) -> str | None:
    found = asyncio.run(choose_candidate(candidates, final, is_equivalent))
    return None if found is None else found.node.answer


def test_score_is_the_product_of_mean_values() -> None:
    assert candidate("1", 0.5, 0.8, 0.5).score == pytest.approx(0.2)


def test_product_takes_the_best_survivor() -> None:
    best, second = candidate("1", 0.9, 0.9), candidate("2", 0.9, 0.8)
    assert chosen([second, best], "product") == "1"
    rejected = candidate("1", 0.9, 0.9, kept=False)
    assert chosen([rejected, second], "product") == "2"
    assert chosen([rejected], "product") == "1", "nothing survived: all candidates count"
    assert chosen([], "product") is None


def test_sum_by_hand() -> None:
    """Equivalent answers share their values: 0.5 and 1/2 have 0.6 + 0.3 of 1.6, and both survived (0.5625 + 1)."""
    candidates = [
        candidate("3", 0.9, value=0.7),
        candidate("0.5", 0.4, value=0.6),
        candidate("1/2", 0.6, value=0.3),
        candidate("3", 0.8, value=0.2, kept=False),
    ]
    assert chosen(candidates, "sum") == "1/2", "3 has 0.7 of 1.6 and one of two survived: 0.4375 + 0.5"
    assert chosen(candidates, "product") == "3"


@given(st.lists(st.booleans(), max_size=6))
def test_survivors_are_never_empty_without_need(kept: list[bool]) -> None:
    candidates = [candidate("1", 0.5, kept=one) for one in kept]
    left = survivors(candidates)
    assert len(left) == (sum(kept) or len(kept))
