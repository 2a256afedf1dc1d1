"""Attention of new tokens over cached keys and values, in float32 on a CPU, compiled by numba.

Generation reads every cached key and value for a few queries. Matrix products of libraries are slow at that shape, and
compute padding for rows of different lengths: batched products of torch took about three times as long.

Invariant: what a query gets depends on the keys and values up to its own position alone, bit for bit. Sums have a fixed
order, and no multiplication is fused with an addition, so neither the processor's vector width nor the number of
threads shows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]

_SIGNATURE = "void(" + "f4[:, :, :, ::1], " * 4 + "i8[::1], f4[:, :, :, ::1], i8, i8)"
_LANES = 16
"""Positions are padded to a multiple of this number, and it divides the capacity of the cache."""
_KEYS, _VALUES = 256, 64
"""Positions whose keys, or values, are read for all heads of a group at once: they fit the fastest cache."""
_LOG2_E = np.float32(1.4426950408889634)
_ZERO, _ONE, _LEAST = np.float32(0.0), np.float32(1.0), np.float32(-126.0)
# 2**y = 1 + y * (c1 + y * (c2 + ...)) for y in [0, 1), to float32's precision
_C1, _C2, _C3 = np.float32(0.6931471806), np.float32(0.2402265070), np.float32(0.0555041087)
_C4, _C5, _C6 = np.float32(0.0096181291), np.float32(0.0013333558), np.float32(0.0001540353)


def attend(qk: Floats, fused: Floats, keys: Floats, values: Floats, starts: Ints, threads: int) -> Floats:
    """Store the keys and values of T new tokens in each of R rows, and compute their attention: (R, T, H, C).

    Args:
        qk: (R, T, H + K, C), queries of H heads and new keys of K heads, both with their positions.
        fused: (R, T, H + 2 K, C), of which the last K heads are the new values.
        keys: (R, K, C, capacity), changed.
        values: (R, K, capacity, C), changed.
        starts: (R,) positions each row already holds.
        threads: number of threads that share the work.
    """
    rows, length, _, dim = qk.shape
    kv = keys.shape[1]
    out = np.empty((rows, length, qk.shape[2] - kv, dim), np.float32)
    compute = partial(_compiled(), qk, fused, keys, values, starts, out)
    units = rows * kv
    if threads == 1 or units == 1:
        compute(0, units)
        return out
    bounds = [units * part // threads for part in range(threads + 1)]
    parts: list[Future[None]] = [_pool(threads).submit(compute, *bound) for bound in pairwise(bounds)]
    for part in parts:
        part.result()
    return out


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "rstar attention")


@cache
def _compiled() -> Callable[..., None]:
    """The compiled function. Numba keeps it on disk, if the package's folder or the user's cache folder is writable."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Callable[..., None] = numba.njit(_SIGNATURE, cache=True, **options)(_attend)
    except RuntimeError:
        compiled = numba.njit(_SIGNATURE, **options)(_attend)
    return compiled


