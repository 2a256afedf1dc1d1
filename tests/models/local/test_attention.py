"""The compiled attention: equal to the formula, and to itself bit for bit whatever is computed beside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rstar.models.local import attention
from rstar.models.local.attention import attend

CAPACITY = 512


class Case(NamedTuple):
    """The arguments of `attend`; each call of `run` has copies of the caches."""

    qk: npt.NDArray[np.float32]
    fused: npt.NDArray[np.float32]
    keys: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]
    starts: npt.NDArray[np.int64]

    def run(self, threads: int = 1) -> npt.NDArray[np.float32]:
        return attend(self.qk, self.fused, self.keys.copy(), self.values.copy(), self.starts, threads)

    def part(self, row: int) -> Case:
        """One row, in arrays of its own."""
        some = slice(row, row + 1)
        qk, fused, keys, values = (array[some].copy() for array in self[:4])
        return Case(qk, fused, keys, values, self.starts[some])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows, length, kv, group = (draw(st.integers(1, most)) for most in (4, 3, 3, 3))
    dim = draw(st.sampled_from([2, 6, 8, 24, 32]))
    starts = np.array(draw(st.lists(st.integers(0, CAPACITY - length), min_size=rows, max_size=rows)), np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> npt.NDArray[np.float32]:
        return rng.normal(0, draw(st.sampled_from([0.3, 3.0])), shape).astype(np.float32)

    heads = kv * group
    return Case(
        normal(rows, length, heads + kv, dim), normal(rows, length, heads + 2 * kv, dim),
        normal(rows, kv, dim, CAPACITY), normal(rows, kv, CAPACITY, dim), starts,
    )  # fmt: skip


def formula(case: Case) -> npt.NDArray[np.float64]:
    qk, fused, keys, values = (array.astype(np.float64) for array in case[:4])
    rows, length, _, dim = qk.shape
    kv = keys.shape[1]
    heads = qk.shape[2] - kv
    out = np.empty((rows, length, heads, dim))
    for row, start in enumerate(case.starts):
        keys[row, :, :, start : start + length] = qk[row, :, heads:].transpose(1, 2, 0)
        values[row, :, start : start + length] = fused[row, :, heads + kv :].transpose(1, 0, 2)
        for t in range(length):
            for head in range(heads):
                of, count = head // (heads // kv), start + t + 1
                scores = qk[row, t, head] @ keys[row, of, :, :count] / dim**0.5
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
        alone.keys[..., start:] = 7.0  # what an earlier user of the row left
        alone.values[:, :, start:] = -7.0
        assert np.array_equal(alone.run()[0], together[row])


@given(cases())
@settings(max_examples=60, deadline=None)
def test_the_division_into_calls_does_not_show(case: Case) -> None:
    together = case.run()
    keys, values = case.keys.copy(), case.values.copy()
    for t in range(together.shape[1]):
        qk, fused = (np.ascontiguousarray(array[:, t : t + 1]) for array in (case.qk, case.fused))
        assert np.array_equal(attend(qk, fused, keys, values, case.starts + t, 1)[:, 0], together[:, t])


def test_scores_far_apart_and_huge_ones() -> None:
    """Softmax of scores whose exponentials would overflow, or vanish."""
    rng = np.random.default_rng(3)
    qk = rng.normal(0, 60, (1, 1, 2, 8)).astype(np.float32)
    fused = rng.normal(0, 1, (1, 1, 3, 8)).astype(np.float32)
    keys, values = (rng.normal(0, 60, (1, 1, *shape)).astype(np.float32) for shape in ((8, 64), (64, 8)))
    case = Case(qk, fused, keys, values, np.array([40]))
    np.testing.assert_allclose(case.run(), formula(case), atol=1e-2, rtol=1e-3)


def test_works_where_nothing_can_be_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(*arguments: Any, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(numba, "njit", njit)
    attention._compiled.cache_clear()
    try:
        zeros = np.zeros((1, 1, 2, 4), np.float32)
        ones = np.ones((1, 1, 3, 4), np.float32)
        caches = np.zeros((1, 1, 4, 16), np.float32), np.zeros((1, 1, 16, 4), np.float32)
        assert np.array_equal(attend(zeros, ones, *caches, np.array([0]), 1), ones[:, :, :1])
    finally:
        attention._compiled.cache_clear()
