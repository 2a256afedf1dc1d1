"""Blocks are read from rows that hold the same positions, whatever is copied and written."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.models.local.shared_blocks import SharedBlocks

ROWS, SIZE, POSITIONS = 5, 4, 32


class Cache:
    """Rows of numbers, beside the blocks under test; `lengths` positions of each row count."""

    def __init__(self) -> None:
        self.shared = SharedBlocks(ROWS, SIZE)
        self.shared.reserve(POSITIONS // 2)
        self.shared.reserve(POSITIONS)
        self.contents = np.zeros((ROWS, POSITIONS), np.int64)
        self.lengths = np.zeros(ROWS, np.int64)

    def write(self, first: int, starts: list[int], length: int, number: int = 1) -> None:
        self.shared.write(first, np.array(starts))
        for row, start in enumerate(starts, first):
            self.contents[row, start : start + length] = number
            self.lengths[row] = start + length

    def copy(self, source: int, target: int, start: int, end: int) -> None:
        blocks = slice(start // SIZE * SIZE, -(-end // SIZE) * SIZE)
        self.contents[target, blocks] = self.contents[source, blocks]
        self.lengths[target] = end
        self.shared.copy(source, target, start, end)

    def check(self) -> None:
        sources = self.shared.sources(0, ROWS)
        kept = self.shared.order(0, self.lengths, heads=2)
        self.shared._order = None
        assert np.array_equal(self.shared.order(0, self.lengths, heads=2), kept)
        for row, length in enumerate(self.lengths):
            for block in range(POSITIONS // SIZE):
                place = slice(block * SIZE, (block + 1) * SIZE)
                if place.stop <= length:
                    assert np.array_equal(self.contents[sources[row, block], place], self.contents[row, place])
                else:
                    assert sources[row, block] == row


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_block_is_read_where_its_content_lies(data: st.DataObject) -> None:
    cache = Cache()
    for _ in range(data.draw(st.integers(1, 20))):
        if data.draw(st.booleans()):
            first = data.draw(st.integers(0, ROWS - 1))
            length = data.draw(st.integers(1, 9))
            rows = data.draw(st.integers(1, ROWS - first))
            # A row goes on where it ends, or is written anew from any position that it holds.
            most = [min(int(held), POSITIONS - length) for held in cache.lengths[first : first + rows]]
            starts = [data.draw(st.sampled_from([0, held // 2, held])) for held in most]
            cache.write(first, starts, length, data.draw(st.integers(1, 3)))
        else:
            source, target = data.draw(st.permutations(range(ROWS)))[:2]
            end = data.draw(st.integers(0, int(cache.lengths[source])))
            alike = cache.contents[source, :end] == cache.contents[target, :end]
            held = min(end, int(cache.lengths[target]), int(np.argmin(np.append(alike, False))))
            cache.copy(source, target, data.draw(st.sampled_from([0, held // 2, held])), end)
        cache.check()


def test_copies_are_read_from_one_row() -> None:
    cache = Cache()
    cache.write(0, [0], 10)
    for row in (1, 2, 3):
        cache.copy(0, row, 0, 10)
    assert cache.shared.sources(0, 4)[:, :2].tolist() == [[0, 0]] * 4
    cache.write(0, [5], 3)
    assert cache.shared.sources(0, 4)[:, :2].tolist() == [[0, 0], [0, 1], [0, 1], [0, 1]]


def test_an_heir_lends_only_what_it_read() -> None:
    """Row 1 has a first block of its own, so row 2, which shared that block alone, reads its own copy of it."""
    cache = Cache()
    cache.write(0, [0, 0], 4)
    cache.write(0, [4], 4)
    cache.copy(0, 1, 4, 8)
    cache.copy(0, 2, 0, 4)
    cache.write(0, [0], 1)
    assert cache.shared.sources(0, 3)[:, :2].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_the_order_has_rows_that_begin_alike_beside_each_other_for_each_head() -> None:
    cache = Cache()
    cache.write(0, [0, 0], 8)
    cache.copy(1, 2, 0, 8)
    cache.copy(0, 3, 0, 8)
    order = cache.shared.order(0, np.array([8, 8, 8, 8]), heads=2)
    assert [divmod(int(unit), 2) for unit in order] == [
        (0, 0), (3, 0), (0, 1), (3, 1), (1, 0), (2, 0), (1, 1), (2, 1),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 31), min_size=1, max_size=ROWS), st.integers(1, 3))
def test_the_order_has_each_unit_once(starts: list[int], heads: int) -> None:
    order = Cache().shared.order(0, np.array(starts), heads)
    assert sorted(order.tolist()) == list(range(len(starts) * heads))