def _attend(
    qk: Floats, fused: Floats, keys: Floats, values: Floats, starts: Ints, out: Floats, begin: int, end: int
) -> None:
    """The part of `attend` for units `begin` to `end` - 1; a unit is a row's head of keys and values."""
    length, dim = qk.shape[1], qk.shape[3]
    heads, kv, capacity = out.shape[2], keys.shape[1], keys.shape[3]
    group = heads // kv
    weights = np.empty((group, capacity), np.float32)
    exponents = np.empty(capacity, np.int32)
    lanes = np.empty(_LANES, np.float32)
    for unit in range(begin, end):
        row, head = unit // kv, unit % kv
        key, value = keys[row, head], values[row, head]
        for t in range(length):
            place = starts[row] + t
            for c in range(dim):
                key[c, place] = qk[row, t, heads + head, c]
                value[place, c] = fused[row, t, heads + kv + head, c]
        for t in range(length):
            count = starts[row] + t + 1
            padded = count + -count % _LANES
            some = slice(head * group, (head + 1) * group)
            _score(qk[row, t, some], key, weights, padded)
            for g in range(group):
                _softmax(weights[g], exponents, lanes, count, padded, np.float32(dim**-0.5))
            _mix(weights, value, out[row, t, some], padded)


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _score(queries: Floats, key: Floats, scores: Floats, padded: int) -> None:
    """Set the first `padded` of `scores` (G, capacity) to products of `queries` (G, C) and `key` (C, capacity).

    Four elements of a key at a time.
    """
    group, dim = queries.shape
    for first in range(0, padded, _KEYS):
        last = min(first + _KEYS, padded)
        for g in range(group):
            query, some = queries[g], scores[g, first:last]
            some[:] = _ZERO
            for c in range(0, dim - dim % 4, 4):
                q0, q1, q2, q3 = query[c], query[c + 1], query[c + 2], query[c + 3]
                k0, k1 = key[c, first:last], key[c + 1, first:last]
                k2, k3 = key[c + 2, first:last], key[c + 3, first:last]
                for p in range(last - first):
                    some[p] += (q0 * k0[p] + q1 * k1[p]) + (q2 * k2[p] + q3 * k3[p])
            for c in range(dim - dim % 4, dim):
                q0, k0 = query[c], key[c, first:last]
                for p in range(last - first):
                    some[p] += q0 * k0[p]


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _softmax(
    scores: Floats, exponents: npt.NDArray[np.int32], lanes: Floats, count: int, padded: int, scale: np.float32
) -> None:
    """Turn the first `count` of `scores` (capacity,) into the softmax of `scale` times them, and the padding into 0.

    `exponents` (capacity,) and `lanes` are scratch memory.
    """
    powers = exponents.view(np.float32)
    scores[count:padded] = -np.inf
    lanes[:] = scores[:_LANES]
    for p in range(_LANES, padded, _LANES):
        for lane in range(_LANES):
            lanes[lane] = scores[p + lane] if scores[p + lane] > lanes[lane] else lanes[lane]
    top = lanes[0]
    for lane in range(1, _LANES):
        top = max(top, lanes[lane])
    for p in range(padded):
        x = (scores[p] - top) * scale * _LOG2_E
        x = x if x > _LEAST else _LEAST
        whole = np.float32(np.floor(x))
        y = x - whole
        exponents[p] = (np.int32(whole) + np.int32(127)) << np.int32(23)  # the bits of 2**whole
        scores[p] = _ONE + y * (_C1 + y * (_C2 + y * (_C3 + y * (_C4 + y * (_C5 + y * _C6)))))
    for p in range(padded):
        scores[p] *= powers[p]
    scores[count:padded] = _ZERO
    lanes[:] = _ZERO
    for p in range(0, padded, _LANES):
        for lane in range(_LANES):
            lanes[lane] += scores[p + lane]
    total = _ZERO
    for lane in range(_LANES):
        total += lanes[lane]
    share = _ONE / total
    for p in range(padded):
        scores[p] *= share


@register_jitable(inline="always")  # type: ignore[untyped-decorator]
def _mix(weights: Floats, value: Floats, mixed: Floats, padded: int) -> None:
    """Set `mixed` (G, C) to the sums of the first `padded` of `value` (capacity, C), by `weights` (G, capacity).

    Four positions at a time.
    """
    group, dim = mixed.shape
    mixed[:] = _ZERO
    for first in range(0, padded, _VALUES):
        for g in range(group):
            sums, some = mixed[g], weights[g]
            for p in range(first, min(first + _VALUES, padded), 4):
                w0, w1, w2, w3 = some[p], some[p + 1], some[p + 2], some[p + 3]
                v0, v1, v2, v3 = value[p], value[p + 1], value[p + 2], value[p + 3]
                for c in range(dim):
                    sums[c] += (w0 * v0[c] + w1 * v1[c]) + (w2 * v2[c] + w3 * v3[c])
