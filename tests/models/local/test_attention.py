"""The compiled attention: equal to the formula, and to itself bit for bit whatever is computed beside it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.models.local.attention import Floats, Ints, attend
from rstar.models.local.attention_code import LANES

CAPACITY = 512
SHAPES = [(1, 1, 2), (2, 1, 6), (1, 3, 8), (2, 5, 24), (3, 2, 32), (1, 2, 80)]
"""Heads of keys and values, heads of queries for each, and their width. Each shape is compiled."""


def attention(qk: Floats, fused: Floats, keys: Floats, values: Floats, starts: Ints, threads: int = 1) -> Floats:
    """`attend` for rows that read their own blocks, in their order."""
    rows, kv, blocks = keys.shape[:3]
    sources = np.repeat(np.arange(rows)[:, None], blocks, axis=1)
    return attend(qk, fused, keys, values, 0, starts, sources, np.arange(rows * kv), threads)


class Case(NamedTuple):
    """The arguments of `attend`; each call of `run` has copies of the caches."""

    qk: Floats
    fused: Floats
    keys: Floats
    values: Floats
    starts: Ints

    def run(self, threads: int = 1) -> Floats:
        return attention(*self[:2], self.keys.copy(), self.values.copy(), self.starts, threads)

    def part(self, row: int) -> Case:
        """One row, in arrays of its own."""
        some = slice(row, row + 1)
        qk, fused, keys, values = (array[some].copy() for array in self[:4])
        return Case(qk, fused, keys, values, self.starts[some])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    kv, group, dim = draw(st.sampled_from(SHAPES))
    starts = np.array(draw(st.lists(st.integers(0, CAPACITY - length), min_size=rows, max_size=rows)), np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> Floats:
        return rng.normal(0, draw(st.sampled_from([0.3, 3.0])), shape).astype(np.float32)

    heads = kv * group
    return Case(
        normal(rows, length, heads + kv, dim), normal(rows, length, heads + 2 * kv, dim),
        normal(rows, kv, CAPACITY // LANES, dim, LANES), normal(rows, kv, CAPACITY, dim), starts,
    )  # fmt: skip


def formula(case: Case) -> npt.NDArray[np.float64]:
    qk, fused, keys, values = (array.astype(np.float64) for array in case[:4])
    keys = keys.swapaxes(3, 4).reshape(*values.shape)  # (R, K, capacity, C)
    rows, length, _, dim = qk.shape
    kv = keys.shape[1]
    heads = qk.shape[2] - kv
    out = np.empty((rows, length, heads, dim))
    for row, start in enumerate(case.starts):
        keys[row, :, start : start + length] = qk[row, :, heads:].transpose(1, 0, 2)
        values[row, :, start : start + length] = fused[row, :, heads + kv :].transpose(1, 0, 2)
        for t in range(length):
            for head in range(heads):
                of, count = head // (heads // kv), start + t + 1
                scores = keys[row, of, :count] @ qk[row, t, head] / dim**0.5
                weights = np.exp(scores - scores.max())
                out[row, t, head] = weights / weights.sum() @ values[row, of, :count]
    return out


@given(cases())
@settings(max_examples=60, deadline=None)
def test_equals_the_formula(case: Case) -> None:
    np.testing.assert_allclose(case.run(), formula(case), atol=3e-5, rtol=3e-5)


@given(cases(), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_neither_other_rows_nor_later_positions_nor_threads_show(case: Case, threads: int) -> None:
    together = case.run()
    assert np.array_equal(case.run(threads), together)
    for row, start in enumerate(case.starts):
        alone = case.part(row)
        # What an earlier user of the row left.
        alone.keys[:, :, start // LANES, :, start % LANES :] = 7.0
        alone.keys[:, :, start // LANES + 1 :] = 7.0
        alone.values[:, :, start:] = -7.0
        assert np.array_equal(alone.run()[0], together[row])


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_division_into_calls_does_not_show(case: Case) -> None:
    together = case.run()
    keys, values = case.keys.copy(), case.values.copy()
    for t in range(together.shape[1]):
        qk, fused = (np.ascontiguousarray(array[:, t : t + 1]) for array in (case.qk, case.fused))
        assert np.array_equal(attention(qk, fused, keys, values, case.starts + t)[:, 0], together[:, t])


@given(cases(), st.data())
@settings(max_examples=60, deadline=None)
def test_neither_the_place_of_a_copy_nor_the_order_shows(case: Case, data: st.DataObject) -> None:
    """Rows behind another row in a larger cache, which read blocks that they hold from copies of them in any rows."""
    together = case.run()
    rows, kv, blocks = case.keys.shape[:3]
    first, more = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    total = first + rows + more
    keys = np.full((total, *case.keys.shape[1:]), 9.0, np.float32)
    values = np.full((total, *case.values.shape[1:]), -9.0, np.float32)
    keys[first : first + rows], values[first : first + rows] = case.keys, case.values
    sources = np.repeat(np.arange(first, first + rows)[:, None], blocks, axis=1)
    for row, start in enumerate(case.starts):
        for block in range(start // LANES):
            source = data.draw(st.sampled_from([*range(first), first + row, *range(first + rows, total)]))
            if source not in sources[:, block]:
                sources[row, block] = source
                place = slice(block * LANES, (block + 1) * LANES)
                keys[source, :, block], values[source, :, place] = case.keys[row, :, block], case.values[row, :, place]
                keys[first + row, :, block], values[first + row, :, place] = 9.0, -9.0
    order = np.array(data.draw(st.permutations(range(rows * kv))))
    out = attend(case.qk, case.fused, keys, values, first, case.starts, sources, order, data.draw(st.integers(1, 3)))
    assert np.array_equal(out, together)


def test_scores_far_apart_and_huge_ones() -> None:
    """Softmax of scores whose exponentials would overflow, or vanish."""
    rng = np.random.default_rng(3)
    qk = rng.normal(0, 60, (1, 1, 2, 8)).astype(np.float32)
    fused = rng.normal(0, 1, (1, 1, 3, 8)).astype(np.float32)
    keys, values = (rng.normal(0, 60, (1, 1, *shape)).astype(np.float32) for shape in ((4, 8, 16), (64, 8)))
    case = Case(qk, fused, keys, values, np.array([40]))
    np.testing.assert_allclose(case.run(), formula(case), atol=1e-2, rtol=1e-3)
