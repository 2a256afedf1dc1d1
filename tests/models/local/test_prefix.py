"""Which rows hold which prompts, and which are overwritten next."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rstar.models.local.prefix import Ids, PromptRows

FIRST, ROWS = 7, 12
PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=5)


def ids(tokens: list[int]) -> Ids:
    return np.asarray(tokens, np.int32)


@given(st.lists(PROMPTS, max_size=2 * ROWS), PROMPTS)
def test_the_longest_prefix_is_found(prompts: list[list[int]], wanted: list[int]) -> None:
    """Against a plain record of the rows."""
    rows = PromptRows(FIRST, ROWS)
    held: dict[int, list[int]] = {}
    for prompt in prompts:
        row = rows.take()
        assert FIRST <= row < FIRST + ROWS
        held[row] = prompt
        rows.hold(row, ids(prompt))
    assert sorted(held.values()) == sorted(prompts[-ROWS:]), "those written least recently were overwritten"
    row, length = rows.longest(ids(wanted))
    assert length == max((common(prompt, wanted) for prompt in held.values()), default=0)
    assert common(held.get(row, []), wanted) == length
    for other, prompt in held.items():
        assert [n for n in range(7) if rows.holds_only(other, n)] == [len(prompt)]


def common(one: list[int], other: list[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def test_a_row_that_is_taken_holds_nothing() -> None:
    rows = PromptRows(FIRST, 2)
    for row in (1, 0):
        rows.hold(FIRST + row, ids([row]))
    assert rows.take() == FIRST + 1
    assert rows.longest(ids([1])) == (FIRST, 0)
    assert rows.holds_only(FIRST + 1, 0)
    rows.hold(FIRST + 1, ids([5]))
    rows.hold(FIRST + 0, ids([0, 7]))
    assert rows.take() == FIRST + 1, "a row that is written again is recent"


def test_long_prompts_are_held_whole_until_all_are_forgotten() -> None:
    rows = PromptRows(FIRST, 2)
    rows.hold(FIRST, ids([3] * 300))
    assert rows.longest(ids([3] * 400)) == (FIRST, 300)
    assert rows.longest(ids([])) == (FIRST, 0)
    rows.clear()
    assert rows.longest(ids([3])) == (FIRST, 0)
